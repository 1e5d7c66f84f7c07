"""Questions answered together: strictly, and each in its own right."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, cast

import pytest

from authz_service.store.batch import LARGEST, WORKERS, Batcher
from service_kit.db.pool import Database, Tx
from service_kit.errors import GroveError


class Connections:
    """Connections that are handed out when the test says so."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.failure: Exception | None = None
        self.at_the_end: Exception | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Tx]:
        yield cast(Any, None)
        await self.free.wait()
        if self.at_the_end is not None:
            raise self.at_the_end

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Tx]:
        await self.free.wait()
        if self.failure is not None:
            raise self.failure
        yield cast(Any, None)


class Statements:
    """What was asked together; each statement ends when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def together(self, _: Tx, questions: Sequence[str]) -> list[str]:
        self.batches.append(list(questions))
        end = asyncio.Event()
        self.begun.put_nowait(end)
        await end.wait()
        return [f"{one}!" for one in questions]


@pytest.fixture
async def connections() -> Connections:
    return Connections()


@pytest.fixture
async def statements() -> Statements:
    return Statements()


@pytest.fixture
async def batcher(connections: Connections, statements: Statements) -> Batcher[str, str]:
    return Batcher(cast(Database, connections), statements.together)


async def test_a_question_never_joins_a_statement_that_has_begun(
    batcher: Batcher[str, str], statements: Statements
):
    asked = [asyncio.create_task(batcher.ask("first"))]
    begun = [await statements.begun.get()]
    for number in range(1, WORKERS):
        asked.append(asyncio.create_task(batcher.ask(f"also {number}")))
        begun.append(await statements.begun.get())
    late = [asyncio.create_task(batcher.ask(f"late {number}")) for number in range(3)]
    await asyncio.sleep(0)
    assert len(statements.batches) == WORKERS
    begun[0].set()
    assert await asked[0] == "first!"
    (await statements.begun.get()).set()
    assert await asyncio.gather(*late) == ["late 0!", "late 1!", "late 2!"]
    assert statements.batches[-1] == ["late 0", "late 1", "late 2"]
    for one in begun:
        one.set()
    await asyncio.gather(*asked)


async def test_questions_gather_while_there_is_no_connection(
    batcher: Batcher[str, str], connections: Connections, statements: Statements
):
    connections.free.clear()
    asked = [asyncio.create_task(batcher.ask(str(number))) for number in range(LARGEST + 5)]
    await asyncio.sleep(0)
    connections.free.set()
    for _ in range(2):
        (await statements.begun.get()).set()
    assert await asyncio.gather(*asked) == [f"{number}!" for number in range(LARGEST + 5)]
    assert [len(one) for one in statements.batches] == [LARGEST, 5]


async def test_a_failure_is_told_to_everyone_who_asked_and_to_nobody_after(
    batcher: Batcher[str, str], connections: Connections, statements: Statements
):
    connections.failure = GroveError("grovekeeper_unavailable", "Try again.")
    failed = await asyncio.gather(*(batcher.ask(str(one)) for one in range(3)), return_exceptions=True)
    assert [cast(GroveError, one).code for one in failed] == ["grovekeeper_unavailable"] * 3
    connections.failure = None
    asked = asyncio.create_task(batcher.ask("again"))
    (await statements.begun.get()).set()
    assert await asked == "again!"


async def test_a_question_asked_just_as_all_work_ends_is_answered(
    batcher: Batcher[str, str], statements: Statements
):
    async def twice() -> str:
        await batcher.ask("first")
        return await batcher.ask("again")

    asking = asyncio.create_task(twice())
    begun = [await statements.begun.get()]
    others = list[asyncio.Task[str]]()
    for number in range(1, WORKERS):
        others.append(asyncio.create_task(batcher.ask(f"other {number}")))
        begun.append(await statements.begun.get())
    # Every worker ends in the same turn of the loop, and one of those it answered asks again right then.
    for one in begun:
        one.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*others)
        (await statements.begun.get()).set()
        assert await asking == "again!"


async def test_who_gave_up_is_not_asked_for(
    batcher: Batcher[str, str], connections: Connections, statements: Statements
):
    connections.free.clear()
    gone = asyncio.create_task(batcher.ask("gone"))
    kept = asyncio.create_task(batcher.ask("kept"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    connections.free.set()
    (await statements.begun.get()).set()
    assert await kept == "kept!"
    assert statements.batches == [["kept"]]


async def test_giving_up_during_a_statement_leaves_the_others_their_answers(
    batcher: Batcher[str, str], connections: Connections, statements: Statements
):
    connections.free.clear()
    gone, kept = asyncio.create_task(batcher.ask("gone")), asyncio.create_task(batcher.ask("kept"))
    await asyncio.sleep(0)
    connections.free.set()
    end = await statements.begun.get()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    end.set()
    assert await kept == "kept!"


_who: ContextVar[str] = ContextVar("who", default="nobody")


async def test_a_statement_is_not_run_for_ever_in_the_name_of_whoever_came_first(connections: Connections):
    seen: list[str] = []

    async def together(_: Tx, questions: Sequence[str]) -> list[str]:
        seen.append(_who.get())
        return list(questions)

    batcher: Batcher[str, str] = Batcher(cast(Database, connections), together)

    async def ask(name: str) -> None:
        _who.set(name)
        await batcher.ask(name)

    for name in ("alice", "bob"):
        await asyncio.create_task(ask(name))
    assert seen == ["alice", "bob"]


async def test_what_is_written_is_answered_when_its_transaction_has_ended_and_as_it_ended(
    connections: Connections,
):
    async def together(_: Tx, questions: Sequence[str]) -> list[str]:
        return list(questions)

    batcher: Batcher[str, str] = Batcher(cast(Database, connections), together, writes=True)
    connections.free.clear()
    asked = [asyncio.create_task(batcher.ask(name)) for name in ("one", "two")]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(one.done() for one in asked)
    connections.free.set()
    assert await asyncio.gather(*asked) == ["one", "two"]
    connections.at_the_end = GroveError("grovekeeper_unavailable", "Try again.")
    [failed] = await asyncio.gather(batcher.ask("lost"), return_exceptions=True)
    assert cast(GroveError, failed).code == "grovekeeper_unavailable"
