"""Running statements in containers: bounded in number, in what goes in and out, and in time."""

import asyncio
import logging
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

import msgspec

from provider_workers.container.keeper import ORDER, READY
from provider_workers.container.messages import Answer, Ask, answered, ask_of
from provider_workers.domain.turns import Turns
from service_kit import semconv, telemetry
from service_kit.errors import GroveError

__all__ = ["Container", "Limits"]

_log: Final = logging.getLogger(__name__)
_duration: Final = telemetry.meter(__name__).create_histogram(
    semconv.GROVE_QUERY_DURATION,
    unit="s",
    description="Duration of queries, their wait included, by outcome.",
    explicit_bucket_boundaries_advisory=semconv.SECONDS,
)
_START_S: Final = 20.0
_GRACE_S: Final = 2.0
_ENVELOPE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``running`` at a time and ``waiting`` more, ``wait_s`` at the longest; of both one caller has half at most."""

    running: int = 4
    waiting: int = 64
    wait_s: float = 5.0
    query_s: float = 2.0
    rows: int = 1_000
    bytes: int = 1024 * 1024
    heap_bytes: int = 64 * 1024 * 1024
    memory_bytes: int = 512 * 1024 * 1024


class Container:
    """Runs statements. The keeper is started with the first one, and again when it is gone."""

    def __init__(self, limits: Limits) -> None:
        self.limits: Limits = limits
        self._turns: Turns = Turns(
            running=limits.running, waiting=limits.waiting, wait_s=limits.wait_s, what="queries"
        )
        self._starting: asyncio.Lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None

    async def run(self, whose: str, ask: Ask) -> Answer:
        """What the statement came to. ``whose`` is who takes turns: a principal.

        ``grovekeeper_busy`` when too many wait, ``grovekeeper_unavailable`` when the keeper cannot be started. A
        child that was killed is an answer without rows whose bound is ``time``, one that broke off for itself ``memory``.
        """
        begun, outcome = time.perf_counter(), "unavailable"
        try:
            answer = await self._in_turn(whose, ask)
            outcome = "refused" if answer.error else "bounded" if answer.bounds else "answered"
        finally:
            _duration.record(time.perf_counter() - begun, {semconv.GROVE_QUERY_OUTCOME: outcome})
        return answer

    async def _in_turn(self, whose: str, ask: Ask) -> Answer:
        async with self._turns.turn(whose):
            control = None
            try:
                control = await self._keeper()
                return await self._run(control, ask)
            except (OSError, EOFError) as error:
                _log.warning("the keeper of queries is gone: %s", type(error).__name__)
                # Another query may have found out first: the keeper that is there now is not to blame.
                if control is self._control:
                    await self._let_go()
                raise GroveError("grovekeeper_unavailable", "The query broke off; try again.") from error

    async def aclose(self) -> None:
        """End the keeper, and with it whatever still runs."""
        await self._let_go()

    async def _run(self, control: socket.socket, ask: Ask) -> Answer:
        sent = ask_of(ask)
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                order = ORDER.pack(self.limits.query_s, len(sent), self.limits.memory_bytes)
                await _send_order(control, order, theirs)
            mine.setblocking(False)
            return await self._exchange(control, mine, sent)

    async def _exchange(self, control: socket.socket, mine: socket.socket, sent: bytes) -> Answer:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        most = self.limits.bytes + _ENVELOPE
        got = bytearray()
        try:
            async with asyncio.timeout(self.limits.query_s + _GRACE_S):
                await loop.sock_sendall(mine, sent)
                while len(got) <= most and (chunk := await loop.sock_recv(mine, 256 * 1024)):
                    got += chunk
        except TimeoutError:
            # The keeper is to have killed the child by now; whatever is the matter with it, another helps.
            raise EOFError from None
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            return answered(bytes(got))
        except msgspec.MsgspecError:
            if _ended(control):
                # The child went with its keeper: nothing it did was too much.
                raise EOFError from None
            late = loop.time() - begun >= self.limits.query_s * 0.9
            return Answer([], [], ["time" if late else "memory"])

    async def _keeper(self) -> socket.socket:
        async with self._starting:
            if self._control is not None and self._process is not None and self._process.returncode is None:
                return self._control
            await self._let_go()
            control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            control.setblocking(False)
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "provider_workers.container.keeper", str(theirs.fileno())),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    env=_environment(),
                )
            self._control = control
            await self._ready(control)
            return control

    async def _ready(self, control: socket.socket) -> None:
        try:
            async with asyncio.timeout(_START_S):
                first = await asyncio.get_running_loop().sock_recv(control, 4096)
        except TimeoutError:
            raise EOFError from None
        if not first.startswith(READY):
            raise EOFError
        if missing := first.removeprefix(READY).decode():
            _log.warning("queries run without %s: this platform does not let us have it", missing)

    async def _let_go(self) -> None:
        control, process = self._control, self._process
        self._control = self._process = None
        if control is not None:
            control.close()
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _environment() -> dict[str, str]:
    """Nothing of ours: what a child could find in its memory is the interpreter and the rows."""
    return {"PYTHONPATH": os.pathsep.join(one for one in sys.path if one), "LC_ALL": "C.UTF-8"}


def _ended(control: socket.socket) -> bool:
    """Whether the other end is closed; the keeper says nothing once it is ready."""
    try:
        return control.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def _send_order(control: socket.socket, order: bytes, theirs: socket.socket) -> None:
    while True:
        try:
            socket.send_fds(control, [order], [theirs.fileno()])
        except BlockingIOError:
            await asyncio.sleep(0.005)
        else:
            return
