"""``grove token``: the administrator's routes of the gateway, from the command line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from service_kit.cli.gateway import Document, connected, text
from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.settings import UpSettings

__all__ = ["Wanted", "create", "listed", "revoke", "seconds"]

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800}
_ROUTE: Final = "/v1/grovekeeper/tokens"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token to be made: for exactly one of a person and a credential."""

    person: str | None
    credential: str | None
    groups: list[str]
    ttl_seconds: int | None
    admin: bool = False

    def body(self) -> dict[str, object]:
        """As the route takes it."""
        fields: dict[str, object | None] = {
            "person": self.person,
            "credential": self.credential,
            "groups": self.groups or None,
            "ttl_seconds": self.ttl_seconds,
            "scopes": ["user", "admin"] if self.admin else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def seconds(text: str) -> int:
    """``30d``, ``12h``, ``15m``, ``90s`` or plain seconds. Raises :class:`LaunchError`."""
    match = re.fullmatch(r"(\d{1,9})([smhdw]?)", text.strip())
    if match is None or int(match[1]) == 0:
        raise LaunchError(f"{text!r} is not a time", "write it like 30d, 12h, 15m or 3600", REFUSED)
    return int(match[1]) * _UNITS[match[2]]


def create(settings: UpSettings, wanted: Wanted) -> str:
    """The new token. Raises :class:`LaunchError`."""
    with connected(settings) as gateway:
        token = text(gateway.post(_ROUTE, wanted.body()), "token")
        if not token:
            raise LaunchError(f"{gateway.url} answered without a token; is it a grovekeeper?")
        return token


def listed(settings: UpSettings, principal: str | None, *, ended: bool) -> Iterator[list[str]]:
    """The rows of a table of tokens, newest first; ``ended``: expired and revoked ones too. Raises
    :class:`LaunchError`.
    """
    yield ["ID", "PRINCIPAL", "SCOPES", "CREATED", "ISSUED BY", "LAST USED", "ENDS"]
    query = {"principal": principal, "include_ended": "true" if ended else None}
    with connected(settings) as gateway:
        for token in gateway.pages(_ROUTE, query):
            yield [
                text(token, "id"),
                text(token, "principal"),
                ",".join(map(str, cast("list[object]", token.get("scopes", [])))),
                _minute(text(token, "created_at")),
                _issuer(token),
                _minute(text(token, "last_used_at")) or "never",
                _end(token),
            ]


def revoke(settings: UpSettings, token: str) -> None:
    """Revoke a token by itself or by its id. Raises :class:`LaunchError`."""
    with connected(settings) as gateway:
        gateway.post(f"{_ROUTE}/revoke", {"id" if token.startswith("tok_") else "token": token})


def _issuer(token: Document) -> str:
    """The principal, or what the operator's file calls the token."""
    named = text(token, "bootstrap")
    return f"file ({named})" if named else text(token, "created_by") or "-"


def _end(token: Document) -> str:
    revoked = text(token, "revoked_at")
    return f"revoked {_minute(revoked)}" if revoked else _minute(text(token, "expires_at")) or "never"


def _minute(moment: str) -> str:
    """RFC 3339 as people read it: UTC, to the minute."""
    return moment[:16].replace("T", " ")
