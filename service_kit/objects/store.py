"""Where the bytes of files are: a directory of this machine, or a bucket of an S3-compatible store.

Keys are ours (ids joined by slashes, never a name somebody chose), objects are written once and never changed.
A failure of the store is ``grovekeeper_unavailable``; nothing of an address or a key is in its message. Spans and
metrics say which operation it was, and no key.
"""

import asyncio
import hashlib
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from service_kit import semconv, telemetry
from service_kit.errors import GroveError
from service_kit.ids import new_id
from service_kit.settings import ObjectSettings, SettingsError
from service_kit.tasks import let_cancellation_pass

if TYPE_CHECKING:
    from collections.abc import Generator

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

__all__ = ["Objects", "Stored", "open_objects", "tried_objects"]

_PIECE: Final = 1024 * 1024
"""How much is read at a time; each piece is a request of its own, so that a slow reader runs into no timeout."""
_DELETED_AT_ONCE: Final = 16
_PART: Final = 5 * 1024 * 1024  # the least S3 takes as a part that is not the last
_AT_ONCE: Final = 2
"""Parts of one object under way: what one upload may hold in memory, in parts."""
_CLIENT: Final["ClientConfig"] = {"timeout": "30s", "connect_timeout": "5s"}
_RETRY: Final["RetryConfig"] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
_FAILURES: Final = (BaseError, OSError)

