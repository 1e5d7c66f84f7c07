from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from memory_service.domain import recall
from memory_service.domain.files import Files, Keeping
from memory_service.domain.model import (
    Address,
    Evidence,
    Found,
    Idempotency,
    Page,
    Privilege,
    Question,
    Record,
    Reference,
    Stated,
)
from memory_service.domain.prime import Prime
from memory_service.domain.recall import Recall
from memory_service.domain.records import Records
from memory_service.domain.references import References
from memory_service.domain.types import Registry
from memory_service.domain.walk import MAX_CHILDREN
from service_kit.clock import SystemClock
from service_kit.errors import GroveError
from service_kit.identity import Passport, use_passport
from tests.unit.memory_service.fakes import Acts, Folder, Keeper, NoTypes, Sent, Shelf, Tree

READ = (Privilege.READ,)
ASKED = Question(None, 8, asks_something=True)


@pytest.fixture(autouse=True)
def _as_the_harness() -> Iterator[None]:
    expires = datetime.max.replace(tzinfo=UTC)
    with use_passport(Passport("harness:chrn_1", (), frozenset({"user"}), None, (), "", expires)):
        yield


class House:
    def __init__(self, *memory_ids: str) -> None:
        self.tree, self.shelf, self.keeper = Tree(), Shelf(), Keeper()
        parent = ""
        for one in memory_ids:
            self.tree.plant(one, parent)
            self.shelf.put(one)
            parent = one
        parts = self.tree, self.shelf, self.keeper
        self.acts, self.sent = Acts(), Sent()
        keeping = Keeping(self.sent, None, 1024, timedelta(hours=1))
        self.files = Files(*parts, Folder(), keeping, SystemClock())
        registry = Registry(self.keeper, NoTypes(), ())
        self.records, self.recall = (
            Records(*parts, self.acts, self.files, registry),
            Recall(*parts),
        )
        self.prime, self.references = Prime(*parts), References(*parts)

    def hold(self, memory_id: str, record_id: str, *references: Reference) -> Record:
        record = Record(record_id, memory_id, references, None)
        self.keeper.records.append(record)
        return record


@pytest.mark.requirement("ME-4-09", "ME-13-04")
async def test_the_writer_is_the_caller_and_nobody_else() -> None:
    house = House("a")
    await house.records.remember("a", Stated(None), Idempotency())
    writer = house.keeper.stamps[0].writer
    assert (writer.kind, writer.id) == ("harness", "chrn_1")


@pytest.mark.parametrize(
    ("held", "code"), [((), "memory_not_found"), (READ, "memory_forbidden")], ids=["nothing", "read only"]
)
async def test_writing_without_the_privilege_never_reaches_the_provider(
    held: tuple[Privilege, ...], code: str
) -> None:
    house = House("a")
    house.tree.held["a"] = held
    for write in (
        house.records.remember("a", Stated(None), Idempotency()),
        house.records.observe("a", [Stated(None)], Idempotency()),
        house.records.forget("a", "hrec_1", 0, Idempotency()),
        house.records.erase("a", ["hrec_1"], Idempotency()),
    ):
        with pytest.raises(GroveError) as refused:
            await write
        assert refused.value.code == code
    assert house.keeper.stamps == []


async def test_a_file_is_refused_where_the_provider_keeps_none() -> None:
    house = House("a")
    with pytest.raises(GroveError) as refused:
        await house.records.remember("a", Stated(None, files=("file_1",)), Idempotency())
    assert refused.value.code == "memory_unsupported"


@pytest.mark.requirement("ME-12-08")
async def test_erase_is_refused_where_the_provider_cannot() -> None:
    house = House("a")
    house.keeper.erases = False
    with pytest.raises(GroveError) as refused:
        await house.records.erase("a", ["hrec_1"], Idempotency())
    assert refused.value.code == "memory_unsupported"


