"""Queries of the native provider: what they see of a memory, and what of it is records (sections 6.4 and 6.5)."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
import pytest_asyncio

from provider_workers.adapters.native.adapter import NativeProvider
from provider_workers.adapters.native.querying import Querying
from provider_workers.container.container import Container, Limits
from provider_workers.domain.model import Changes, Draft, Reference, Stamp
from provider_workers.domain.queries import Answered, Asked, params_of
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from tests.contract.providers.subject import ALICE, Subject, words


@pytest_asyncio.fixture
async def querying(subject: Subject, database: Database) -> AsyncGenerator[Querying]:
    assert isinstance(subject.adapter, NativeProvider)
    container = Container(Limits())
    yield Querying(database, container, subject.adapter.capabilities, rows=100, bytes_read=1024 * 1024)
    await container.aclose()


async def ask(
    querying: Querying, memory: str, statement: str, params: bytes = b"", **more: object
) -> Answered:
    asked = Asked(language="sql", statement=statement, params=params_of(params), whose="alice")
    return await querying.query(memory, replace(asked, **more))


async def test_whole_records_are_records_and_anything_else_is_rows(querying: Querying, subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Acme renews.", b'{"n": 123456789012345678901, "x": 1.10}')
    await subject.state(subject.memory(), "Elsewhere.")
    assert (await ask(querying, memory, "select * from records")).records == (one,)
    rows = await ask(querying, memory, "select id, attributes, version from records")
    assert rows.records is None
    assert rows.rows == (b'["%b","{\\"n\\": 123456789012345678901, \\"x\\": 1.10}",1]' % one.id.encode(),)
    changed = (
        "select id, type, upper(content) as content, attributes, version, status, supersedes, valid_from,"
    )
    changed += " valid_to, written_at, writer_kind, writer_id from records"
    assert (await ask(querying, memory, changed)).records is None


async def test_what_is_forgotten_or_erased_is_seen_as_far_as_it_is_there(
    querying: Querying, subject: Subject
):
    memory = subject.memory()
    kept, gone = await subject.state(memory, "Forgotten."), await subject.state(memory, "Erased.")
    await subject.forget(kept)
    await subject.adapter.erase(memory, [gone.id], Stamp(ALICE))
    assert (await ask(querying, memory, "select content from records")).rows == ()
    assert (await ask(querying, memory, "select content, status from versions")).rows == (
        b'["Forgotten.","forgotten"]',
    )


async def test_the_newest_are_seen_when_there_are_too_many(querying: Querying, subject: Subject):
    memory = subject.memory()
    for number in range(101):
        await subject.state(memory, f"Fact {number}.")
    seen = await ask(querying, memory, "select count(*), max(content) from records where content = 'Fact 0.'")
    assert (seen.rows, seen.degraded) == ((b"[0,null]",), ("records:capped_at_100",))


async def test_references_tell_their_relation_where_it_may_be_followed(querying: Querying, subject: Subject):
    memory, other, hidden = subject.memory(), subject.memory(), subject.memory()
    references = (
        Reference("own", memory, "hrec_1"),
        Reference("seen", other, "hrec_2"),
        Reference("secret", hidden, "hrec_3"),
    )
    await subject.adapter.remember(
        memory, Draft("fact", words("Points."), references=references), Stamp(ALICE)
    )
    assert set(await querying.referenced_memories(memory)) == {other, hidden}
    told = await ask(
        querying,
        memory,
        'select rel, target_record_id from "references" order by 2',
        readable=frozenset({other}),
    )
    assert told.rows == (b'["own","hrec_1"]', b'["seen","hrec_2"]', b'[null,"hrec_3"]')


async def test_a_check_compiles_and_reads_nothing(querying: Querying, subject: Subject):
    memory = subject.memory()
    assert await ask(querying, memory, "select * from records where id = :id", check=True) == Answered(None)
    with pytest.raises(GroveError) as caught:
        await ask(querying, memory, "select nope from records", check=True)
    assert (caught.value.code, caught.value.param) == ("memory_invalid", "statement")


async def test_a_revised_record_is_answered_as_it_is_now(querying: Querying, subject: Subject):
    memory = subject.memory()
    one = await subject.state(memory, "Old.")
    new = await subject.adapter.revise(memory, one.id, Changes(content=words("New.")), 0, Stamp(ALICE))
    assert (await ask(querying, memory, "select * from records")).records == (new,)
    assert (await ask(querying, memory, "select content from versions order by version")).rows == (
        b'["Old."]',
        b'["New."]',
    )


@pytest.mark.parametrize(
    ("params", "param"),
    [
        (b"[1]", "params"),
        (b"{", "params"),
        (b'{"n": 9223372036854775808}', "params.n"),
        (b'{"n": 1e999}', "params.n"),
        (b'{"t": "\xff"}', "params.t"),
    ],
)
def test_params_that_no_statement_can_be_given_are_refused_by_name(params: bytes, param: str):
    with pytest.raises(GroveError) as caught:
        params_of(params)
    assert (caught.value.code, caught.value.param) == ("memory_invalid", param)
