"""The OIDC issuer: where its keys are, and what they are (OpenID Connect Discovery; RFC 7517)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Final, NoReturn, cast

import httpx

from authz_service.domain.oidc.keys import IssuerAwayError

LARGEST: Final = 256 * 1024
"""Largest document that is read, in bytes."""


class HttpIssuer:
    """``domain.oidc.keys.Issuer`` over HTTP. Redirects are not followed: an issuer says where its keys are."""

    def __init__(
        self, client: httpx.AsyncClient, issuer: str, jwks_url: str | None, timeout_s: float
    ) -> None:
        self._client: httpx.AsyncClient = client
        self._issuer: str = issuer
        self._jwks_url: str | None = jwks_url
        self._timeout_s: float = timeout_s

    async def keys(self) -> Sequence[object]:
        try:
            async with asyncio.timeout(self._timeout_s):
                document = await self._get(self._jwks_url or await self._discovered())
        except TimeoutError:
            _away("it takes too long to answer")
        keys = document.get("keys")
        if not isinstance(keys, list):
            _away("what it answers is no JWK set")
        return cast("list[object]", keys)

    async def _discovered(self) -> str:
        document = await self._get(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            _away("its discovery document is another issuer's")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not is_safe(url):
            _away("its discovery document names no https address of its keys")
        return url

    async def _get(self, url: str) -> dict[str, object]:
        try:
            async with self._client.stream("GET", url) as response:
                if response.status_code != 200:
                    _away(f"it answers with status {response.status_code}")
                if response.headers.get("content-encoding", "identity") != "identity":
                    _away("it compresses what was asked for as it is")
                body = await _limited(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _away(type(error).__name__)
        try:
            document = cast("object", json.loads(body))
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            _away("what it answers is no JSON object")
        return cast("dict[str, object]", document)


@asynccontextmanager
async def issuer(url: str, jwks_url: str | None, timeout_s: float) -> AsyncGenerator[HttpIssuer]:
    """The issuer at ``url``, asked for its keys in at most ``timeout_s`` seconds at a time."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    # A proxy for the outside is not for an issuer on this machine.
    proxied = not _is_loopback(httpx.URL(jwks_url or url).host)
    async with httpx.AsyncClient(headers=headers, timeout=timeout_s, trust_env=proxied) as client:
        yield HttpIssuer(client, url, jwks_url, timeout_s)


def is_safe(url: str) -> bool:
    """Whether nobody on the way can change what is answered: https, or an address on this machine."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    return bool(parsed.host) and (
        parsed.scheme == "https" or (parsed.scheme == "http" and _is_loopback(parsed.host))
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _limited(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > LARGEST:
            _away(f"what it answers has more than {LARGEST} bytes")
    return bytes(body)


def _away(why: str) -> NoReturn:
    raise IssuerAwayError(why)
