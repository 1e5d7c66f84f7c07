"""What memory_service keeps of uploads: until they are named, erased or old, in bounds, on a real Postgres."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory_service.domain.files import CUT_SHORT, Files, Incoming, Keeping
from memory_service.domain.model import Address, Erased, File, Idempotency, Room, Stamp, Upload, Writer
from memory_service.settings import Settings
from memory_service.store.uploads import CHECK, PostgresUploads
from service_kit.clock import FixedClock
from service_kit.db.pool import Database, connect
from service_kit.errors import GroveError
from service_kit.identity import Passport, use_passport
from service_kit.jobs import Jobs
from service_kit.objects.store import open_objects
from tests.unit.memory_service.fakes import Folder, Keeper, Shelf, Tree

KEEP_FOR = timedelta(hours=48)
LIMIT = 1000
HERE = Address("native", "hmem_1")
NO_KEY = Idempotency()


def person(name: str) -> Passport:
    return Passport(f"person:{name}", (), frozenset(), None, (), "", datetime.max.replace(tzinfo=UTC))


class Sending(Incoming):
    """An upload of these chunks; ``held`` waits before the last is asked for."""

    def __init__(self, *chunks: bytes, key: str = "", purpose: str = "") -> None:
        self.name, self.media_type = "a.bin", ""
        self.idempotency = Idempotency(key, b"") if key else NO_KEY
        self.sent, self._chunks, self._purpose = asyncio.Event(), chunks, purpose
        self.held: asyncio.Event | None = None

    async def chunks(self) -> AsyncGenerator[bytes]:
        for chunk in self._chunks:
            yield chunk
        self.sent.set()
        if self.held is not None:
            await self.held.wait()

    def purpose(self, received: int) -> str:
        return self._purpose


class Erasing(Keeper):
    """A provider whose erase says that these files went."""

    gone: tuple[str, ...] = ()

    async def erase(self, address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        return Erased(tuple(record_ids), (), file_ids=self.gone)


class House:
    """The use cases of files, over a database and a directory."""

    def __init__(self, database: Database, settings: Settings, directory: Path) -> None:
        self.database, self.jobs = database, Jobs("memory", settings)
        self.jobs.task(CHECK, self._check)
        self.clock, self.folder, self.provider = FixedClock(datetime.now(UTC)), Folder(), Erasing()
        self.directory = directory
        objects = open_objects(Settings(object_store_url=directory.as_uri()), "uploads")
        assert objects is not None
        self.objects, self.uploads = objects, PostgresUploads(database, self.jobs)
        self.files = self.with_room(Room())

    def with_room(self, room: Room) -> Files:
        keeping = Keeping(self.uploads, self.objects, LIMIT, KEEP_FOR, room)
        return Files(Tree(), Shelf(), self.provider, self.folder, keeping, self.clock)

    async def _check(self, payload: dict[str, Any]) -> None:
        await self.files.check(Address(payload["provider"], payload["memory_id"]))

    async def rows(self) -> list[tuple[str, bool]]:
        async with self.database.read() as tx:
            return [
                (row["id"], row["complete"]) for row in await tx.fetch_all("select id, complete from upload")
            ]

    async def answers(self) -> int:
        async with self.database.read() as tx:
            return int(await tx.fetch_value("select count(*) from answered"))

    async def checks(self) -> list[dict[str, Any]]:
        async with self.database.read() as tx:
            rows = await tx.fetch_all("select args from procrastinate_jobs where status = 'todo'")
        return [row["args"] for row in rows]

    def bytes(self) -> list[bytes]:
        return sorted(one.read_bytes() for one in self.directory.rglob("*") if one.is_file())

    def break_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(_: object) -> None:
            raise GroveError("grovekeeper_unavailable", "Not now.")

        monkeypatch.setattr(self.objects, "delete", fail)


@pytest.fixture
async def house(service_database: Callable[[str], str], tmp_path: Path) -> AsyncGenerator[House]:
    settings = Settings(database_url=SecretStr(service_database("memory")))
    async with connect(settings, "memory") as database:
        yield House(database, settings, tmp_path)


@pytest.fixture(autouse=True)
def _as_alice() -> Iterator[None]:
    with use_passport(person("alice")):
        yield


async def refused(house: House, sending: Sending, files: Files | None = None) -> GroveError:
    with pytest.raises(GroveError) as raised:
        await (files or house.files).upload(sending)
    return raised.value


async def kept(house: House, *contents: bytes) -> list[Upload]:
    """Uploads that a memory was given a while ago."""
    made = [await house.files.upload(Sending(one)) for one in contents]
    await house.uploads.note_kept([one.id for one in made], HERE.memory_id)
    house.clock.advance(CUT_SHORT + timedelta(minutes=1))
    return made


async def test_a_sender_that_leaves_in_the_middle_leaves_neither_row_nor_bytes(house: House):
    sending = Sending(b"x" * 100)
    sending.held = asyncio.Event()
    task = asyncio.create_task(house.files.upload(sending))
    await sending.sent.wait()
    assert [complete for _, complete in await house.rows()] == [False]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await house.rows() == []
    assert house.bytes() == []


@pytest.mark.parametrize(
    ("sending", "code"),
    [
        (Sending(b"x" * LIMIT, b"x"), "file_too_large"),
        (Sending(b"x", purpose="x" * 65), "invalid_input"),
        (Sending(b"x", purpose="a\nb"), "invalid_input"),
    ],
    ids=["too large", "long purpose", "unprintable purpose"],
)
async def test_an_upload_that_is_refused_leaves_neither_row_nor_bytes(
    house: House, sending: Sending, code: str
):
    assert (await refused(house, sending)).code == code
    assert (await house.rows(), house.bytes()) == ([], [])


async def test_exactly_the_limit_is_no_more_than_the_limit(house: House):
    assert (await house.files.upload(Sending(b"x" * LIMIT))).bytes == LIMIT


async def test_what_cannot_be_removed_now_is_removed_by_the_sweep(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as broken:
        house.break_store(broken)
        assert (await refused(house, Sending(b"x", purpose="x" * 65))).code == "invalid_input"
    assert house.bytes() == [b"x"]
    await house.files.sweep()
    assert (await house.rows(), house.bytes()) == ([], [])


async def test_the_sweep_takes_what_is_old_and_nothing_else(house: House):
    old = await house.files.upload(Sending(b"old", key="k"))
    house.clock.advance(KEEP_FOR - timedelta(minutes=10))
    young = await house.files.upload(Sending(b"young"))
    await house.files.sweep()
    assert {one for one, _ in await house.rows()} == {old.id, young.id}
    house.clock.advance(timedelta(minutes=11))
    await house.files.sweep()
    await house.files.sweep()
    assert [one for one, _ in await house.rows()] == [young.id]
    assert house.bytes() == [b"young"]
    assert await house.answers() == 0
    with pytest.raises(GroveError) as missing:
        await house.files.get(old.id)
    assert missing.value.code == "file_not_found"


async def test_an_upload_whose_server_died_is_swept_when_it_can_no_longer_end(house: House):
    half = Upload("file_half", "person:alice", "half", house.clock.now(), bytes=10)
    await house.uploads.begin_upload(half, Room())

    async def some() -> AsyncGenerator[bytes]:
        yield b"half"

    await house.objects.put(half.id, some(), 10)
    house.clock.advance(CUT_SHORT - timedelta(seconds=1))
    await house.files.sweep()
    assert house.bytes() == [b"half"]
    house.clock.advance(timedelta(seconds=2))
    await house.files.sweep()
    assert (await house.rows(), house.bytes()) == ([], [])


async def test_the_check_removes_what_a_memory_was_given_and_keeps_no_more(house: House):
    gone, there = await kept(house, b"gone", b"there")
    other = await house.files.upload(Sending(b"other"))
    house.folder.files[there.id] = File(there.id, there.name, there.media_type, there.bytes)
    for _ in range(2):
        await house.files.check(HERE)
    assert {one for one, _ in await house.rows()} == {there.id, other.id}
    assert house.bytes() == [b"other", b"there"]
    assert gone.id not in {one for one, _ in await house.rows()}


async def test_the_check_leaves_alone_what_may_still_be_on_its_way(house: House):
    one = await house.files.upload(Sending(b"on its way"))
    await house.uploads.note_kept([one.id], HERE.memory_id)
    await house.files.check(HERE)
    assert house.bytes() == [b"on its way"]


async def test_a_check_is_enqueued_before_the_provider_is_asked_to_erase(house: House):
    await kept(house, b"bytes")

    async def dies(address: Address, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        assert len(await house.checks()) == 1
        raise GroveError("memory_unavailable", "Not now.")

    house.provider.erase = dies
    with pytest.raises(GroveError):
        await house.files.erase(HERE, ["hrec_1"], Stamp(Writer("person", "alice"), NO_KEY))
    assert len(await house.checks()) == 1


async def test_a_memory_that_was_given_nothing_needs_no_check(house: House):
    await house.files.forget(HERE)
    assert await house.checks() == []


async def test_an_erase_answers_once_the_bytes_are_gone_and_fails_where_they_are_not(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    (one,) = await kept(house, b"bytes")
    house.provider.gone = (one.id,)
    stamp = Stamp(Writer("person", "alice"), NO_KEY)
    with monkeypatch.context() as broken:
        house.break_store(broken)
        with pytest.raises(GroveError) as failed:
            await house.files.erase(HERE, ["hrec_1"], stamp)
        assert failed.value.retryable
    # Nobody reaches it, and the repeat finishes.
    with pytest.raises(GroveError) as missing:
        await house.files.get(one.id)
    assert missing.value.code == "file_not_found"
    assert house.bytes() == [b"bytes"]
    assert (await house.files.erase(HERE, ["hrec_1"], stamp)).erased == ("hrec_1",)
    assert (await house.rows(), house.bytes()) == ([], [])


async def test_what_an_erase_could_not_delete_the_next_sweep_deletes(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    (one,) = await kept(house, b"bytes")
    house.provider.gone = (one.id,)
    with monkeypatch.context() as broken:
        house.break_store(broken)
        with suppress(GroveError):
            await house.files.erase(HERE, ["hrec_1"], Stamp(Writer("person", "alice"), NO_KEY))
    await house.files.sweep()
    assert (await house.rows(), house.bytes()) == ([], [])


@pytest.mark.requirement("SU-errors-14")
@pytest.mark.parametrize("room", [Room(files=2), Room(bytes=20)], ids=["files", "bytes"])
async def test_one_principal_keeps_so_much_and_no_more(house: House, room: Room):
    files = house.with_room(room)
    for _ in range(2):
        await files.upload(Sending(b"x" * 10))
    error = await refused(house, Sending(b"x"), files)
    assert (error.code, error.rule.http) == ("quota_exhausted", 429)
    assert error.detail == {"max_files": room.files, "max_bytes": room.bytes}
    assert len(await house.rows()) == 2
    with use_passport(person("bob")):
        await files.upload(Sending(b"bob's"))
    house.clock.advance(KEEP_FOR + timedelta(minutes=1))
    await files.sweep()
    assert (await files.upload(Sending(b"x"))).bytes == 1


async def test_what_does_not_fit_into_what_is_left_is_refused_and_leaves_nothing(house: House):
    files = house.with_room(Room(bytes=20))
    await files.upload(Sending(b"x" * 15))
    assert (await refused(house, Sending(b"y" * 6), files)).code == "quota_exhausted"
    assert house.bytes() == [b"x" * 15]
    assert (await files.upload(Sending(b"z" * 5))).bytes == 5


async def test_uploads_under_way_count_with_the_most_they_may_have(house: House):
    files = house.with_room(Room(bytes=2 * LIMIT))
    held = [Sending(b"x") for _ in range(2)]
    for one in held:
        one.held = asyncio.Event()
    under_way = [asyncio.create_task(files.upload(one)) for one in held]
    for one in held:
        await one.sent.wait()
    assert (await refused(house, Sending(b"y"), files)).code == "quota_exhausted"
    for one in held:
        assert one.held is not None
        one.held.set()
    await asyncio.gather(*under_way)
    assert (await files.upload(Sending(b"y"))).bytes == 1


async def test_uploads_that_begin_at_once_keep_to_the_bound_together(house: House):
    files = house.with_room(Room(files=3))
    done = await asyncio.gather(*(files.upload(Sending(b"x")) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(one, Upload) for one in done) == 3
    assert len(await house.rows()) == 3
