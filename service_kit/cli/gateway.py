"""The gateway's routes as the administrator calls them: what every command that asks the server stands on."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast
from urllib.parse import quote

import httpx

from service_kit.embedded import state
from service_kit.embedded.errors import FAILED, REFUSED, LaunchError
from service_kit.embedded.home import Home
from service_kit.embedded.ports import HOST
from service_kit.embedded.settings import UpSettings

__all__ = ["Document", "Gateway", "base_url", "connected", "segment", "text"]

Document = dict[str, object]
"""A JSON object, as it was answered."""
Query = Mapping[str, str | int | bool | list[str] | None]
"""What follows the ``?``; None is left out, a list repeated."""

PAGE: Final = 200
"""Items asked for at a time where all are wanted: the largest page there is."""

_TIMEOUT_S: Final = 30.0


class Gateway:
    """Requests in the administrator's name. Every verb raises :class:`LaunchError` for what is not 2xx."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client: httpx.Client = client
        self.url: str = url

    def get(self, path: str, query: Query | None = None) -> Document:
        """The answer's object."""
        return self._call("GET", path, query, None)

    def post(self, path: str, body: Document) -> Document:
        """The answer's object."""
        return self._call("POST", path, None, body)

    def put(self, path: str, body: Document | None = None) -> Document:
        """The answer's object."""
        return self._call("PUT", path, None, body)

    def delete(self, path: str) -> Document:
        """The answer's object."""
        return self._call("DELETE", path, None, None)

    def pages(self, path: str, query: Query | None = None) -> Iterator[Document]:
        """Every item of a listing, page after page, asked for as it is consumed, until there is none left."""
        asked: dict[str, str | int | bool | list[str] | None] = {"limit": PAGE, **(query or {})}
        while True:
            page = self.get(path, asked)
            items = page.get("data")
            for item in cast("list[object]", items) if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield cast("Document", item)
            cursor = page.get("next_cursor")
            if not isinstance(cursor, str) or not cursor or not items:
                return
            asked["cursor"] = cursor

    def _call(self, method: str, path: str, query: Query | None, body: Document | None) -> Document:
        params = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            response = self._client.request(method, self.url + path, params=params, json=body)
        except httpx.HTTPError as error:
            raise LaunchError(
                f"nothing answers at {self.url}: {error}",
                "start it with `grove up`, or set GROVE_URL to where it runs",
            ) from None
        document = _object(response)
        if response.is_success:
            return document
        raise _refusal(response.status_code, document)


@contextmanager
def connected(settings: UpSettings) -> Generator[Gateway]:
    """The deployment's gateway, for one command. Raises :class:`LaunchError` where no token is to be had."""
    headers = {"Authorization": f"Bearer {_admin_token(settings)}"}
    # A proxy for the outside is not for a server of ours.
    with httpx.Client(headers=headers, timeout=_TIMEOUT_S, trust_env=settings.url is not None) as client:
        yield Gateway(client, base_url(settings))


def base_url(settings: UpSettings) -> str:
    """Where the gateway is: GROVE_URL, else the running deployment's, else GROVE_PORT here."""
    if settings.url is not None:
        return settings.url.rstrip("/")
    running = state.read(Home(settings.directory()))
    return running.url if running is not None and running.url else f"http://{HOST}:{settings.port}"


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def text(document: Document, field: str) -> str:
    """A field of an answer that is a string; "" where there is none."""
    value = document.get(field)
    return value if isinstance(value, str) else ""


def _object(response: httpx.Response) -> Document:
    try:
        document: object = response.json() if response.content else None
    except ValueError:
        document = None
    return cast("Document", document) if isinstance(document, dict) else {}


def _refusal(status: int, document: Document) -> LaunchError:
    error = document.get("error")
    told = cast("Document", error).get("message") if isinstance(error, dict) else None
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
