"""The product as a person starts it, ``grove up`` in a directory of its own, with a stand-in chat model."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from service_kit.embedded.home import Home
from service_kit.embedded.state import State, read
from tests.bench.bench import Product
from tests.bench.floors import Floors
from tests.bench.timed import MODEL

__all__ = ["started"]

_START_S: Final = 120.0
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.1


@asynccontextmanager
async def started(floors: Floors) -> AsyncGenerator[Product]:
    """The whole product, for the length of the block. Raises ``RuntimeError`` with its output if it fails."""
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder:
        home = Home(Path(folder) / "home")
        log = Path(folder) / "up.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("grove")),
                "up",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment(home, floors),
            )
        try:
            state = await _ready(process, home, log)
            yield _product(home, state)
        finally:
            await _stop(process)


def _environment(home: Home, floors: Floors) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("GROVE_", "OTEL_"))
    }
    return {
        **inherited,
        "GROVE_HOME": str(home.path),
        "GROVE_PORT": "0",
        "GROVE_MODEL_BASE_URL": f"http://127.0.0.1:{floors.http_port}/v1",
        "GROVE_MODEL_API_KEY": "bench",
        "GROVE_MODEL_NAME": MODEL,
        # Counted, as everybody's requests are, and never reached.
        "GROVE_RATE_LIMIT": "1000000",
        "GROVE_RATE_LIMIT_TURNS": "1000000",
    }


async def _ready(process: asyncio.subprocess.Process, home: Home, log: Path) -> State:
    """The state file says when; there is nothing to listen to before it."""
    try:
        async with asyncio.timeout(_START_S):
            while process.returncode is None:
                state = read(home)
                if state is not None and state.ready:
                    return state
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    raise RuntimeError(f"the product did not start:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


def _product(home: Home, state: State) -> Product:
    url = urlsplit(state.url)
    authz = state.members["authz"].listen
    if url.port is None or authz is None or state.database_url is None:
        raise RuntimeError("the state file lacks an address")
    return Product(
        host=url.hostname or "127.0.0.1",
        port=url.port,
        admin_token=home.admin_token.read_text(encoding="utf-8").strip(),
        authz=authz,
        database_url=state.database_url,
        pid=state.supervisor,
    )


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()
