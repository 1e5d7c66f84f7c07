"""A filled database of an earlier release is brought to this one, and everything in it is found and can be worked on."""

import asyncio
import shutil
from collections.abc import Generator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from provider_workers.adapters.native.embedding.local import LocalEmbedder
from provider_workers.adapters.native.generations import Generation, Generations
from provider_workers.adapters.native.vectors import Sweeper
from provider_workers.domain.model import Include, Page, Record, Selection, Stamp, Status
from provider_workers.schema import SCHEMA
from provider_workers.settings import Settings
from service_kit.db import migrate
from service_kit.db.pool import Database
from tests.contract.providers.subject import ALICE, Subject, fact, found, text_of
from tests.contract.providers.test_consolidation import changes, keeper, run
from tests.fixtures.databases import Databases
from tests.fixtures.embeddings import vectors_of

MEMORY = "hmem_" + "a1" * 16
LAST = "0010_consolidation.sql"
FILLED = Path(__file__).with_name("data") / "release_0010.sql"
"""What the release whose last migration that was wrote, dumped."""
MENDED = "Yes, in the end Marek from the yard mended it, for four hundred."
FIFTEEN, SEVENTEEN = (f"The alarm limit is minus {degrees} degrees." for degrees in ("fifteen", "seventeen"))
CATS = "Die Katzen schlafen auf dem Dach."
TYRE = "Our neighbour's bicycle has a flat tyre."


@pytest.fixture
def provider_settings(databases: Databases, tmp_path: Path) -> Generator[Settings]:
    """Of a database that was migrated up to then, filled, and migrated on."""
    databases.service("provider")  # so that there is the role
    old = replace(SCHEMA, migrations=tmp_path / "migrations")
    old.migrations.mkdir()
    files = sorted(SCHEMA.migrations.glob("*.sql"))
    names = [file.name for file in files]
    for file in files[: names.index(LAST) + 1]:
        shutil.copy(file, old.migrations)
    with databases.fresh() as owner:
        assert asyncio.run(migrate.run(owner, old))[-1] == LAST
        with psycopg.connect(owner, options="-c search_path=provider,extensions") as connection:
            connection.execute(sql.SQL(cast("LiteralString", FILLED.read_text(encoding="utf-8"))))
        assert asyncio.run(migrate.run(owner, SCHEMA)) == names[names.index(LAST) + 1 :]
        yield Settings(database_url=SecretStr(databases.role_dsn("provider", owner)), jobs_backoff_s=0.01)


async def everything(subject: Subject, include: Include = Include.ACTIVE) -> list[Record]:
    return list((await subject.adapter.list(MEMORY, Selection(include=include), Page(200))).records)


async def the(subject: Subject, text: str, include: Include = Include.ACTIVE) -> Record:
    """The record that says this."""
    (kept,) = [
        one for one in await everything(subject, include) if text_of(one) == text and one.type != "episode"
    ]
    return kept


async def test_the_database_is_current_and_holds_what_it_held(subject: Subject, database: Database):
    assert await migrate.current(database, SCHEMA)
    counted = {include: len(await everything(subject, include)) for include in Include}
    assert counted == {
        Include.ACTIVE: 12,
        Include.SUPERSEDED: 3,
        Include.FORGOTTEN: 1,
        Include.ALL: 16,
    }
    assert await subject.adapter.count([MEMORY]) == {MEMORY: 12}
    async with database.read() as tx:
        assert await tx.fetch_value("select array_agg(distinct language) from version") == ["english"]
    primed = {text_of(one) for one in await subject.adapter.prime(MEMORY)}
    assert {SEVENTEEN, CATS, "Cats: see the roof."} <= primed


@pytest.mark.requirement("ME-6.2-01", "ME-6.2-02", "ME-6.2-03")
@pytest.mark.parametrize(
    ("asked", "text", "answer"),
    [
        ("", "mending boathouses", "Did you ever get the roof of the boathouse mended?"),
        ("Where do they marry?", "", "My sister's wedding is at the town hall in June."),
        ("Which temperature sets the alarm off?", "", SEVENTEEN),
        ("", "Katzen", CATS),
        ("", "dentists", "Nils Berg is a dentist in Lund."),
        ("", "tyres", TYRE),
        ("", "lamp", "The porch lamp is green."),
    ],
)
async def test_old_records_are_found_by_words_and_by_meaning(
    subject: Subject, asked: str, text: str, answer: str
):
    assert answer in found(await subject.ask(MEMORY, asked, text=text))[:2]


