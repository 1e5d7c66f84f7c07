"""One OpenAI-compatible route asked over HTTP: attempts with backoff, in bounded time, and no key in any word of it."""

import asyncio
import logging
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx
import msgspec

from service_kit.errors import GroveError

__all__ = ["MAX_ANSWER_BYTES", "AwayError", "Caller", "RefusedError", "RetryPolicy"]

_log = logging.getLogger(__name__)

_RETRYABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_AT_ONCE: Final = 8
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
"""Several times what the largest batch of vectors takes."""
_TOO_LARGE: Final = 413


class AwayError(GroveError):
    """The service does not answer; any other request would fare no better now. ``wait_s``: what it asked for."""

    wait_s: float | None = None


class RefusedError(GroveError):
    """The service answered that it will not do this. ``status`` is HTTP's."""

    status: int = 0


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how patiently. Times in seconds; ``total`` bounds a request with all its attempts.

    ``obey``: a service that asks for a wait longer than ``longest_wait`` is not asked again before.
    """

    attempts: int = 3
    timeout: float = 10.0
    first_wait: float = 0.25
    longest_wait: float = 4.0
    total: float = 20.0
    obey: bool = False


class _NotNowError(Exception):
    """An attempt failed and the next may not; ``wait`` is what the service asked for."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait: float | None = wait


class Caller:
    """``POST`` to ``url``; ``name`` is what the service is called in words.

    The key travels in one header and is in no log line, error or ``repr``.
    """

    def __init__(self, url: str, *, name: str, api_key: str | None, retry: RetryPolicy) -> None:
        self._url = url
        self._name = name
        self._retry = retry
        self._turn = asyncio.Semaphore(_AT_ONCE)
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.AsyncClient(headers=headers, timeout=retry.timeout)

    async def post(self, body: object) -> bytes:
        """The answer to one request, with its retries, in bounded time. Raises :class:`AwayError`,
        :class:`RefusedError`.
        """
        try:
            async with asyncio.timeout(self._retry.total), self._turn:
                return await self._attempts(body)
        except TimeoutError:
            raise self._away("did not answer in time") from None

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _attempts(self, body: object) -> bytes:
        for attempt in range(1, self._retry.attempts + 1):
            try:
                return await self._post(body)
            except _NotNowError as error:
                _log.warning("attempt %d at the %s failed: %s", attempt, self._name, error)
                if self._retry.obey and (error.wait or 0.0) > self._retry.longest_wait:
                    raise self._away("asked to wait", error.wait) from None
                if attempt < self._retry.attempts:
                    await asyncio.sleep(self._wait(attempt, error.wait))
        raise self._away("did not answer")

    async def _post(self, body: object) -> bytes:
        try:
            async with self._http.stream("POST", self._url, json=body) as answer:
                content = await self._read(answer)
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _NotNowError(type(error).__name__) from None
        if answer.status_code in _RETRYABLE:
            raise _NotNowError(f"status {answer.status_code}", _seconds(answer.headers.get("retry-after")))
        if not answer.is_success:
            _log.error("the %s refused with status %d", self._name, answer.status_code)
            raise self._refused("refused the request", answer.status_code)
        return content

    async def _read(self, answer: httpx.Response) -> bytes:
        """The answer whole, unpacked; one that does not end is not waited for."""
        content = bytearray()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                _log.error("the %s answered more than %d bytes", self._name, MAX_ANSWER_BYTES)
                raise self._refused("answered too much", _TOO_LARGE)
        return bytes(content)

    def _refused(self, why: str, status: int) -> RefusedError:
        refused = RefusedError("memory_unavailable", f"The {self._name} {why}.")
        refused.status = status
        return refused

    def _wait(self, attempt: int, asked: float | None) -> float:
        """Exponential with jitter, or what the service asked for; never longer than the policy's."""
        backoff = self._retry.first_wait * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311  (jitter)
        return min(self._retry.longest_wait, backoff if asked is None else max(asked, backoff))

    def _away(self, why: str, wait_s: float | None = None) -> AwayError:
        away = AwayError("memory_unavailable", f"The {self._name} {why}.")
        away.wait_s = wait_s
        return away


def _seconds(header: str | None) -> float | None:
    """``Retry-After``, in seconds or as a date, in seconds."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
