"""The secrets of an embedded deployment: made at the first start, kept in ``$GROVE_HOME``, mode 600."""

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.home import Home, write_private
from service_kit.identity import generate_keys

__all__ = ["SCHEMAS", "Keys", "ensure"]

SCHEMAS: Final = ("authz", "memory", "runner", "provider")
_TOKEN_HOLDERS: Final = ("gateway", "memory", "runner", "provider")


@dataclass(frozen=True, slots=True)
class Keys:
    """What :func:`ensure` found or made. The maps are by service."""

    signing_key: Path
    verification_keys: Path
    bootstrap: Path
    postgres_password: str
    role_passwords: Mapping[str, str]
    service_tokens: Mapping[str, str]


def ensure(home: Home) -> Keys:
    """Read the secrets, making those that are missing.

    Raises :class:`LaunchError` when the password of an existing database is lost or a file is damaged.
    """
    signing, verification = home.keys / "signing.jwk", home.keys / "passport.jwks"
    if not (signing.exists() and verification.exists()):
        private, public = generate_keys()
        write_private(signing, private)
        write_private(verification, public)
    roles = _map(home.keys / "roles.json", SCHEMAS, _password)
    tokens = _map(home.keys / "service_tokens.json", _TOKEN_HOLDERS, _token)
    admin = _text(home.admin_token, _token)
    bootstrap = home.keys / "bootstrap.json"
    _keep(bootstrap, json.dumps({"admin_token": admin, "service_tokens": tokens}))
    return Keys(signing, verification, bootstrap, _postgres_password(home), roles, tokens)


def _postgres_password(home: Home) -> str:
    path = home.keys / "postgres.password"
    if not path.exists() and (home.postgres / "data").exists():
        raise LaunchError(
            f"{path} is gone, and the database in {home.postgres} opens with nothing else",
            "restore the file from a backup of the directory",
            REFUSED,
        )
    return _text(path, _password)


def _password() -> str:
    return secrets.token_hex(24)


def _token() -> str:
    return f"gk_{secrets.token_urlsafe(32)}"


def _text(path: Path, make: Callable[[], str]) -> str:
    if path.exists():
        text = path.read_text(encoding="utf-8").strip()
        if text:
            return text
    made = make()
    write_private(path, made + "\n")
    return made


def _map(path: Path, names: tuple[str, ...], make: Callable[[], str]) -> dict[str, str]:
    """A JSON object with one secret for each name; those missing are added."""
    known: dict[str, str] = {}
    if path.exists():
        try:
            known = cast("dict[str, str]", json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            raise LaunchError(
                f"{path} is damaged", "restore it from a backup, or remove it", REFUSED
            ) from None
    whole = {name: known.get(name) or make() for name in names}
    _keep(path, json.dumps({**known, **whole}))
    return whole


def _keep(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_private(path, text)