async def test_an_erase_follows_copies_as_far_as_the_caller_may_erase() -> None:
    house = House("a", "b", "c", "d")
    house.tree.held["c"] = (Privilege.READ,)
    house.keeper.copies = {"a": (("b", "one"), ("c", "two")), "b": (("d", "three"), ("c", "two"))}
    erased = await house.records.erase("a", ["hrec_1"], Idempotency("once", b"hash"))
    assert erased.erased == ("hrec_1", "one", "three")
    assert erased.unreachable == ("two",)
    assert house.keeper.erased_in == ["a", "b", "d"]
    # What is erased is in the audit first, wherever it lies.
    assert house.acts.told == [("record.erase", one, {"records": "1"}) for one in ("a", "b", "d")]


@pytest.mark.requirement("ME-4.2-03", "ME-13-05")
async def test_a_hidden_target_looks_exactly_like_one_that_is_gone() -> None:
    house = House("a", "b")
    house.tree.held["b"] = ()
    house.hold("b", "hrec_hidden")
    source = house.hold("a", "hrec_1", Reference("derived_from", "b", "hrec_hidden"))
    hidden = (await house.records.get("a", source.id, None)).references[0]
    house.keeper.records = [source]
    gone = (await house.records.get("a", source.id, None)).references[0]
    assert hidden == gone == Reference("", "b", "hrec_hidden", available=False)


@pytest.mark.requirement("ME-4.2-02")
async def test_a_readable_target_can_be_followed() -> None:
    house = House("a", "b")
    house.hold("b", "hrec_2")
    house.hold("a", "hrec_1", Reference("derived_from", "b", "hrec_2"))
    listed = await house.records.list("a", Stated(None), Page())
    assert listed.records[0].references == (Reference("derived_from", "b", "hrec_2", available=True),)


@pytest.mark.requirement("ME-4.2-01")
async def test_a_target_is_looked_for_at_the_provider_that_keeps_it() -> None:
    house = House("a", "b")
    house.shelf.put("b", provider="folder")
    house.hold("b", "hrec_2")
    source = house.hold("a", "hrec_1", Reference("about", "a", "hrec_1"), Reference("about", "b", "hrec_2"))
    assert all(one.available for one in (await house.records.get("a", source.id, None)).references)
    assert sorted(house.keeper.looked_up) == [
        ("folder", frozenset({("b", "hrec_2")})),
        ("native", frozenset({("a", "hrec_1")})),
    ]


async def test_a_writer_sees_how_its_job_stands_but_not_the_records() -> None:
    house = House("a")
    house.hold("a", "hrec_1")
    house.tree.held["a"] = (Privilege.WRITE,)
    assert (await house.records.job("a", "hjob_1")).records == ()
    house.tree.held["a"] = READ
    assert len((await house.records.job("a", "hjob_1")).records) == 1


@pytest.mark.requirement("ME-2-06", "ME-6.1-01")
async def test_a_recall_reads_the_one_memory_named() -> None:
    house = House("a", "b", "c")
    await house.recall.recall("b", ASKED, None)
    assert house.keeper.asked == [("b",)]


async def test_depth_searches_only_what_the_caller_may_read() -> None:
    house = House("a", "b", "c", "d")
    house.tree.held["c"] = ()
    answer = await house.recall.recall("a", ASKED, -1)
    assert house.keeper.asked == [("a", "b", "d")]
    assert answer.degraded == ()


