"""What a launcher is told, and what it answers."""

import socket
import struct
from typing import Final, Literal

import msgspec

__all__ = ["Answer", "Mode", "Mount", "Order", "answered", "read_order", "said", "sent"]

Mode = Literal["namespaces", "descent"]
"""How everything that came of a command is known: it lives in a PID namespace, or it descends from the launcher."""

_SIZE: Final = struct.Struct("<I")


class Mount(msgspec.Struct, frozen=True):
    """A directory of this machine, and what the command calls it."""

    outside: str
    inside: str
    writable: bool


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One command. ``argv[0]`` and ``directory`` are absolute, as seen from inside; nothing of the environment but
    ``environment`` is handed on. ``account``: the uid and gid it runs as, None for the launcher's own. ``cgroup``: an
    empty cgroup v2 made for it. Bounds of 0 do not bind: bytes of memory of each process, processes of the account,
    open files of each process, bytes of one file. Without ``argv`` the walls are put up and nothing is run.
    """

    argv: tuple[str, ...]
    directory: str
    environment: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    mode: Mode = "namespaces"
    account: int | None = None
    cgroup: str = ""
    data_bytes: int = 0
    processes: int = 0
    files: int = 0
    file_bytes: int = 0


class Answer(msgspec.Struct, frozen=True):
    """Sent once, just before the command begins: ``error`` says in words of the system why it does not."""

    error: str = ""


_order: Final = msgspec.json.Decoder(Order)
_answer: Final = msgspec.json.Decoder(Answer)
_encoder: Final = msgspec.json.Encoder()


def sent(order: Order) -> bytes:
    """As it goes to a launcher."""
    body = _encoder.encode(order)
    return _SIZE.pack(len(body)) + body


def read_order(control: socket.socket) -> Order | None:
    """The order; None when whoever gives orders is gone."""
    head = _exactly(control, _SIZE.size)
    body = _exactly(control, *_SIZE.unpack(head)) if head else b""
    return _order.decode(body) if body else None


def said(answer: Answer) -> bytes:
    """As a launcher answers."""
    return _encoder.encode(answer)


def answered(got: bytes) -> Answer:
    """What it answered. Raises ``msgspec.MsgspecError`` for what is no answer."""
    return _answer.decode(got)


def _exactly(control: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = control.recv(size - len(got))
        if not more:
            return b""
        got += more
    return bytes(got)
