"""The built encoder on disk: which files it is, where they are kept, whether they are whole."""

import hashlib
import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = [
    "GENERATION",
    "MANIFEST_FILE",
    "MODEL_FILE",
    "TOKENIZER_FILE",
    "Manifest",
    "ModelFilesError",
    "default_model_dir",
    "read_model",
    "sha256",
]

MODEL_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = "tokenizer.json"
MANIFEST_FILE: Final = "manifest.json"

# Stored with every vector. It changes whenever the same text would get another vector: another model,
# another quantisation, another way to cut and pool long text.
GENERATION: Final = "minilm-l6-v2-int8-v1"


class ModelFilesError(Exception):
    """The encoder's files are missing or damaged; the message says what to run."""


class Manifest(msgspec.Struct, frozen=True):
    """``manifest.json``: written last, so that a directory with a manifest is a finished one."""

    name: str
    generation: str
    dimension: int
    max_tokens: int
    license: str
    sha256: dict[str, str]


def default_model_dir() -> Path:
    """Beside the installed packages: it lives and dies with the environment it was built for."""
    return Path(sys.prefix) / "share" / "grovekeeper" / "minilm-int8"


def sha256(data: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(data).hexdigest()


def read_model(directory: Path) -> tuple[Manifest, bytes, bytes]:
    """Manifest, graph and tokenizer, checked against each other and against this code's generation.

    Raises :class:`ModelFilesError`.
    """
    advice = "build it with `python -m provider_workers.adapters.native.embedding.build_model`"
    try:
        manifest = msgspec.json.decode((directory / MANIFEST_FILE).read_bytes(), type=Manifest)
        model = (directory / MODEL_FILE).read_bytes()
        tokenizer = (directory / TOKENIZER_FILE).read_bytes()
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelFilesError(f"no sentence encoder in {directory}: {advice}") from error
    if manifest.generation != GENERATION:
        raise ModelFilesError(
            f"the sentence encoder in {directory} is {manifest.generation}, not {GENERATION}: {advice}"
        )
    if manifest.sha256 != {MODEL_FILE: sha256(model), TOKENIZER_FILE: sha256(tokenizer)}:
        raise ModelFilesError(f"the sentence encoder in {directory} is damaged: {advice}")
    return manifest, model, tokenizer
