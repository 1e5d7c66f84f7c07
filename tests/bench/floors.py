"""Starting the floor processes, and ending them."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

__all__ = ["Floors", "process", "running"]

_FLOOR: Final = "tests.bench.floor_server"


@dataclass(frozen=True, slots=True)
class Floors:
    """Where the floors listen, all on loopback."""

    rpc: str
    http_port: int
    pids: tuple[int, ...]


@asynccontextmanager
async def process(module: str, *arguments: str) -> AsyncGenerator[tuple[str, int]]:
    """A process of its own for the length of the block; yields the first line it says, and its id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise RuntimeError("no standard output")
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        if not line:
            raise RuntimeError(f"{module} {arguments[0]} did not start")
        yield line.decode().strip(), process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def running() -> AsyncGenerator[Floors]:
    """Both floors, for the length of the block."""
    async with AsyncExitStack() as stack:
        port, rpc_pid = await stack.enter_async_context(process(_FLOOR, "rpc"))
        rpc = f"127.0.0.1:{port}"
        http_port, http_pid = await stack.enter_async_context(process(_FLOOR, "http", rpc))
        yield Floors(rpc, int(http_port), (rpc_pid, http_pid))
