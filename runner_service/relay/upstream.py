"""The endpoints models are called at, and the one way a request gets there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx

from runner_service.relay.apis import Api

__all__ = ["Headers", "Upstream", "for_agent", "for_upstream"]

Headers = list[tuple[bytes, bytes]]

_HOPS: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade".split()
)
_ASKED: Final = _HOPS | frozenset(
    # Whose call it is: the server's alone.
    b"authorization x-api-key api-key x-goog-api-key cookie openai-organization openai-project"
    # Where it came from, and our own trace.
    b" forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-real-ip via traceparent tracestate baggage"
    # Said anew for the connection to the endpoint.
    b" host content-length expect"
    # What is counted must be readable.
    b" accept-encoding".split()
)
_ANSWERED: Final = _HOPS | frozenset(
    b"set-cookie www-authenticate authentication-info alt-svc strict-transport-security"
    # Whose account it is.
    b" anthropic-organization-id openai-organization openai-project".split()
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """An endpoint of one API. ``key`` may be empty: some want none. ``models``: what may be called there, the default
    first; empty: anything.
    """

    api: Api
    url: str
    key: str = field(repr=False)
    models: tuple[str, ...] = ()

    def at(self, path: str, query: bytes) -> httpx.URL:
        """Where a path of the API is. The host is always this endpoint's."""
        url = httpx.URL(self.url.rstrip("/") + path.removeprefix(self.api.prefix))
        return url.copy_with(query=query) if query else url


def for_upstream(upstream: Upstream, headers: Sequence[tuple[bytes, bytes]], size: int | None) -> Headers:
    """The headers of a request as its endpoint gets them; ``size``: of its body, None where there is none."""
    sent = _without(headers, _ASKED)
    sent.append((b"accept-encoding", b"identity"))
    if size is not None:
        sent.append((b"content-length", b"%d" % size))
    if upstream.key:
        name, value = upstream.api.key(upstream.key)
        sent.append((name.encode(), value.encode()))
    return sent


def for_agent(response: httpx.Response) -> Headers:
    """The headers of an answer as an agent gets them."""
    return _without([(name.lower(), value) for name, value in response.headers.raw], _ANSWERED)


def _without(headers: Sequence[tuple[bytes, bytes]], kept_back: frozenset[bytes]) -> Headers:
    named = {
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    }
    return [(key, value) for key, value in headers if key not in kept_back and key not in named]
