"""Counting tokens with a tokenizer that is installed with its vocabulary, so that nothing is fetched or guessed."""

import asyncio
import importlib
import logging
import warnings
from collections.abc import Sequence
from typing import Final, Protocol, cast

__all__ = ["Tokenizer"]

_log: Final = logging.getLogger(__name__)


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> Sequence[int]: ...


class _Library(Protocol):
    def get_encoding(self, name: str) -> _Encoding: ...


class Tokenizer:
    """``name`` is the vocabulary. It is loaded when it is first needed, beside the event loop."""

    name: str = "o200k_base"

    def __init__(self) -> None:
        self._encoding: _Encoding | None = None
        self._missing: bool = False

    async def count(self, texts: Sequence[str]) -> tuple[int, ...] | None:
        """Tokens of each text; None where the tokenizer cannot be had."""
        return await asyncio.to_thread(self._count, texts)

    def _count(self, texts: Sequence[str]) -> tuple[int, ...] | None:
        encoding = self._loaded()
        return None if encoding is None else tuple(len(encoding.encode_ordinary(text)) for text in texts)

    def _loaded(self) -> _Encoding | None:
        if self._encoding is None and not self._missing:
            try:
                with warnings.catch_warnings():
                    # It reads its vocabulary by a way that Python is about to rename.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    library = cast("_Library", importlib.import_module("bpe_openai"))
                self._encoding = library.get_encoding(self.name)
            except (ImportError, AttributeError, OSError, ValueError) as error:
                self._missing = True
                _log.warning("tokens are not counted: %s cannot be loaded: %s", self.name, error)
        return self._encoding
