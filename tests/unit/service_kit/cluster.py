"""A Postgres for these tests alone, which they may stop and start."""

from collections.abc import Generator
from contextlib import contextmanager

from psycopg.conninfo import make_conninfo

from service_kit.embedded.postgres import Postgres
from service_kit.embedded.processes import Family
from tests.fixtures.parts import short_directory

_WITHIN_S = 60.0


class Cluster:
    """A running server."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._family = Family()
        server.prepare(self._family)

    def dsn(self, database: str = "postgres") -> str:
        """As its owner."""
        return make_conninfo(self._server.dsn(), dbname=database)

    def start(self) -> None:
        self._server.start(self._family)
        self._server.wait(self._family, _WITHIN_S)

    def stop(self) -> None:
        self._family.stop(["postgres"], _WITHIN_S, lambda: False)


@contextmanager
def cluster() -> Generator[Cluster]:
    """A running server inside the block."""
    with short_directory() as directory:
        (directory / "postgres").mkdir()
        made = Cluster(Postgres(directory / "postgres", directory, "owned", directory / "postgres.log"))
        made.start()
        try:
            yield made
        finally:
            made.stop()
