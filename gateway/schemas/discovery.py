"""Discovery (UHP Lifecycle) and the error envelope (UHP Errors)."""

from importlib.metadata import version
from typing import Any, Final, Literal

from gateway.schemas.base import Answer

__all__ = ["DEFAULT_VERSION", "VERSIONS", "Discovery", "Envelope", "Fault", "discovery"]

DEFAULT_VERSION: Final = "2026-10-04"
VERSIONS: Final = (DEFAULT_VERSION, "2026-09-28", "2026-09-12", "2026-08-11")
"""What we serve, and its additive predecessors."""


class Capabilities(Answer, kw_only=True, frozen=True):
    """What this server does; ``false`` is spelled out."""

    streaming: bool = True
    sessions: bool = True
    cancellation: bool = True
    files_input: bool = False
    files_output: bool = False
    session_listing: bool = True
    harness_management: bool = True
    session_sharing: bool = True
    idempotency: bool = True
    memories: bool = True
    plugins: bool = False
    environments: bool = False


class Implementation(Answer, kw_only=True, frozen=True):
    """What serves."""

    name: str
    version: str


class Discovery(Answer, kw_only=True, frozen=True):
    """What a client learns before it has a token."""

    object: Literal["uhp.discovery"] = "uhp.discovery"
    protocol: Literal["uhp"] = "uhp"
    versions: list[str]
    default_version: str
    conformance_class: Literal["core", "extended", "full"]
    capabilities: Capabilities
    implementation: Implementation


def discovery() -> Discovery:
    """Nothing in it depends on who asks."""
    return Discovery(
        versions=list(VERSIONS),
        default_version=DEFAULT_VERSION,
        conformance_class="core",
        capabilities=Capabilities(),
        implementation=Implementation(name="grovekeeper", version=version("grovekeeper")),
    )


class Fault(Answer, kw_only=True, frozen=True):
    """The five fields of every error."""

    type: str
    code: str
    message: str
    param: str | None
    detail: dict[str, Any] | None


class Envelope(Answer, kw_only=True, frozen=True):
    """The body of every answer that is not 2xx."""

    error: Fault
