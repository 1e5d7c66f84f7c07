"""A whole service process: ``python -m tests.unit.service_kit.echo_process``, as every service's main is."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from service_kit.rpc import server
from service_kit.settings import Settings, load
from tests.unit.service_kit.echo import PUBLIC, SERVICE, Echo


@asynccontextmanager
async def build(_: Settings) -> AsyncGenerator[server.Wiring]:
    echo = Echo()
    yield server.Wiring(
        servicers=[echo.register], service_names=[SERVICE], public_methods=frozenset({PUBLIC})
    )


@asynccontextmanager
async def broken(_: Settings) -> AsyncGenerator[server.Wiring]:
    async def die() -> None:
        raise RuntimeError("broken")

    yield server.Wiring(servicers=[], service_names=[], background=[die])


if __name__ == "__main__":
    sys.exit(server.run("echo", load(Settings), broken if "broken" in sys.argv else build))
