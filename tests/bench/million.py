"""A million memories: a Postgres of their own, and authz processes on it, with the replica and without.

The tree is filled by SQL: every node below the one root has ten children, seven levels in all; one in a hundred is
restricted. ``person:maker`` created all of it. 20,000 principals hold 200,000 grants, most of a few of them.
"""

import asyncio
import os
import socket
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, LiteralString
from urllib.request import urlopen

import grpc
import psycopg
from psycopg.conninfo import make_conninfo

from protos.authz.v1 import authz_pb2_grpc as rpc
from service_kit.identity import PassportSigner, generate_keys
from tests.bench.processes import memory_mb
from tests.fixtures.parts import embedded_postgres

__all__ = ["ASKER", "GRANTS", "MAKER", "NODES", "Authz", "Million", "metadata", "million", "node"]

NODES: Final = 1_000_000
GRANTS: Final = 200_000
MAKER: Final = "person:maker"
ASKER: Final = "person:asker"
"""Holds ``read`` on node 20, and through four groups little more: checks below it name five principals."""

_START_S: Final = 120.0
_PASSWORD: Final = "bench"

_FILL: Final[tuple[LiteralString, ...]] = (
    "set search_path = authz",
    "alter table node disable trigger all",
    "alter table grants disable trigger all",
    # Ids as they are made: they sort in the order of making, parents first.
    """
    insert into node (id, parent_id, restricted, creator, created_at)
    select 'hmem_' || lpad(to_hex(n), 32, '0'),
           case when n > 0 then 'hmem_' || lpad(to_hex((n - 1) / 10), 32, '0') end,
           n % 100 = 37, 'person:maker', now()
    from generate_series(0, 999999) n
    """,
    """
    insert into grants (id, node, principal, privs, created_at)
    select 'hgrt_' || lpad(to_hex(row_number() over ()), 32, '0'),
           'hmem_' || lpad(to_hex(n), 32, '0'), principal, privs, now()
    from (
        select 'person:one' as principal, 5000 as n, 1 as privs
        union all select 'person:1000', 7 + 997 * s, 1 from generate_series(1, 1000) s
        union all select 'person:16000', 11 + 61 * s, 1 from generate_series(1, 16000) s
        -- Each inside what the one before it holds: only the first is where it enters.
        union all select 'person:inside', 200000 + s, 1 from generate_series(1, 15999) s
        union all select 'person:inside', 0, 1
        union all select 'person:100000', 3 + 9 * s, 1 from generate_series(1, 100000) s
        union all select 'person:asker', 20, 1
        union all select 'group:' || s, 400000 + s, 3 from generate_series(1, 4) s
        union all select distinct 'person:p' || s % 19990, (s * 7919::bigint + 13) % 1000000, s % 15 + 1
        from generate_series(1, 66994) s
    ) given
    """,
    "alter table node enable trigger all",
    "alter table grants enable trigger all",
    """
    alter table node enable always trigger note_insert, enable always trigger note_update,
        enable always trigger note_delete, enable always trigger note_truncate
    """,
    """
    alter table grants enable always trigger note_insert, enable always trigger note_update,
        enable always trigger note_delete, enable always trigger note_truncate
    """,
    "vacuum analyze node",
    "vacuum analyze grants",
)


def node(number: int) -> str:
    """The id of the node with this number."""
    return f"hmem_{number:032x}"


def metadata(signer: PassportSigner, principal: str, *groups: str) -> tuple[tuple[str, str], ...]:
    """What a call carries to be this principal's."""
    return (("grove-passport", signer.sign(principal, groups=groups).token),)


@dataclass(frozen=True, slots=True)
class Authz:
    """A running authz process."""

    channel: grpc.aio.Channel
    ops: str
    pid: int

    @property
    def access(self) -> "rpc.AccessAsyncStub":
        return rpc.AccessStub(self.channel)

    def metric(self, name: str) -> float:
        """A value of its metrics, 0 where there is none."""
        with urlopen(f"http://{self.ops}/metrics", timeout=5) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def memory_mb(self) -> float:
        """Its resident set."""
        return memory_mb(self.pid)[0]


@dataclass(frozen=True, slots=True)
class Million:
    """The database, two processes on it, and who signs passports for them."""

    owner_dsn: str
    signer: PassportSigner
    replica: Authz
    rows: Authz
    load_s: float


@asynccontextmanager
async def million() -> AsyncGenerator[Million]:
    """All of it, for the length of the block."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="grove-million-")))
        owner = stack.enter_context(embedded_postgres())
        for name, text in zip(("private.json", "public.json"), generate_keys(), strict=True):
            (folder / name).write_text(text)
        await _migrate(owner)
        await asyncio.to_thread(_fill, owner)
        rows = await stack.enter_async_context(_authz(owner, folder, replica=False))
        begun = monotonic()
        replica = await stack.enter_async_context(_authz(owner, folder, replica=True))
        while await asyncio.to_thread(replica.metric, "grove_authz_replica_nodes") < NODES:
            if monotonic() - begun > _START_S:
                raise RuntimeError("the replica was not loaded in time")
            await asyncio.sleep(0.1)
        loaded = monotonic() - begun
        yield Million(owner, PassportSigner(folder / "private.json"), replica, rows, loaded)


async def _migrate(owner: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "authz_service",
        "migrate",
        env={**_inherited(), "GROVE_DATABASE_URL": owner, "GROVE_ROLE_PASSWORD": _PASSWORD},
        stderr=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise RuntimeError("the schema of authz could not be made")


def _fill(owner: str) -> None:
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        for statement in _FILL:
            connection.execute(statement)


@asynccontextmanager
async def _authz(owner: str, folder: Path, *, replica: bool) -> AsyncGenerator[Authz]:
    address, ops = _free(), _free()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "authz_service",
        env={
            **_inherited(),
            "GROVE_DATABASE_URL": make_conninfo(owner, user="grove_authz", password=_PASSWORD),
            "GROVE_LISTEN": address,
            "GROVE_OPS_LISTEN": ops,
            "GROVE_PASSPORT_SIGNING_KEY_FILE": str(folder / "private.json"),
            "GROVE_PASSPORT_KEYS_FILE": str(folder / "public.json"),
            "GROVE_AUTHZ_REPLICA": str(replica).lower(),
            "GROVE_LOG_LEVEL": "WARNING",
        },
    )
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            await asyncio.wait_for(channel.channel_ready(), _START_S)
            yield Authz(channel, ops, process.pid)
    finally:
        await _stop(process)


async def _stop(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 30)
    except TimeoutError:
        process.kill()
        await process.wait()


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("GROVE_", "OTEL_"))}


def _free() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"
