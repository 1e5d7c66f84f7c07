"""The tokens an operator's bootstrap file brings in: the first administrator's, and the services' own."""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from authz_service.domain.create_token import issued
from authz_service.domain.model import NewToken, Token
from authz_service.domain.ports import Tokens
from authz_service.domain.revoke_token import revoked
from authz_service.domain.secrets import LONGEST, digest, is_jwt
from service_kit.clock import Clock
from service_kit.ids import new_id

SHORTEST: Final = 20
"""Shortest token an operator may choose, in characters."""

_NAME: Final = re.compile(r"[a-z][a-z_]{0,30}")
_log: Final = logging.getLogger(__name__)


class BootstrapError(ValueError):
    """The file cannot be used; the message says why and never a token."""


@dataclass(frozen=True, slots=True)
class Named:
    """One token of the file: what it is called there, who bears it, and the secret."""

    name: str
    principal: str
    scopes: tuple[str, ...]
    secret: str


def parse(text: str) -> list[Named]:
    """What a bootstrap file names: ``{"admin_token": "…", "service_tokens": {"memory": "…", …}}``.

    Raises :class:`BootstrapError`.
    """
    try:
        document = cast("object", json.loads(text))
    except ValueError:
        raise BootstrapError("it is not JSON") from None
    if not isinstance(document, dict):
        raise BootstrapError("it is not a JSON object")
    fields = cast("Mapping[str, object]", document)
    services = fields.get("service_tokens", {})
    if not isinstance(services, dict):
        raise BootstrapError("service_tokens is not an object")
    named: list[Named] = []
    if "admin_token" in fields:
        secret = _secret("admin_token", fields["admin_token"])
        named.append(Named("admin", "credential:admin", ("user", "admin"), secret))
    for name, value in cast("Mapping[str, object]", services).items():
        if _NAME.fullmatch(name) is None:
            raise BootstrapError("a service's name is not of lower case letters")
        secret = _secret(f"service_tokens.{name}", value)
        named.append(Named(f"service:{name}", f"service:{name}", ("service",), secret))
    if len({one.secret for one in named}) != len(named):
        raise BootstrapError("two of its tokens are the same")
    return named


def _secret(name: str, value: object) -> str:
    if not isinstance(value, str) or not SHORTEST <= len(value) <= LONGEST or not value.isascii():
        raise BootstrapError(f"{name} is not a token of {SHORTEST} to {LONGEST} ASCII characters")
    if is_jwt(value):
        raise BootstrapError(f"{name} has two dots, as only a JWT may")
    return value


async def ensure(tokens: Tokens, named: list[Named], clock: Clock) -> None:
    """Make these the only bootstrap tokens; any number of times. A revoked one stays revoked."""
    now = clock.now()
    async with tokens.change() as tx:
        for one in named:
            token = Token(new_id("tok"), one.principal, (), one.scopes, now, bootstrap=one.name)
            kept = await tx.add(NewToken(token, digest(one.secret)))
            if kept.id == token.id:
                await tx.record(issued(token))
            elif kept.revoked_at is not None:
                _log.warning("the bootstrap token of %s was revoked; put another one in the file", one.name)
        for token in await tx.end_bootstrap([digest(one.secret) for one in named], now):
            await tx.record(revoked(token))