_log: Final = logging.getLogger(__name__)
_tracer: Final = telemetry.tracer(__name__)
_duration: Final = telemetry.meter(__name__).create_histogram(
    semconv.GROVE_OBJECTS_DURATION,
    unit="s",
    description="Duration of operations on the object store.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written: how many bytes, and their SHA-256 in hex."""

    bytes: int
    sha256: str


class Objects:
    """The objects below one prefix of a store. ``root`` is set when they are files of this machine."""

    def __init__(self, store: "ObjectStore", root: Path | None) -> None:
        self._store: ObjectStore = store
        self._root: Path | None = root

    @property
    def is_local(self) -> bool:
        """Whether they are files of this machine."""
        return self._root is not None

    async def put(self, key: str, chunks: AsyncIterable[bytes], limit: int) -> Stored:
        """Write an object, whole or not at all; it is durable when this answers.

        ``file_too_large`` past ``limit`` bytes. What ``chunks`` raises is raised.
        """
        measured = _Measured(chunks, limit)
        with _operation("put"):
            await obstore.put_async(
                self._store, key, measured.chunks(), chunk_size=_PART, max_concurrency=_AT_ONCE
            )
            if self._root is not None:
                # The library's local store leaves writes to the page cache.
                await asyncio.to_thread(_make_durable, self._root, key)
        return Stored(measured.bytes, measured.sha256.hexdigest())

    async def read(self, key: str, offset: int, length: int) -> AsyncGenerator[bytes]:
        """``length`` bytes from ``offset`` on, which the object must have. ``file_not_found`` when it is gone."""
        end = offset + length
        while offset < end:
            piece = min(_PIECE, end - offset)
            with _operation("get"):
                found = await obstore.get_range_async(self._store, key, start=offset, length=piece)
            if len(found) != piece:
                raise GroveError("file_not_found", "The bytes of this file are no longer there.")
            yield bytes(found)
            offset += piece

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is as good as deleted. Done, and looked after, when this answers.

        Fails with what it could not delete still there: repeat it.
        """
        wanted = list(keys)
        for start in range(0, len(wanted), _DELETED_AT_ONCE):
            some = wanted[start : start + _DELETED_AT_ONCE]
            with _operation("delete"):
                if self._root is not None:
                    await asyncio.to_thread(_delete, self._root, some)
                else:
                    await asyncio.gather(*(self._delete(key) for key in some))

    async def _delete(self, key: str) -> None:
        try:
            await obstore.delete_async(self._store, key)
            await obstore.head_async(self._store, key)
        except FileNotFoundError:
            return
        raise OSError("an object was deleted and is still there")

    async def clear(self, prefix: str) -> None:
        """Delete everything below ``prefix``, what an interrupted write left there included."""
        with _operation("clear"):
            if self._root is not None:
                await asyncio.to_thread(_clear, self._root / prefix)
                return
            pages = cast("Any", obstore).list(self._store, prefix + "/", chunk_size=500)
            async for page in pages:
                await obstore.delete_async(self._store, [one["path"] for one in page])

    async def check(self) -> None:
        """``grovekeeper_unavailable`` unless it can be written and deleted from."""

        async def probe() -> AsyncGenerator[bytes]:
            yield b"probe"

        key = new_id("probe")
        await self.put(key, probe(), _PIECE)
        await self.delete([key])


class _Measured:
    """Counts and hashes what passes, up to a limit."""

    def __init__(self, chunks: AsyncIterable[bytes], limit: int) -> None:
        self._chunks: AsyncIterable[bytes] = chunks
        self._limit: int = limit
        self.bytes: int = 0
        self.sha256: Any = hashlib.sha256()

    async def chunks(self) -> AsyncGenerator[bytes]:
        """What is measured."""
        async for chunk in self._chunks:
            self.bytes += len(chunk)
            if self.bytes > self._limit:
                raise GroveError(
                    "file_too_large",
                    f"A file may have {self._limit} bytes at most.",
                    detail={"max_bytes": self._limit},
                )
            self.sha256.update(chunk)
            yield chunk


def open_objects(settings: ObjectSettings, prefix: str) -> Objects | None:
    """The objects of one service; None when neither a store nor a home is set. :class:`SettingsError` for a
    store nobody knows.
    """
    url = settings.object_store()
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme == "file":
        root = Path(unquote(parts.path)) / prefix
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"the object store cannot be written: {root}: {error.strerror}") from error
        return Objects(LocalStore(prefix=root, mkdir=True), root)
    if parts.scheme != "s3" or not parts.netloc:
        raise SettingsError("GROVE_OBJECT_STORE_URL is s3://bucket/prefix or file:///directory")
    below = "/".join(one for one in (parts.path.strip("/"), prefix) if one)
    store = S3Store(
        parts.netloc,
        prefix=below,
        config=cast("Any", _s3(settings)),
        client_options=_CLIENT,
        retry_config=_RETRY,
    )
    return Objects(store, None)


async def tried_objects(settings: ObjectSettings, prefix: str) -> Objects | None:
    """As :func:`open_objects`, and written to: :class:`SettingsError` for a directory that cannot be. A bucket that
    cannot be is said in the log, for it may be one later.
    """
    made = open_objects(settings, prefix)
    if made is not None:
        try:
            await made.check()
        except GroveError as error:
            told = f"the object store cannot be written: {error.__cause__}"
            if made.is_local:
                raise SettingsError(told) from error
            _log.error(told)
    return made


def _s3(settings: ObjectSettings) -> dict[str, object]:
    """What is not set is looked for where the AWS tools look: ``AWS_…``, then the machine's own role."""
    told: dict[str, object] = {"virtual_hosted_style_request": settings.object_store_virtual_host}
    if settings.object_store_endpoint:
        told["endpoint"] = settings.object_store_endpoint
        told["allow_http"] = str(settings.object_store_endpoint.startswith("http://"))
    if settings.object_store_region:
        told["region"] = settings.object_store_region
    key, secret = settings.object_store_access_key_id, settings.object_store_secret_access_key
    if key is not None and secret is not None:
        told["access_key_id"] = key.get_secret_value()
        told["secret_access_key"] = secret.get_secret_value()
    return told


@contextmanager
def _operation(name: str) -> "Generator[None]":
    started, failed = time.perf_counter(), False
    with _tracer.start_as_current_span(
        f"{name} object", kind=SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except FileNotFoundError:
            raise GroveError("file_not_found", "The bytes of this file are no longer there.") from None
        except _FAILURES as error:
            let_cancellation_pass(error)
            failed = True
            _refused(span, error)
            raise GroveError(
                "grovekeeper_unavailable", "The object store did not do what was asked; try again."
            ) from error
        finally:
            attributes = {semconv.GROVE_OBJECTS_OPERATION: name}
            if failed:
                attributes[semconv.ERROR_TYPE] = "unavailable"
            _duration.record(time.perf_counter() - started, attributes)


def _refused(span: trace.Span, error: Exception) -> None:
    span.set_attribute(semconv.ERROR_TYPE, type(error).__name__)
    span.set_status(StatusCode.ERROR)


def _make_durable(root: Path, key: str) -> None:
    """The file, and every directory that may have been made for it."""
    path = root / key
    _sync(path)
    while path != root:
        path = path.parent
        _sync(path)


def _delete(root: Path, keys: Iterable[str]) -> None:
    paths = [root / key for key in keys]
    for path in paths:
        # And what a write that was cut short left beside it.
        for one in (path, *path.parent.glob(f"{path.name}#*")):
            one.unlink(missing_ok=True)
    for directory in {path.parent for path in paths}:
        if directory.is_dir():
            _sync(directory)


def _clear(directory: Path) -> None:
    if directory.is_dir():
        shutil.rmtree(directory)
        _sync(directory.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
