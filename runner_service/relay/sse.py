"""Server-sent events that pass by: each one's data is skimmed as it comes, none is held."""

import re
from collections.abc import Callable
from typing import Final

from runner_service.relay.skim import Place, Skim

__all__ = ["Events"]

_END: Final = re.compile(rb"\r\n|\n|\r")
_DATA: Final = b"data:"


class Events:
    """Reads a stream. ``each`` is called with what was found in an event, once for each that has something."""

    def __init__(self, skim: Skim, each: Callable[[dict[Place, bytes]], None]) -> None:
        self._skim: Skim = skim
        self._each: Callable[[dict[Place, bytes]], None] = each
        self._begun: bytes = b""
        self._is_data: bool | None = None
        self._skimming: bool = False
        self._returned: bool = False

    def feed(self, data: bytes) -> None:
        """The next bytes, however they are cut."""
        at = 1 if self._returned and data.startswith(b"\n") else 0
        self._returned = data.endswith(b"\r")
        for end in _END.finditer(data, at):
            line = data[at : end.start()]
            if self._skimming or self._is_data is not None or self._begun or self._skim.concerns(line):
                self._part(line)
            self._line_ended(blank=not line and not self._begun and self._is_data is None)
            at = end.end()
        if at < len(data):
            self._part(data[at:])

    def _part(self, part: bytes) -> None:
        """More of a line; whether it is data is seen at its first five bytes."""
        if self._is_data is None:
            missing = len(_DATA) - len(self._begun)
            self._begun += part[:missing]
            part = part[missing:]
            if len(self._begun) == len(_DATA):
                self._is_data = self._begun == _DATA
        if self._is_data:
            self._skimming = True
            self._skim.feed(part)

    def _line_ended(self, *, blank: bool) -> None:
        self._begun, self._is_data = b"", None
        if blank and self._skimming:
            if self._skim.found:
                self._each(self._skim.found)
            self._skim.reset()
            self._skimming = False
        elif self._skimming:
            self._skim.feed(b"\n")
