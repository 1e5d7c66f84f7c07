"""A worker of the provider as a process of its own, to be killed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from protos.provider.v1.provider_pb2_grpc import ProviderStub
from provider_workers.settings import Settings
from service_kit.embedded.ports import free_ports
from service_kit.identity import PassportSigner, use_passport
from service_kit.rpc import client
from tests.fixtures.stack import environment as environment_of

if TYPE_CHECKING:
    from protos.provider.v1.provider_pb2_grpc import ProviderAsyncStub

__all__ = ["Process", "calling", "until"]

ROOT = Path(__file__).parents[2]


class Process:
    """`python -m provider_workers` on a database, with signs of life a test need not wait long for."""

    def __init__(self, dsn: str, keys: Path, log: Path, more: Mapping[str, str]) -> None:
        (self.port,) = free_ports(1)
        self.log: Path = log
        told = {
            "GROVE_DATABASE_URL": dsn,
            "GROVE_PASSPORT_KEYS_FILE": str(keys),
            "GROVE_LISTEN": f"127.0.0.1:{self.port}",
            "GROVE_OPS_LISTEN": "127.0.0.1:0",
            "GROVE_JOBS_HEARTBEAT_S": "0.2",
            "GROVE_JOBS_STALLED_AFTER_S": "1.5",
            "GROVE_JOBS_POLL_S": "0.2",
            **more,
        }
        with log.open("wb") as output:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "provider_workers"],
                cwd=ROOT,
                env=environment_of(log.parent, told),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """As the kernel does when memory runs out: no goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


@asynccontextmanager
async def calling(process: Process, keys: Path) -> AsyncGenerator["ProviderAsyncStub"]:
    """Its contract, called as Alice, once it answers."""
    signer = PassportSigner(keys / "private.json")
    async with client.channel(
        f"127.0.0.1:{process.port}", Settings(), safe=["grovekeeper.provider.v1.Provider/Describe"]
    ) as channel:
        stub = ProviderStub(channel)
        with use_passport(signer.sign("person:alice")):
            await channel.channel_ready()
            yield stub


async def until(condition: Callable[[], bool], process: Process) -> None:
    """Look again and again; a process that died says why."""
    async with asyncio.timeout(90):
        while not condition():
            assert process.process.poll() is None, process.log.read_text()
            await asyncio.sleep(0.02)
