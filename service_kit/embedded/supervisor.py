"""``grove up``: start everything, watch it, and stop it in order.

The order of starting is data first (Postgres, Valkey), then migrations, then all services side by side;
of stopping, callers before the called and Postgres last. Whatever goes wrong, nothing is left running.
"""

import contextlib
import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from service_kit.embedded import keys, migrations, ports, state
from service_kit.embedded.errors import LaunchError, Stopped, TookTooLongError, from_os_error
from service_kit.embedded.home import Home
from service_kit.embedded.postgres import Postgres
from service_kit.embedded.processes import Family
from service_kit.embedded.ready import is_ready
from service_kit.embedded.services import SERVICES, STOP_ORDER, Deployment, Service
from service_kit.embedded.settings import UpSettings
from service_kit.embedded.valkey import Valkey

__all__ = ["migrate", "sockets_directory", "up"]

_LONGEST_SOCKET: Final = 100  # a unix socket's path has 104 bytes on some systems, 108 on others
_HOUSEKEEPING_S: Final = 5.0
_MIGRATION_TIMEOUT_S: Final = 600.0
_VALKEY_TIMEOUT_S: Final = 60.0
_VALKEY_GRACE_S: Final = 20.0
_POSTGRES_GRACE_S: Final = 60.0


def up(settings: UpSettings, say: Callable[[str], None]) -> int:
    """Run until told to stop; answers 0 after an orderly stop, else raises :class:`LaunchError`."""
    home = Home(settings.directory())
    with home.claim() as first, _Wishes() as wishes:
        supervisor = _Supervisor(settings, home, wishes, say)
        try:
            supervisor.start(first=first)
            supervisor.watch()
        except Stopped:
            pass
        except OSError as error:
            raise from_os_error(error) from error
        finally:
            supervisor.stop()
    return 0


def migrate(settings: UpSettings, say: Callable[[str], None]) -> None:
    """Bring every schema to this release, with the embedded Postgres started for it when it is the one.

    Raises :class:`LaunchError`, also when the deployment runs (which has migrated already).
    """
    home = Home(settings.directory())
    with home.claim(), _Wishes() as wishes:
        supervisor = _Supervisor(settings, home, wishes, say)
        try:
            supervisor.prepare()
            supervisor.start_database()
            supervisor.run_migrations()
        except Stopped:
            raise LaunchError("stopped before the migrations had ended") from None
        except OSError as error:
            raise from_os_error(error) from error
        finally:
            supervisor.stop()


