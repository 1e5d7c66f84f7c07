"""``grove token``: the administrator's routes of the gateway, from the command line."""

import re
from dataclasses import dataclass
from typing import Final, cast

import httpx

from service_kit.embedded import state
from service_kit.embedded.errors import FAILED, REFUSED, LaunchError
from service_kit.embedded.home import Home
from service_kit.embedded.ports import HOST
from service_kit.embedded.settings import UpSettings

__all__ = ["Wanted", "base_url", "create", "revoke", "seconds"]

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800}
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """A token to be made: for exactly one of a person and a credential."""

    person: str | None
    credential: str | None
    groups: list[str]
    ttl_seconds: int | None

    def body(self) -> dict[str, object]:
        """As the route takes it."""
        fields: dict[str, object | None] = {
            "person": self.person,
            "credential": self.credential,
            "groups": self.groups or None,
            "ttl_seconds": self.ttl_seconds,
        }
        return {name: value for name, value in fields.items() if value is not None}


def seconds(text: str) -> int:
    """``30d``, ``12h``, ``15m``, ``90s`` or plain seconds. Raises :class:`LaunchError`."""
    match = re.fullmatch(r"(\d{1,9})([smhdw]?)", text.strip())
    if match is None or int(match[1]) == 0:
        raise LaunchError(f"{text!r} is not a time", "write it like 30d, 12h, 15m or 3600", REFUSED)
    return int(match[1]) * _UNITS[match[2]]


def base_url(settings: UpSettings) -> str:
    """Where the gateway is: GROVE_URL, else the running deployment's, else GROVE_PORT here."""
    if settings.url is not None:
        return settings.url.rstrip("/")
    running = state.read(Home(settings.directory()))
    return running.url if running is not None and running.url else f"http://{HOST}:{settings.port}"


def create(settings: UpSettings, wanted: Wanted) -> str:
    """The new token. Raises :class:`LaunchError`."""
    answer = _post(settings, "/v1/grovekeeper/tokens", wanted.body())
    token = answer.get("token")
    if not isinstance(token, str):
        raise LaunchError(f"{base_url(settings)} answered without a token; is it a grovekeeper?")
    return token


def revoke(settings: UpSettings, token: str) -> None:
    """Revoke a token by itself or by its id. Raises :class:`LaunchError`."""
    _post(settings, "/v1/grovekeeper/tokens/revoke", {"id" if token.startswith("tok_") else "token": token})


def _post(settings: UpSettings, path: str, body: dict[str, object]) -> dict[str, object]:
    url = base_url(settings)
    headers = {"Authorization": f"Bearer {_admin_token(settings)}"}
    try:
        # A proxy for the outside is not for a server of ours.
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=settings.url is not None) as client:
            response = client.post(url + path, json=body, headers=headers)
    except httpx.HTTPError as error:
        raise LaunchError(
            f"nothing answers at {url}: {error}",
            "start it with `grove up`, or set GROVE_URL to where it runs",
        ) from None
    document = _object(response)
    if response.is_success:
        return document
    raise _refusal(response.status_code, document)


def _object(response: httpx.Response) -> dict[str, object]:
    try:
        document: object = response.json() if response.content else None
    except ValueError:
        document = None
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}


def _refusal(status: int, document: dict[str, object]) -> LaunchError:
    error = document.get("error")
    told = cast("dict[str, object]", error).get("message") if isinstance(error, dict) else None
    remedy = (
        "set GROVE_ADMIN_TOKEN to this deployment's administrator's token" if status in (401, 403) else None
    )
    return LaunchError(f"refused ({status}): {told or 'no reason was given'}", remedy, FAILED)


def _admin_token(settings: UpSettings) -> str:
    if settings.admin_token is not None:
        return settings.admin_token.get_secret_value()
    path = Home(settings.directory()).admin_token
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise LaunchError(
            f"the administrator's token cannot be read from {path}: {error.strerror}",
            "set GROVE_HOME to the deployment's directory, or GROVE_ADMIN_TOKEN to the token",
            REFUSED,
        ) from None
