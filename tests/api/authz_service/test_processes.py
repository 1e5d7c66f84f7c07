"""Several processes of authz on one database: what one has answered, every other one knows.

The promise is in docs/access.md, "What a decision sees". Real processes, each with its copy of the tree, and
questions asked of all of them as soon as a change was answered, while others go on all the time.
"""

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from authz_service.settings import Settings
from service_kit.embedded.ports import free_ports
from service_kit.errors import GroveError
from service_kit.identity import PassportSigner, PassportVerifier
from service_kit.rpc.client import channel
from tests.api.authz_service.service import READ, Authz, Bearer, bootstrap, ready

PROCESSES = 3
ROUNDS = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class Deployment:
    """The processes, and callers of each."""

    def __init__(self, services: list[Authz], signer: PassportSigner) -> None:
        self.services = services
        self.signer = signer

    def bearers(self, principal: str, *, scopes: tuple[str, ...] = ("user",)) -> list[Bearer]:
        """One caller, at each of them."""
        passport = self.signer.sign(principal, scopes=scopes)
        return [Bearer(service.channel, passport) for service in self.services]


@asynccontextmanager
async def process(dsn: str, keys: tuple[Path, Path], file: Path) -> AsyncGenerator[Authz]:
    """One of them."""
    port, ops = free_ports(2)
    address = f"127.0.0.1:{port}"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GROVE_", "OTEL_"))}
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "authz_service",
        env=env
        | {
            "GROVE_DATABASE_URL": dsn,
            "GROVE_LISTEN": address,
            "GROVE_OPS_LISTEN": f"127.0.0.1:{ops}",
            "GROVE_PASSPORT_SIGNING_KEY_FILE": str(keys[0]),
            "GROVE_PASSPORT_KEYS_FILE": str(keys[1]),
            "GROVE_AUTHZ_BOOTSTRAP_FILE": str(file),
            "GROVE_STOP_GRACE_S": "1",
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await ready(address)
        settings = Settings.model_validate({"database_url": dsn})
        async with channel(address, settings) as calls:
            yield Authz(address, calls, PassportVerifier(keys[1]))
    finally:
        running.terminate()
        await running.wait()


@pytest.fixture
async def deployment(
    service_database: Callable[[str], str], keys: tuple[Path, Path], tmp_path: Path
) -> AsyncGenerator[Deployment]:
    dsn, file = service_database("authz"), bootstrap(tmp_path)
    async with AsyncExitStack() as stack:
        services = await asyncio.gather(
            *(stack.enter_async_context(process(dsn, keys, file)) for _ in range(PROCESSES))
        )
        yield Deployment(list(services), PassportSigner(keys[0]))


async def code(call: Awaitable[object]) -> str:
    """What a call is refused with; "" when it is not."""
    try:
        await call
    except GroveError as error:
        return error.code
    return ""


async def agree(bearers: list[Bearer], node: str, expected: bool) -> None:
    """All say so, asked the moment a change was answered."""
    answers = await asyncio.gather(*(code(one.check(node, READ)) for one in bearers))
    assert set(answers) == {"" if expected else "memory_not_found"}


@asynccontextmanager
async def busy(deployment: Deployment) -> AsyncGenerator[None]:
    """Others ask and change things all the time."""
    carol = deployment.bearers("person:carol")

    async def work(bearer: Bearer) -> None:
        node = (await bearer.create()).id
        while True:
            await asyncio.gather(*(bearer.check(node) for _ in range(4)), bearer.entry_points())
            await bearer.update((await bearer.create(node)).id, restricted=True)

    working = [asyncio.create_task(work(one)) for one in carol]
    try:
        yield
    finally:
        for one in working:
            one.cancel()
        ended = await asyncio.gather(*working, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


Change = Callable[[Bearer], Awaitable[object]]


class Round:
    """Alice's memories, of which bob is to see the leaf or not; each change is made at the next process."""

    def __init__(self, deployment: Deployment) -> None:
        self.alice = deployment.bearers("person:alice")
        self.bob = deployment.bearers("person:bob")
        self.admin = deployment.bearers("credential:admin", scopes=("user", "admin"))
        self.turn = itertools.cycle(range(PROCESSES))

    async def begin(self) -> None:
        self.open, self.closed = [(await self.next(self.alice).create()).id for _ in range(2)]
        await self.next(self.alice).grant(self.open, "person:bob", READ)
        await self.next(self.admin).create_group("group:team")
        await self.plant()

    async def plant(self) -> None:
        self.node = (await self.next(self.alice).create(self.open)).id
        self.leaf = (await self.next(self.alice).create(self.node)).id

    def next(self, bearers: list[Bearer]) -> Bearer:
        return bearers[next(self.turn)]

    async def change(self, who: list[Bearer], make: Change, expected: bool) -> None:
        await make(self.next(who))
        await agree(self.bob, self.leaf, expected)

    async def shape(self) -> None:
        await self.change(self.alice, lambda one: one.update(self.node, restricted=True), False)
        await self.change(self.alice, lambda one: one.update(self.node, restricted=False), True)
        await self.change(self.alice, lambda one: one.update(self.node, parent=self.closed), False)
        await self.change(self.alice, lambda one: one.update(self.node, parent=self.open), True)
        await self.change(self.alice, lambda one: one.delete(self.node), False)
        await self.plant()
        await agree(self.bob, self.leaf, True)
        counts = await asyncio.gather(*(one.check(self.open) for one in self.alice))
        assert [one.children_count for one in counts] == [1] * PROCESSES

    async def grants(self) -> None:
        listed = await self.next(self.alice).grants(self.open)
        granted = next(one for one in listed if one.principal == "person:bob")
        await self.change(self.alice, lambda one: one.revoke(self.open, granted.id), False)
        await self.change(self.alice, lambda one: one.grant(self.leaf, "group:team", READ), False)
        await self.change(self.admin, lambda one: one.add_member("group:team", "person:bob"), True)
        await self.change(self.admin, lambda one: one.remove_member("group:team", "person:bob"), False)
        await self.change(self.admin, lambda one: one.add_member("group:team", "person:bob"), True)
        await self.change(self.admin, lambda one: one.delete_group("group:team"), False)
        await self.change(self.admin, lambda one: one.create_group("group:team"), False)
        await self.change(self.alice, lambda one: one.grant(self.open, "person:bob", READ), True)


async def test_every_kind_of_change_is_known_to_every_process_when_it_is_answered(deployment: Deployment):
    one = Round(deployment)
    await one.begin()
    async with busy(deployment):
        for _ in range(ROUNDS):
            await one.shape()
            await one.grants()


async def test_a_revoked_token_is_refused_by_every_process(deployment: Deployment):
    admin = deployment.bearers("credential:admin", scopes=("user", "admin"))
    for round_ in range(ROUNDS):
        token = await admin[round_ % PROCESSES].create_token("person:dora")
        assert await opened(deployment, token.token) == {""}
        await admin[(round_ + 1) % PROCESSES].revoke_token(token_id=token.id)
        assert await opened(deployment, token.token) == {"invalid_credential"}


async def opened(deployment: Deployment, token: str) -> set[str]:
    """What the processes say to a credential."""
    return set(await asyncio.gather(*(code(one.authenticate(token)) for one in deployment.services)))
