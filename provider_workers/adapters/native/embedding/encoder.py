"""The sentence encoder in process: text in, one vector out. Blocking; see ``local.py`` for the event loop."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final, Protocol, cast

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]  (the wheel carries no types)
from numpy.typing import NDArray
from tokenizers import Tokenizer

from provider_workers.adapters.native.embedding.files import Manifest, read_model

__all__ = ["Encoder", "Vector", "open_session", "pool"]

Vector = NDArray[np.float32]
"""One text's vector: shape ``(dimension,)``, L2 norm 1."""

# A record's vector speaks of its first 16 windows (about 4,000 tokens); full text covers the rest.
_MAX_WINDOWS: Final = 16
_MAX_CHARACTERS: Final = 65_536


class _Options(Protocol):
    """What is set on onnxruntime's ``SessionOptions``."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int


class Session(Protocol):
    """The one call made on onnxruntime's ``InferenceSession``."""

    def run(
        self, output_names: Sequence[str] | None, input_feed: dict[str, NDArray[np.int64]]
    ) -> list[NDArray[np.float32]]: ...


class Encoder:
    """The model of one directory. Calls may come from several threads at once.

    Each call computes on the calling thread alone: callers scale by calling from more threads.
    """

    def __init__(self, directory: Path) -> None:
        """Load and check the files. Raises ``ModelFilesError``."""
        manifest, model, tokenizer = read_model(directory)
        self.manifest: Manifest = manifest
        self._session = open_session(model)
        self._tokenizer: Tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._first: int = self._special("[CLS]")
        self._last: int = self._special("[SEP]")

    def encode(self, text: str) -> Vector:
        """The vector of ``text``: the same for the same text, whatever it is embedded with.

        Text over the model's window is cut into even windows whose vectors are averaged by length.
        """
        windows = self.windows(text)
        vectors = [
            self._session.run(None, {"input_ids": np.array([window], dtype=np.int64)})[0][0]
            for window in windows
        ]
        return pool(vectors, [len(window) for window in windows])

    def windows(self, text: str) -> list[list[int]]:
        """What :meth:`encode` runs: token ids, special ones included, at most ``max_tokens`` each; never none."""
        clean = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        tokens = self._tokenizer.encode(clean, add_special_tokens=False).ids
        room = self.manifest.max_tokens - 2
        tokens = tokens[: room * _MAX_WINDOWS]
        size = ceil(len(tokens) / max(1, ceil(len(tokens) / room)))
        cuts = range(0, len(tokens), size) if tokens else range(1)
        return [[self._first, *tokens[at : at + size], self._last] for at in cuts]

    def _special(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            msg = f"the tokenizer has no {token}"
            raise ValueError(msg)
        return found


def pool(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """The weighted mean of unit vectors, made a unit vector again."""
    if len(vectors) == 1:
        return vectors[0]
    mean = np.average(np.stack(vectors), axis=0, weights=weights)
    return (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)


def open_session(model: bytes) -> Session:
    """A graph ready to run on the calling thread alone."""
    options = cast(_Options, onnxruntime.SessionOptions())  # pyright: ignore[reportUnknownMemberType]
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors; its warnings are about hardware it looks for and misses
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return cast(Session, session)
