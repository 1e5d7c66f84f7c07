"""Files that records name, of a provider that declares them (section 7)."""

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

import pytest

from provider_workers.adapters.native.extraction import Extraction
from provider_workers.adapters.native.files import Files
from provider_workers.domain.model import Changes, Draft, File, Include, Part, Place, Stamp
from provider_workers.settings import Settings
from service_kit.db.pool import Database
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.conftest import Bench
from tests.contract.providers.subject import ALICE, BOB, Subject, found
from tests.contract.providers.test_erasing import traces


@pytest.fixture(autouse=True)
def _declared(subject: Subject) -> None:
    assert subject.adapter.capabilities.files
    assert subject.adapter.capabilities.content_bytes == "kept"


async def kept(
    subject: Subject, memory: str, content: bytes, file_id: str = "", media_type: str = "text/plain"
) -> File:
    async def chunks() -> AsyncGenerator[bytes]:
        yield content

    file = File(file_id or new_id("file"), "a.file", media_type, len(content))
    return await subject.adapter.keep(memory, file, chunks())


def note(file: File, text: str = "") -> Draft:
    return Draft("note", (Part("file", text, file=file),))


async def content(subject: Subject, memory: str, record_id: str, version: int = 0) -> bytes:
    _, chunks = await subject.adapter.read(memory, record_id, Place(version))
    return b"".join([chunk async for chunk in chunks])


def bytes_in(folder: Path) -> set[bytes]:
    return {one.read_bytes() for one in folder.rglob("*") if one.is_file()}


async def test_the_same_bytes_have_the_same_version_and_keeping_again_changes_nothing(subject: Subject):
    memory = subject.memory()
    one, same = await kept(subject, memory, b"bytes"), await kept(subject, memory, b"bytes")
    other = await kept(subject, memory, b"other")
    assert one.version == same.version != other.version
    assert await kept(subject, memory, b"bytes", one.id) == one


@pytest.mark.parametrize("vouched", [True, False])
async def test_a_file_that_is_not_kept_here_is_not_named_here(subject: Subject, vouched: bool):
    memory, elsewhere = subject.memory(), subject.memory()
    file = await kept(subject, elsewhere, b"bytes")
    await subject.adapter.remember(elsewhere, note(file), Stamp(ALICE))
    stated = file if vouched else File(file.id)
    with pytest.raises(GroveError) as refused:
        await subject.adapter.remember(memory, note(stated), Stamp(BOB))
    assert refused.value.code == "file_not_found"
    assert await subject.listed(memory, include=Include.ALL) == []


async def test_an_id_alone_names_only_what_a_record_here_names_already(subject: Subject):
    memory = subject.memory()
    file = await kept(subject, memory, b"bytes")
    with pytest.raises(GroveError) as refused:
        await subject.adapter.remember(memory, note(File(file.id)), Stamp(BOB))
    assert refused.value.code == "file_not_found"
    await subject.adapter.remember(memory, note(file), Stamp(ALICE))
    again = await subject.adapter.remember(memory, note(File(file.id)), Stamp(BOB))
    assert again.content[0].file == file


async def test_words_that_are_found_are_said_to_be_and_others_are_the_writers(subject: Subject):
    memory = subject.memory()
    file = await kept(subject, memory, b"The walrus dives.")
    found_in = await subject.adapter.remember(memory, note(file), Stamp(ALICE))
    said = await subject.adapter.remember(memory, note(file, "My own words"), Stamp(ALICE))
    assert [(one.text, one.text_source) for one in found_in.content] == [("The walrus dives.", "extracted")]
    assert [(one.text, one.text_source) for one in said.content] == [("My own words", "")]
    lied = Draft("note", (Part("file", "Not in it", file=file, text_source="extracted"),))
    assert (await subject.adapter.remember(memory, lied, Stamp(ALICE))).content[0].text_source == ""
    assert found(await subject.ask(memory, text="walrus")) == ["The walrus dives."]