@pytest.mark.requirement("ME-6.1-04")
async def test_a_depth_is_as_many_levels_and_no_more() -> None:
    house = House("a", "b", "c", "d")
    for depth in (0, 1, 2, 3):
        await house.recall.recall("a", ASKED, depth)
    assert house.keeper.asked == [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")]


@pytest.mark.requirement("ME-6.1-05", "ME-6.1-06", "ME-6.3-03")
async def test_a_depth_beyond_the_providers_is_capped_and_said() -> None:
    house = House("a", "b", "c", "d", "e", "f")
    answer = await house.recall.recall("a", ASKED, 5)
    assert house.keeper.asked == [("a", "b", "c", "d")]
    assert answer.degraded == ("depth:capped_at_3",)


async def test_more_memories_than_one_recall_covers_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House("a", "b", "c")
    for most, degraded in ((3, ()), (2, ("memories:capped_at_2",))):
        monkeypatch.setattr(recall, "MAX_MEMORIES", most)
        assert (await house.recall.recall("a", ASKED, -1)).degraded == degraded
    assert house.keeper.asked == [("a", "b", "c"), ("a", "b")]


@pytest.mark.requirement("ME-6.3-05")
@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (("nothing_stored", "below_confidence"), "below_confidence"),
        (("nothing_stored", "nothing_stored"), "nothing_stored"),
        (("", "nothing_stored"), "nothing_stored"),
        (("below_confidence", None), ""),
    ],
)
async def test_several_providers_abstain_together_with_the_reason_that_says_most(
    reasons: tuple[str | None, ...], told: str
) -> None:
    house = House("a", "b")
    house.shelf.put("b", provider="other")
    answers = iter(
        Found((), (), abstain=one is not None, reason=one or "", evidence=Evidence(0.1, 0.2))
        for one in reasons
    )

    async def recall(provider: str, memory_ids: Sequence[str], question: Question) -> Found:
        return next(answers)

    house.keeper.recall = recall
    answer = await house.recall.recall("a", ASKED, 1)
    assert (answer.abstain, answer.reason, answer.evidence) == (bool(told), told, None)


@pytest.mark.requirement("ME-6.3-04")
async def test_an_unreadable_parent_is_absent_as_on_a_root() -> None:
    house = House("a", "b")
    assert (await house.recall.recall("a", ASKED, None)).parent is None
    house.tree.held["a"] = (Privilege.WRITE,)
    assert (await house.recall.recall("b", ASKED, None)).parent is None
    house.tree.held["a"] = READ
    parent = (await house.recall.recall("b", ASKED, None)).parent
    assert parent is not None
    assert parent.name == "name of a"


@pytest.mark.requirement("ME-6.1-03")
async def test_only_readable_children_are_named_and_a_cap_is_said() -> None:
    house = House("a", "b")
    house.tree.plant("hidden", "a", ())
    house.shelf.put("hidden")
    answer = await house.recall.recall("a", ASKED, None)
    assert [child.id for child in answer.children] == ["b"]
    for number in range(MAX_CHILDREN):
        house.tree.plant(f"m{number}", "a")
        house.shelf.put(f"m{number}")
    answer = await house.recall.recall("a", ASKED, None)
    assert len(answer.children) == MAX_CHILDREN
    assert answer.degraded == (f"children:capped_at_{MAX_CHILDREN}",)


async def test_a_recall_that_asks_nothing_is_invalid_but_only_for_who_may_read() -> None:
    house = House("a")
    nothing = Question(None, 8, asks_something=False)
    with pytest.raises(GroveError) as refused:
        await house.recall.recall("a", nothing, None)
    assert refused.value.code == "memory_invalid"
    house.tree.held["a"] = ()
    with pytest.raises(GroveError) as refused:
        await house.recall.recall("a", nothing, None)
    assert refused.value.code == "memory_not_found"


async def test_priming_leaves_out_what_the_caller_may_not_read() -> None:
    house = House("a", "b")
    house.hold("b", "hrec_1")
    house.tree.held["a"] = ()
    primed = await house.prime.prime(["a", "unknown", "b"])
    assert [one.memory.node.id for one in primed] == ["b"]
    assert [record.id for record in primed[0].records] == ["hrec_1"]


async def test_priming_goes_on_without_a_provider_that_marks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House("a")

    async def left_out(_: Address) -> tuple[Record, ...]:
        raise GroveError("memory_unsupported", "The provider of this memory does not do that.")

    monkeypatch.setattr(house.keeper, "prime", left_out)
    (primed,) = await house.prime.prime(["a"])
    assert (primed.memory.node.id, primed.records) == ("a", ())
