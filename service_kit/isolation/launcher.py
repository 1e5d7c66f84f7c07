"""The process between a service and a command: started for one command, it ends with everything that came of it.

``python -m service_kit.isolation.launcher FD``: the order is read from the socket FD, the answer written there. When
the other end is closed, be it by a crash, everything is killed. Standard input, output and error are the command's;
the exit code is its own, 128 and the signal's number where one ended it.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final, NoReturn

from service_kit.isolation import linux, tree
from service_kit.isolation.order import Answer, Order, read_order, said
from service_kit.isolation.sweep import sweep

__all__ = ["main"]

_FAILED: Final = 126
_TRIES: Final = 200


def main() -> int:
    """The command's exit code."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    order = read_order(control)
    if order is None:
        return _FAILED
    wake, woken = socket.socketpair()
    for one in (wake, woken):
        one.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _wake)
    launched = _Launched(control, wake, order)
    try:
        launched.begin()
    except OSError as error:
        control.sendall(said(Answer(_words(error))))
        return _FAILED
    return launched.watch()


def _wake(_signal: int, _frame: object) -> None:
    """The number of the signal in the socket is what wakes the loop."""


class _Launched:
    """One command, and how it is watched and ended. ``first`` is its process, or the first of its namespace."""

    def __init__(self, control: socket.socket, wake: socket.socket, order: Order) -> None:
        self._control = control
        self._wake = wake
        self._order = order
        self._first = 0

    def begin(self) -> None:
        """Raises ``OSError`` for a wall the platform refuses."""
        if self._order.mode == "namespaces":
            _leave()
        else:
            linux.subreaper()
        ready, go = os.pipe()
        self._first = os.fork()
        if self._first == 0:
            os.close(go)
            _begun(self._control, self._order, ready)
        os.close(ready)
        if self._order.cgroup:
            Path(self._order.cgroup, "cgroup.procs").write_text(str(self._first))
        os.write(go, b".")
        os.close(go)
        _let_go_of_streams()

    def watch(self) -> int:
        """Wait for the end, its own or ours; then nothing of it is left."""
        code = None
        while code is None:
            readable, _, _ = select.select([self._control, self._wake], [], [])
            if self._wake in readable:
                told = self._wake.recv(4096)
                if told.strip(bytes([signal.SIGCHLD])):
                    break
                code = self._reaped()
            if self._control in readable and not self._control.recv(1):
                break
        self._end()
        return _FAILED if code is None else code

    def _reaped(self) -> int | None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return _FAILED
            if pid == self._first:
                return _code(status)
            if pid == 0:
                return None

    def _end(self) -> None:
        if self._order.mode == "namespaces":
            # The first process of a namespace takes all others with it, and is waited for until they are gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._first, 0)
        else:
            sweep(self._order.account, self._first)
        if self._order.cgroup:
            _end_cgroup(Path(self._order.cgroup))


def _leave() -> None:
    """A PID namespace for whoever is forked next; with it one of accounts, where root's rights are not at hand."""
    linux.die_with_parent()
    if os.geteuid() == 0:
        linux.unshare(linux.CLONE_NEWPID)
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWPID)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _begun(control: socket.socket, order: Order, ready: int) -> NoReturn:
    """In the first process. What goes wrong is told, and ends it."""
    try:
        if order.mode == "namespaces":
            linux.die_with_parent()
        if not os.read(ready, 1):
            os._exit(_FAILED)
        os.close(ready)
        if order.mode == "namespaces":
            _as_first(control, order)
        else:
            _become(control, order)
    except OSError as error:
        control.sendall(said(Answer(_words(error))))
    finally:
        os._exit(_FAILED)


def _as_first(control: socket.socket, order: Order) -> NoReturn:
    """Build the file system, start the command, and bury whoever dies until it ends."""
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
    linux.without_dump()
    tree.build(order.mounts, os.geteuid() if order.account is None else order.account)
    pid = os.fork()
    if pid == 0:
        try:
            _become(control, order)
        except OSError as error:
            control.sendall(said(Answer(_words(error))))
        finally:
            os._exit(_FAILED)
    control.close()
    _let_go_of_streams()
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            os._exit(_code(status))


def _become(control: socket.socket, order: Order) -> NoReturn:
    """Give up what there is, and be the command. Raises ``OSError``."""
    os.setsid()
    _bound(order)
    if order.account is not None:
        os.setgroups([])
        os.setresgid(order.account, order.account, order.account)
        os.setresuid(order.account, order.account, order.account)
    os.chdir(order.directory)
    linux.no_new_privileges()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o077)
    if not order.argv:
        control.sendall(said(Answer()))
        os._exit(0)
    if not os.access(order.argv[0], os.X_OK):
        raise FileNotFoundError(2, f"{Path(order.argv[0]).name} is not there, or cannot be run")
    control.sendall(said(Answer()))
    try:
        os.execve(order.argv[0], order.argv, order.environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{Path(order.argv[0]).name}: {_words(error)}\n".encode())
        os._exit(_FAILED)


def _bound(order: Order) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bounds = [
        (resource.RLIMIT_NOFILE, order.files),
        (resource.RLIMIT_FSIZE, order.file_bytes),
        (resource.RLIMIT_DATA, order.data_bytes),
    ]
    if order.account is not None:
        # Of an account of its own: counted are all processes of an account.
        bounds.append((resource.RLIMIT_NPROC, order.processes))
    for limit, most in bounds:
        if most:
            _, hard = resource.getrlimit(limit)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(limit, (least, least))


def _let_go_of_streams() -> None:
    """So that the other ends see when the command's own are closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def _end_cgroup(group: Path) -> None:
    with contextlib.suppress(OSError):
        (group / "cgroup.kill").write_text("1")
    for _ in range(_TRIES):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)
        else:
            return


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
