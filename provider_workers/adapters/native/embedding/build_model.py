"""Build the embedded sentence encoder: ``python -m provider_workers.adapters.native.embedding.build_model``.

Run once at set-up. Fetches the published weights, turns them into an int8 graph, checks the result
against known similarities and writes it where the embedder looks. A finished output is left alone.
"""

import fcntl
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from provider_workers.adapters.native.embedding.encoder import Encoder
from provider_workers.adapters.native.embedding.files import (
    GENERATION,
    MANIFEST_FILE,
    MODEL_FILE,
    TOKENIZER_FILE,
    Manifest,
    ModelFilesError,
    default_model_dir,
    read_model,
    sha256,
)
from provider_workers.adapters.native.embedding.upstream import (
    Check,
    Say,
    Upstream,
    UpstreamError,
    fetch,
    pinned,
)
from service_kit.settings import EmbeddingSettings, SettingsError

__all__ = ["BuildError", "build_model", "main"]

_NOTICE_FILE: Final = "NOTICE.txt"
_TOLERANCE: Final = 0.04

_NOTICE: Final = """\
{model} holds the weights of {name}
(https://huggingface.co/{name}), licensed under {license}:
https://www.apache.org/licenses/LICENSE-2.0
{tokenizer} is that model's tokenizer, unchanged.
Changed: the weights were rounded to 8-bit integers and written as an ONNX graph.
"""


class BuildError(Exception):
    """The model could not be built. The message is one line."""


def build_model(out: Path, cache: Path, say: Say) -> None:
    """Make ``out`` hold the encoder. Safe to repeat and to run twice at once.

    Raises :class:`BuildError`.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        try:
            read_model(out)
        except ModelFilesError:
            _build(out, cache, say)
            say(f"{GENERATION} is ready in {out}")
        else:
            say(f"{GENERATION} is already in {out}")


def _build(out: Path, cache: Path, say: Say) -> None:
    upstream = pinned()
    try:
        sources = fetch(upstream, cache, say)
    except UpstreamError as error:
        raise BuildError(f"the weights of {upstream.name} could not be fetched: {error}") from None
    say("converting the weights to an int8 graph")
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".build-") as folder:
        made = Path(folder)
        _write(made, upstream, _convert(sources), sources["tokenizer.json"])
        say("checking the graph against known similarities")
        _verify(Encoder(made), upstream.check)
        _move(made, out)


def _convert(sources: dict[str, bytes]) -> bytes:
    # Build-time tools: the services run without them.
    try:
        from safetensors.numpy import load  # noqa: PLC0415

        from provider_workers.adapters.native.embedding.graph import BertShape, build_encoder  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise BuildError(f"{error.name} is not installed: it is in the dependency group `model`") from None
    shape = msgspec.json.decode(sources["config.json"], type=BertShape)
    return build_encoder(shape, load(sources["model.safetensors"]))


def _write(made: Path, upstream: Upstream, model: bytes, tokenizer: bytes) -> None:
    manifest = Manifest(
        name=upstream.name,
        generation=GENERATION,
        dimension=upstream.dimension,
        max_tokens=upstream.max_tokens,
        license=upstream.license,
        sha256={MODEL_FILE: sha256(model), TOKENIZER_FILE: sha256(tokenizer)},
    )
    (made / MODEL_FILE).write_bytes(model)
    (made / TOKENIZER_FILE).write_bytes(tokenizer)
    (made / _NOTICE_FILE).write_text(
        _NOTICE.format(
            model=MODEL_FILE, tokenizer=TOKENIZER_FILE, name=upstream.name, license=upstream.license
        )
    )
    (made / MANIFEST_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def _verify(encoder: Encoder, checks: tuple[Check, ...]) -> None:
    """Raises :class:`BuildError` when the graph does not judge sentences as the published model does."""
    for check in checks:
        cosine = float(encoder.encode(check.a) @ encoder.encode(check.b))
        if not abs(cosine - check.cosine) <= _TOLERANCE:
            raise BuildError(
                f"the built model gives {cosine:.3f} for {check.a!r} and {check.b!r}, not {check.cosine:.3f}"
            )


def _move(made: Path, out: Path) -> None:
    """Each file whole, the manifest gone first and back last: at no time does it vouch for a mixture."""
    out.mkdir(exist_ok=True)
    (out / MANIFEST_FILE).unlink(missing_ok=True)
    for name in (MODEL_FILE, TOKENIZER_FILE, _NOTICE_FILE, MANIFEST_FILE):
        os.replace(made / name, out / name)  # noqa: PTH105  (the atomic one, by its usual name)


@contextmanager
def _alone(out: Path) -> Generator[None]:
    """One build of this output at a time on this machine."""
    with (out.parent / f".{out.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tell(line: str) -> None:
    sys.stderr.write(f"embedding model: {line}\n")
    sys.stderr.flush()


def _command(
    out: Annotated[Path | None, typer.Option(help="Where to write; else GROVE_EMBEDDING_MODEL_DIR.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where downloads are kept.")] = None,
    cache_home: Annotated[Path | None, typer.Option(envvar="XDG_CACHE_HOME", hidden=True)] = None,
) -> None:
    """Build the embedded sentence encoder."""
    downloads = cache or (cache_home or Path.home() / ".cache") / "grovekeeper"
    try:
        target = out or EmbeddingSettings.load().embedding_model_dir or default_model_dir()
        build_model(target.absolute(), downloads.absolute(), _tell)
    except (BuildError, SettingsError, OSError) as error:
        _tell(f"failed: {error}")
        raise typer.Exit(1) from None


def main() -> None:
    """The command line."""
    typer.run(_command)


if __name__ == "__main__":
    main()
