"""What the gateway may be told."""

from typing import Literal

from pydantic import Field, field_validator

from gateway.source import networks
from service_kit.settings import ObjectSettings

__all__ = ["GatewaySettings"]


class GatewaySettings(ObjectSettings):
    """The gateway's own settings (``GROVE_…``)."""

    listen: str = Field(default="127.0.0.1:8080", description="host:port of the public HTTP interface.")
    memories_revision: Literal["original", "post3"] = Field(
        default="original",
        description="Revision of the Memories chapter spoken to clients that name none.",
    )
    body_limit_bytes: int = Field(
        default=8 * 1024 * 1024, ge=1024, description="Largest request body; a larger one is refused (413)."
    )
    header_limit_bytes: int = Field(
        default=32 * 1024, ge=1024, description="Largest request line and headers together (413)."
    )
    stream_keepalive_s: float = Field(
        default=15.0, gt=0, le=30, description="Silence on an event stream after which a comment is sent."
    )
    stream_deadline_s: float = Field(
        default=3600.0,
        gt=0,
        description="How long one call follows a response before it is renewed; clients notice nothing.",
    )
    stream_patience_s: float = Field(
        default=30.0, ge=0, description="How long a broken follow of a response is retried."
    )
    rate_limit: int = Field(
        default=12_000,
        ge=0,
        le=1_000_000,
        description="Requests a principal may make in a minute, at all gateways together; 0: any number.",
    )
    rate_limit_turns: int = Field(
        default=600,
        ge=0,
        le=1_000_000,
        description="The same for requests that start a turn (`POST /v1/responses`), which count for both.",
    )
    rate_limit_refused: int = Field(
        default=300,
        ge=0,
        le=1_000_000,
        description="Credentials that may be refused in a minute from one address before 429 is answered instead of 401.",
    )
    trusted_proxies: str = Field(
        default="",
        description="Networks whose `X-Forwarded-For` is believed, separated by commas: `10.0.0.0/8, 2001:db8::/32`.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        try:
            networks(value)
        except ValueError:
            raise ValueError("name networks, as in 10.0.0.0/8, with no bit set beyond the prefix") from None
        return value