@pytest.mark.parametrize(
    ("media_type", "held", "words"),
    [
        ("text/plain", b"stork\0 and \xff\xc3( heron", "stork and ( heron"),
        ("application/pdf", b"%PDF-1.7 and nothing more", ""),
        (
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            b"PK\x03\x04 and nothing more",
            "",
        ),
    ],
    ids=["text", "pdf", "docx"],
)
async def test_a_file_that_means_harm_is_kept_and_its_record_written(
    subject: Subject, media_type: str, held: bytes, words: str
):
    memory = subject.memory()
    file = await kept(subject, memory, held, media_type=media_type)
    record = await subject.adapter.remember(memory, note(file), Stamp(ALICE))
    source = "extracted" if words else ""
    assert [(one.text, one.text_source) for one in record.content] == [(words, source)]
    assert await content(subject, memory, record.id) == held


async def test_earlier_bytes_stay_readable_until_they_are_erased(
    subject: Subject, tmp_path: Path, provider_settings: Settings
):
    memory = subject.memory()
    one = await subject.adapter.remember(
        memory, note(await kept(subject, memory, b"pelican one")), Stamp(ALICE)
    )
    two = note(await kept(subject, memory, b"pelican two"))
    await subject.adapter.revise(memory, one.id, Changes(content=two.content), 0, Stamp(BOB))
    assert await content(subject, memory, one.id) == b"pelican two"
    assert await content(subject, memory, one.id, 1) == b"pelican one"
    erased = await subject.adapter.erase(memory, [one.id], Stamp(ALICE))
    assert len(erased.file_ids) == 2
    assert bytes_in(tmp_path / "kept") == set()
    assert traces(provider_settings, "pelican", one.id, *erased.file_ids) == []


async def test_a_store_that_fails_erases_nothing(subject: Subject, bench: Bench, tmp_path: Path):
    memory = subject.memory()
    one = await subject.adapter.remember(memory, note(await kept(subject, memory, b"bytes")), Stamp(ALICE))
    delete = bench.objects.delete

    async def fail(keys: Iterable[str]) -> None:
        raise GroveError("grovekeeper_unavailable", "Not now.")

    bench.objects.delete = fail
    with pytest.raises(GroveError) as refused:
        await subject.adapter.erase(memory, [one.id], Stamp(ALICE))
    assert refused.value.retryable
    assert await subject.adapter.get(memory, one.id, None) == one
    assert await content(subject, memory, one.id) == b"bytes"
    bench.objects.delete = delete
    assert (await subject.adapter.erase(memory, [one.id], Stamp(ALICE))).erased == (one.id,)
    assert bytes_in(tmp_path / "kept") == set()


async def test_what_was_kept_and_never_named_is_dropped_a_day_later(
    subject: Subject, database: Database, bench: Bench, tmp_path: Path
):
    memory = subject.memory()
    named, unnamed = await kept(subject, memory, b"named"), await kept(subject, memory, b"unnamed")
    await subject.adapter.remember(memory, note(named), Stamp(ALICE))
    async with database.begin() as tx:
        await tx.execute("update kept_file set created_at = now() - interval '25 hours'")
    await Files(database, bench.objects, Extraction(max_bytes=0, timeout_s=1.0), 1024).sweep()
    assert bytes_in(tmp_path / "kept") == {b"named"}
    assert await subject.adapter.kept(memory, [named.id, unnamed.id]) == frozenset({named.id})


async def test_a_purge_takes_every_file(subject: Subject, tmp_path: Path):
    memory, other = subject.memory(), subject.memory()
    for place in (memory, other):
        file = await kept(subject, place, place.encode())
        await subject.adapter.remember(place, note(file), Stamp(ALICE))
    for _ in range(2):
        await subject.adapter.purge(memory)
    assert bytes_in(tmp_path / "kept") == {other.encode()}
