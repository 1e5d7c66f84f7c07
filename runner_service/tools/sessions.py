"""What a token of the tools stands for, and how much a turn may be told."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runner_service.domain.errors import too_large
from runner_service.domain.model import Attachment, Session
from runner_service.tools.offer import Offered

__all__ = ["ToolSession"]


_MAX_TOLD: Final = 4 * 1024 * 1024
"""A response has everything that its tools answered, spelled in JSON once more, and is one message between services."""
_LEAST: Final = 16 * 1024
"""What must be left of it for another call: room for what a write answers."""
_AT_ONCE: Final = 8
"""Calls of one turn that are carried out at a time: an agent may send a hundred, and each answer is held whole."""


@dataclass(slots=True)
class Told:
    """How much a turn has been told by its tools, in bytes. Beyond a bound no call is carried out any more."""

    size: int = 0

    def check(self) -> None:
        """``grovekeeper_too_large`` when there is no room for another answer."""
        if self.size > _MAX_TOLD - _LEAST:
            raise too_large(
                f"The tools of a turn answer {_MAX_TOLD} bytes at most, and that is used up: nothing was done."
                " Go on with what you have."
            )

    def add(self, answer: str) -> None:
        """Count an answer; ``grovekeeper_too_large`` when it does not fit."""
        size = len(answer.encode())
        if self.size + size > _MAX_TOLD:
            raise too_large(
                f"The call was carried out, but its answer has {size} bytes, and of the {_MAX_TOLD} that the tools"
                f" of a turn answer at most, {_MAX_TOLD - self.size} are left. Ask for less."
            )
        self.size += size


@dataclass(frozen=True, slots=True)
class ToolSession:
    """What a token stands for."""

    session: Session
    caps: tuple[Attachment, ...]
    starts: tuple[str, ...]
    default: str
    offered: Mapping[str, Offered]
    told: Told = field(default_factory=Told)
    at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def here(self) -> str:
        """The memory of a call that names none; empty when there is none."""
        return self.default or next(iter(self.starts), "")
