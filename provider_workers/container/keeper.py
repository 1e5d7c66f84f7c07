"""The keeper: one thread, no connection, no secret. It forks a child for each query and kills it when its time is up.

Started by the worker as ``python -m provider_workers.container.keeper FD``. On the socket it inherits arrives, for
each query, one end of a new socket and the time it may take; the child speaks to the worker over that alone.
"""

import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Final

from provider_workers.container import walls
from provider_workers.container.messages import Answer, answer_of, asked
from provider_workers.container.statement import run

__all__ = ["ORDER", "READY", "main"]

ORDER: Final = struct.Struct("<dqq")
"""What comes with a socket: seconds until the child is killed, bytes it is sent, bytes of memory it may use."""
READY: Final = b"ready "
"""Begins the keeper's first message, which goes on with the walls it could not put up."""


def main() -> int:
    """Serve until the worker goes away."""
    control = socket.socket(fileno=int(sys.argv[1]))
    size = walls.size()
    missing = walls.leave()
    wake, woken = socket.socketpair()
    for one in (wake, woken):
        one.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, _wake)
    control.send(READY + ", ".join(missing).encode())
    _Keeper(control, wake, size).serve()
    return 0


def _wake(_signal: int, _frame: object) -> None:
    """The number of the signal in the socket is what wakes the loop."""


class _Keeper:
    def __init__(self, control: socket.socket, wake: socket.socket, size: int) -> None:
        self._control = control
        self._wake = wake
        self._size = size
        self._ends: dict[int, float] = {}

    def serve(self) -> None:
        while True:
            readable, _, _ = select.select([self._control, self._wake], [], [], self._patience())
            if self._wake in readable:
                self._wake.recv(4096)
            self._reap()
            self._kill()
            if self._control in readable and not self._accept():
                for pid in self._ends:
                    os.kill(pid, signal.SIGKILL)
                return

    def _patience(self) -> float | None:
        return max(0.0, min(self._ends.values()) - time.monotonic()) if self._ends else None

    def _reap(self) -> None:
        while self._ends:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._ends.pop(pid, None)

    def _kill(self) -> None:
        now = time.monotonic()
        for pid, end in self._ends.items():
            if end <= now:
                os.kill(pid, signal.SIGKILL)
                self._ends[pid] = now + 1.0

    def _accept(self) -> bool:
        message, files, _, _ = socket.recv_fds(self._control, ORDER.size, 1)
        if not message:
            return False
        seconds, size, memory = ORDER.unpack(message)
        pid = os.fork()
        if pid == 0:
            _child(files[0], seconds, size, self._size + memory)
        for file in files:
            os.close(file)
        self._ends[pid] = time.monotonic() + seconds
        return True


def _child(file: int, seconds: float, size: int, memory: int) -> None:
    """Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        peer = socket.socket(fileno=file)
        walls.shut(file, cpu_s=int(seconds) + 1, memory_bytes=memory)
        peer.sendall(answer_of(_answer(peer, size)))
    finally:
        os._exit(0)


def _answer(peer: socket.socket, size: int) -> Answer:
    try:
        sent = bytearray(size)
        view, at = memoryview(sent), 0
        while at < size:
            got = peer.recv_into(view[at:])
            if not got:
                return Answer([], [], [], "The query broke off.")
            at += got
        return run(asked(bytes(sent)))
    except MemoryError:
        return Answer([], [], ["memory"])


if __name__ == "__main__":
    sys.exit(main())