async def test_history_instants_fields_and_neighbours_are_as_they_were(subject: Subject):
    limit = await the(subject, SEVENTEEN)
    assert (limit.version, limit.attributes) == (2, b'{"account":"acme","price":1.10}')
    before, _ = await subject.adapter.history(MEMORY, limit.id)
    assert (text_of(before), before.status) == (FIFTEEN, Status.SUPERSEDED)
    then = await subject.ask(MEMORY, text="alarm", as_of=before.written_at)
    assert found(then) == [FIFTEEN]
    assert (
        await the(subject, "The spare key hangs in the hall.", Include.FORGOTTEN)
    ).status is Status.FORGOTTEN
    # Beside the words of the question stands the answer: the conversation is known.
    beside = await subject.ask(MEMORY, "Who mended the roof of the boathouse?", types=("episode",))
    assert MENDED in found(beside)[:2]
    assert (await subject.ask(MEMORY, "What did Bo say in March 2026?")).hits[
        0
    ].record.valid_from == datetime(2026, 3, 4, 9, 1, tzinfo=UTC)


async def test_an_old_text_is_found_by_the_forms_of_its_language_once_it_is_revised(subject: Subject):
    cats = await the(subject, CATS)
    assert found(await subject.ask(MEMORY, text="Katze")) == []
    await subject.revise(cats, "Die Katzen schlafen jetzt auf dem Dach des Hauses.")
    assert found(await subject.ask(MEMORY, text="Katze")) == [
        "Die Katzen schlafen jetzt auf dem Dach des Hauses."
    ]


async def test_work_that_was_under_way_is_finished(
    subject: Subject, database: Database, encoder: LocalEmbedder
):
    assert "query:embedding_pending" in (await subject.ask(MEMORY, "bicycle")).degraded
    await subject.work()
    facts = [one for one in await everything(subject) if one.type == "fact" and text_of(one) == TYRE]
    assert [one.written_by.kind for one in facts] == ["service"]
    await Sweeper(database, vectors_of(database, encoder, 10.0)).run()
    answer = await subject.ask(MEMORY, "What colour is the light at the entrance?")
    assert ("The porch lamp is green." in found(answer), answer.degraded) == (True, ())


async def test_a_model_that_comes_with_the_upgrade_is_newer_than_that_of_the_vectors_there_are(
    database: Database, encoder: LocalEmbedder
):
    newer = Generations(database, Generation("next-61", 61))
    assert await newer.tell()
    assert (await newer.leaving()).names == [encoder.generation]
    assert not await vectors_of(database, encoder, 10.0).generations.tell()


@pytest.mark.requirement("ME-5.1-07", "ME-9.2-04", "ME-5.2-05")
async def test_what_was_begun_then_is_repeated_undone_and_erased_now(subject: Subject):
    kept = await the(subject, "Nils Berg is a dentist in Lund.")
    again = await subject.adapter.remember(
        MEMORY, fact("Nils Berg is a dentist in Lund."), Stamp(ALICE, "kept-key", b"1" * 32)
    )
    assert again == kept
    (done,) = (await keeper(subject).runs(MEMORY, Page())).runs
    assert (done.status, done.superseded, done.degraded) == ("completed", 1, ())
    (change,) = await changes(subject, done)
    reversal = (await keeper(subject).revert(MEMORY, done.id, Stamp(ALICE))).reversal
    assert reversal is not None
    assert reversal.restored == 1
    assert (await subject.adapter.get(MEMORY, change.record.id, None)).status is Status.ACTIVE
    cats = await the(subject, CATS)
    note = await the(subject, "Cats: see the roof.")
    assert set((await subject.adapter.erase(MEMORY, [cats.id], Stamp(ALICE))).erased) == {cats.id, note.id}


async def test_a_run_goes_over_what_the_old_release_wrote(subject: Subject):
    dentist = await the(subject, "Nils Berg is a dentist in Lund.")
    await subject.state(MEMORY, "Nils Berg is a dentist in Lund.")
    done = await run(subject, MEMORY)
    assert (done.status, done.superseded, done.degraded) == ("completed", 1, ())
    assert [one.replaced_by for one in await changes(subject, done)] == [dentist.id]