class _Wishes:
    """What the operator asked for by signals: the first asks for the end, a second for a hurried one."""

    def __init__(self) -> None:
        self._count: int = 0
        self._before: dict[signal.Signals, signal._HANDLER] = {}  # pyright: ignore[reportPrivateUsage]
        self._wake, self._waker = socket.socketpair()

    def __enter__(self) -> Self:
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            if signal.getsignal(one) != signal.SIG_IGN or one != signal.SIGHUP:  # nohup stays in force
                self._before[one] = signal.signal(one, self._told)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for one, handler in self._before.items():
            signal.signal(one, handler)
        self._wake.close()
        self._waker.close()

    def _told(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._count += 1

    def stop(self) -> bool:
        """Whether the end was asked for."""
        return self._count > 0

    def hurry(self) -> bool:
        """Whether it was asked for again."""
        return self._count > 1

    def wait(self, seconds: float) -> None:
        """Until a signal comes (a child's end is one) or time is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            if selector.select(seconds):
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(4096)


@dataclass(slots=True)
class _Supervisor:
    settings: UpSettings
    home: Home
    wishes: _Wishes
    say: Callable[[str], None]
    family: Family = field(init=False)
    known: state.State = field(init=False)
    sockets: Path | None = None

    def __post_init__(self) -> None:
        self.family = Family(stopping=self.wishes.stop, changed=self._record)
        self.known = state.State(supervisor=os.getpid(), url="")

    def start(self, *, first: bool) -> None:
        """Everything up and ready, or an exception."""
        began = time.monotonic()
        port = self.settings.port or ports.free_ports(1)[0]
        self.prepare()
        if self._is_ours(SERVICES["gateway"]):
            ports.require_free(port)
        self.known.url = f"http://{ports.HOST}:{port}"
        self.say(f"starting in {self.home.path}" + (" for the first time" if first else ""))
        self.start_database()
        self.start_redis()
        self._start_services(self.run_migrations(port))
        self.known.ready = True
        self._record()
        self.say(f"all parts are ready after {time.monotonic() - began:.1f} s; Ctrl-C stops them")

    def prepare(self) -> None:
        """End what a killed predecessor left, and find room for sockets."""
        if left := state.clear_leftovers(self.home):
            self.say(f"ended what an earlier run had left: {', '.join(left)}")
        for log in self.home.logs.glob("*.log"):
            if log.stat().st_size > self.settings.log_max_bytes:
                log.replace(log.with_suffix(".log.1"))

    def start_database(self) -> None:
        """The embedded Postgres, unless another was named."""
        if self.settings.database_url is not None:
            self.known.database_url = self.settings.dsn()
            keys.ensure(self.home)
            return
        secrets = keys.ensure(self.home)
        postgres = Postgres(
            self.home.postgres, self._sockets(), secrets.postgres_password, self._log("postgres")
        )
        self.say("starting Postgres")
        postgres.prepare(self.family)
        postgres.start(self.family)
        postgres.wait(self.family, self.settings.postgres_timeout_s)
        self.known.database_url = postgres.dsn()

    def start_redis(self) -> None:
        """The embedded Valkey, unless a Redis was named."""
        if self.settings.redis_url is not None:
            self.known.redis_url = self.settings.redis()
            return
        valkey = Valkey(self.home.valkey, self._sockets(), self._log("valkey"))
        self.say("starting Redis")
        valkey.start(self.family)
        valkey.wait(self.family, _VALKEY_TIMEOUT_S)
        self.known.redis_url = valkey.url

    def run_migrations(self, port: int = 0) -> Deployment:
        """Bring the schemas of the services that run here to this release, side by side."""
        deployment = self._deploy(port)
        wanted = deployment.storing() if port == 0 else migrations.pending(deployment)
        if wanted:
            self.say(f"migrating {', '.join(one.name for one in wanted)}")
            jobs = {f"{one.name} migrate": deployment.migrate(one) for one in wanted}
            self.family.run(jobs, _MIGRATION_TIMEOUT_S)
            migrations.remember(deployment, wanted)
        return deployment

    def _start_services(self, deployment: Deployment) -> None:
        ours = [one for one in SERVICES.values() if deployment.is_ours(one)]
        self.say(f"starting {', '.join(one.name for one in ours)}")
        for one in ours:
            self.family.spawn(one.name, deployment.serve(one))
        waiting = {one.name: one for one in ours}

        def ready() -> bool:
            for name, one in list(waiting.items()):
                if is_ready(deployment.ops(one)):
                    del waiting[name]
            return not waiting

        try:
            self.family.until(ready, self.settings.start_timeout_s, "starting the services")
        except TookTooLongError as error:
            logs = ", ".join(str(self._log(name)) for name in waiting)
            raise LaunchError(f"{error.message}; not ready: {', '.join(waiting)}; see {logs}") from error

    def watch(self) -> None:
        """Until the operator wants the end; :class:`LaunchError` when a part ends by itself."""
        print(f"ready: {self.known.url}")  # noqa: T201 - the one line scripts wait for
        print(f"admin token: {self.home.admin_token}", flush=True)  # noqa: T201
        while not self.wishes.stop():
            self.family.check()
            self.family.rotate(self.settings.log_max_bytes)
            self.wishes.wait(_HOUSEKEEPING_S)

    def stop(self) -> None:
        """Stop all that runs, callers before the called, Postgres last. Never raises for a full disk."""
        if self.family.children:
            self.say("stopping")
        hurry = self.wishes.hurry
        self.family.stop(STOP_ORDER, self.settings.stop_grace_s + 10, hurry)
        self.family.stop(["valkey"], _VALKEY_GRACE_S, hurry)
        self.family.stop(["postgres"], _POSTGRES_GRACE_S, hurry)
        if self.sockets is not None:
            shutil.rmtree(self.sockets, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.home.state.unlink(missing_ok=True)

    def _deploy(self, port: int) -> Deployment:
        names = [one.name for one in SERVICES.values()]
        chosen = ports.free_ports(2 * len(names), besides=port)
        pairs = dict(zip(names, zip(chosen[::2], chosen[1::2], strict=True), strict=True))
        pairs["gateway"] = (port, pairs["gateway"][1])
        return Deployment(
            home=self.home,
            settings=self.settings,
            keys=keys.ensure(self.home),
            database_url=self.known.database_url or "",
            redis_url=self.known.redis_url or "",
            ports=pairs,
        )

    def _sockets(self) -> Path:
        if self.sockets is None:
            self.sockets = sockets_directory(self.home.run)
            self.known.sockets = str(self.sockets)
            self._record()
        return self.sockets

    def _log(self, name: str) -> Path | None:
        return None if self.settings.log_stderr else self.home.logs / f"{name}.log"

    def _is_ours(self, service: Service) -> bool:
        return service.address_setting not in self.settings.model_fields_set

    def _record(self) -> None:
        for name, child in self.family.children.items():
            self.known.members[name] = state.Member(
                pid=child.pid,
                started=self._started(name, child.pid),
                listen=child.command.env.get("GROVE_LISTEN") if name in SERVICES else None,
                ops=child.command.env.get("GROVE_OPS_LISTEN") if name in SERVICES else None,
                log=str(child.command.log) if child.command.log else None,
            )
        state.write(self.home, self.known)

    def _started(self, name: str, pid: int) -> str:
        known = self.known.members.get(name)
        return known.started if known is not None and known.pid == pid else state.started_at(pid)


def sockets_directory(last_resort: Path) -> Path:
    """A fresh private directory with a short path, for unix sockets."""
    bases = [Path("/run")] if os.geteuid() == 0 else []
    for base in [*bases, Path("/tmp"), Path(tempfile.gettempdir()), last_resort]:  # noqa: S108
        try:
            made = Path(tempfile.mkdtemp(prefix="grove-", dir=base))
        except OSError:
            continue
        if len(str(made / "pg" / ".s.PGSQL.5432")) <= _LONGEST_SOCKET:
            # Root's Postgres, another user, has to find its way to its own directory in here.
            made.chmod(0o711 if os.geteuid() == 0 else 0o700)
            return made
        made.rmdir()
    raise LaunchError(
        "there is no writable directory with a path short enough for sockets", "set TMPDIR to one"
    )
