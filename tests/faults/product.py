"""The whole product without its supervisor: each process is started, killed and started again by itself."""

import contextlib
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

from service_kit.embedded import keys
from service_kit.embedded.home import Home
from service_kit.embedded.ports import free_ports
from service_kit.embedded.postgres import Postgres
from service_kit.embedded.processes import Child, Command, Family
from service_kit.embedded.ready import is_ready
from service_kit.embedded.services import SERVICES, STOP_ORDER, Deployment
from service_kit.embedded.settings import UpSettings
from service_kit.embedded.valkey import Valkey
from tests.e2e.caller import Caller
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import environment

__all__ = ["Product", "product"]

_START_S: Final = 120.0
_DYING: Final = Path(__file__).with_name("dying.py")
_IMPATIENT: Final[Mapping[str, str]] = {
    "GROVE_JOBS_HEARTBEAT_S": "0.3",
    "GROVE_JOBS_STALLED_AFTER_S": "2",
    "GROVE_JOBS_POLL_S": "0.3",
    "GROVE_JOBS_BACKOFF_S": "0.3",
    "GROVE_RUNNER_HEARTBEAT_S": "0.5",
    "GROVE_RUNNER_LEASE_S": "3",
    "GROVE_RUNNER_RECONCILE_S": "0.5",
    "GROVE_RUNNER_POLL_S": "0.3",
    "GROVE_STOP_GRACE_S": "2",
    "GROVE_RPC_TIMEOUT_S": "5",
    "GROVE_MEMORY_RECONCILE_S": "1",
}
"""What makes a product find out soon that a part of it is gone."""


@dataclass
class Product:
    """Five services, Postgres and Valkey as processes of this test."""

    deployment: Deployment
    family: Family
    starts: Mapping[str, Callable[[], object]]
    commands: Mapping[str, Command]
    admin_token: str
    callers: contextlib.ExitStack
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        """Of the gateway."""
        return f"http://{self.deployment.address(SERVICES['gateway'])}"

    def kill(self, *names: str) -> None:
        """``kill -9``, and nothing is started in their place."""
        gone: list[Child] = [self.family.children.pop(name) for name in names]
        for child in gone:
            child.signal(signal.SIGKILL)
        for child in gone:
            child.stop(0.0, lambda: True)

    def start(self, *names: str) -> None:
        """Start what was killed and wait until it says that it is ready."""
        for name in names:
            self.starts[name]()
        services = [SERVICES[name] for name in names if name in SERVICES]
        self.family.until(
            lambda: all(is_ready(self.deployment.ops(one)) for one in services), _START_S, f"starting {names}"
        )

    def connected(self) -> None:
        """Wait until the provider is reached through the others: who asked before it listened waits a moment before
        trying again, and refuses writes meanwhile.
        """

        def answers() -> bool:
            with Caller(self.url, self.admin_token) as admin:
                return admin.send("GET", "/v1/memories/providers").is_success

        self.family.until(answers, _START_S, "reaching the provider")

    def start_dying(self, name: str, point: str) -> None:
        """Start what was killed as one that ends itself at a point of its code (see ``dying.py``)."""
        command = self.commands[name]
        argv = [sys.executable, str(_DYING), SERVICES[name].package, point]
        self.family.spawn(name, replace(command, argv=argv))
        self.family.until(
            lambda: is_ready(self.deployment.ops(SERVICES[name])), _START_S, f"starting {name}, to die"
        )

    def died(self, name: str) -> None:
        """Wait until a process has ended by itself."""
        child = self.family.children.pop(name)
        self.family.until(lambda: child.ended() is not None, _START_S, f"waiting for {name} to die")
        child.stop(0.0, lambda: True)

    def rows(self, statement: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """What the database holds, as its owner sees it."""
        with psycopg.connect(self.deployment.database_url, autocommit=True) as connection:
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

    def person(self, name: str) -> Caller:
        """Somebody; the same one when asked for again."""
        if name not in self.tokens:
            with Caller(self.url, self.admin_token) as admin:
                self.tokens[name] = str(admin.post("/v1/grovekeeper/tokens", {"person": name})["token"])
        return self.callers.enter_context(Caller(self.url, self.tokens[name]))


@contextlib.contextmanager
def product(told: Mapping[str, str] | None = None) -> Generator[Product]:
    """A running product in a directory of its own; ``told`` are settings of its services."""
    family = Family()
    with short_directory() as directory, contextlib.ExitStack() as callers:
        home = Home(directory / "home")
        with home.claim():
            secrets = keys.ensure(home)
            postgres = Postgres(
                home.postgres, directory, secrets.postgres_password, home.logs / "postgres.log"
            )
            valkey = Valkey(home.valkey, directory, home.logs / "valkey.log")
            names = list(SERVICES)
            ports = free_ports(2 * len(names))
            deployment = Deployment(
                home=home,
                settings=UpSettings(),
                keys=secrets,
                database_url=postgres.dsn(),
                redis_url=valkey.url,
                ports=dict(zip(names, zip(ports[::2], ports[1::2], strict=True), strict=True)),
            )

            def start_postgres() -> None:
                postgres.prepare(family)
                postgres.start(family)
                postgres.wait(family, _START_S)

            def start_valkey() -> None:
                valkey.start(family)
                valkey.wait(family, _START_S)

            def command(name: str) -> Command:
                served = deployment.serve(SERVICES[name])
                env = {**environment(home.path, served.env), **_IMPATIENT, **(told or {})}
                return replace(served, env=env)

            commands = {name: command(name) for name in names}

            def starter(name: str) -> Callable[[], object]:
                return lambda: family.spawn(name, commands[name])

            made = Product(
                deployment,
                family,
                {
                    "postgres": start_postgres,
                    "valkey": start_valkey,
                    **{name: starter(name) for name in names},
                },
                commands,
                home.admin_token.read_text(encoding="utf-8").strip(),
                callers,
            )
            try:
                made.start("postgres", "valkey")
                migrations = {
                    name: deployment.migrate(SERVICES[name]) for name in names if SERVICES[name].stores
                }
                family.run(migrations, _START_S)
                made.start(*names)
                made.connected()
                yield made
            finally:
                family.stop(STOP_ORDER, 1.0, lambda: False)
                family.stop(["valkey", "postgres"], 20.0, lambda: False)
