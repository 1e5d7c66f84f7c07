"""Folders of sessions on this machine: each goes when its session has gone, by whatever way."""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from service_kit.errors import GroveError
from service_kit.tasks import let_cancellation_pass

__all__ = ["Folders"]

_log: Final = logging.getLogger(__name__)
_EVERY_S: Final = 15.0
_AT_ONCE: Final = 1_000
_SESSIONS: Final = "hsess_*"


class Folders:
    """Those below ``root``, which is looked through every 15 seconds. ``known`` answers which of some sessions there
    are; a folder is never older than its session, so one of an unknown session is nobody's.
    """

    def __init__(self, root: Path, known: Callable[[Sequence[str]], Awaitable[Collection[str]]]) -> None:
        self._root: Path = root
        self._known: Callable[[Sequence[str]], Awaitable[Collection[str]]] = known

    async def run(self) -> None:
        """Tidy until cancelled."""
        while True:
            try:
                await self.once()
            except GroveError as error:
                _log.warning("folders of sessions could not be looked through: %s", error.code)
            let_cancellation_pass()
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Remove the folders of sessions that are gone. What cannot be removed is tried again the next time."""
        found = await asyncio.to_thread(lambda: sorted(one.name for one in self._root.glob(_SESSIONS)))
        for start in range(0, len(found), _AT_ONCE):
            some = found[start : start + _AT_ONCE]
            there = await self._known(some)
            for name in some:
                if name not in there:
                    await asyncio.to_thread(_remove, self._root / name)


def _remove(folder: Path) -> None:
    """Not through links: what an agent has put there leads nowhere else."""
    try:
        try:
            shutil.rmtree(folder)
        except PermissionError:
            _open(folder)
            shutil.rmtree(folder)
    except OSError as error:
        _log.warning("the folder of a session that is gone could not be removed: %s", error.strerror)


def _open(folder: Path) -> None:
    """An agent may have shut what is below; nothing of it runs any more."""
    for path, below, _ in os.walk(folder):
        for name in below:
            if not (one := Path(path, name)).is_symlink():
                one.chmod(0o700)
