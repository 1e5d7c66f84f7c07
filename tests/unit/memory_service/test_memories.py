from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory_service.domain.clear import clear_deleted, forget_memories
from memory_service.domain.memories import MAX_DESCRIPTION, MAX_NAME, Memories
from memory_service.domain.model import Changed, Description, Idempotency, Page, Privilege, Record
from memory_service.domain.reconcile import Reconciler
from service_kit.clock import FixedClock
from service_kit.errors import GroveError
from service_kit.identity import Passport, use_passport
from tests.unit.memory_service.fakes import NOW, Keeper, Shelf, Tree

KEY = Idempotency("once", b"hash")
NO_KEY = Idempotency()


@pytest.fixture(autouse=True)
def _as_alice() -> Iterator[None]:
    alice = Passport("person:alice", (), frozenset({"user"}), None, (), "", datetime.max.replace(tzinfo=UTC))
    with use_passport(alice):
        yield


class House:
    def __init__(self) -> None:
        self.tree, self.shelf, self.keeper, self.clock = Tree(), Shelf(), Keeper(), FixedClock(NOW)
        self.memories = Memories(self.tree, self.shelf, self.keeper, self.clock, "native")

    async def create(
        self, name: str = "Sales", parent: str = "", provider: str = "", key: Idempotency = NO_KEY
    ) -> str:
        stated = Description("", name, "", provider, NOW, NOW)
        made = await self.memories.create(stated, parent, restricted=False, idempotency=key)
        return made.node.id


@pytest.mark.requirement("ME-2-07")
async def test_a_child_inherits_its_parents_provider() -> None:
    house = House()
    house.keeper.names = ("native", "folder")
    root = await house.create(provider="folder")
    child = await house.memories.get(await house.create(parent=root))
    assert child.description.provider == "folder"
    assert child.node.parent_id == root
    assert (await house.memories.get(await house.create())).description.provider == "native"


async def test_a_repeated_key_answers_the_first_memory_and_makes_no_other() -> None:
    house = House()
    assert await house.create(key=KEY) == await house.create(key=KEY)
    assert len(house.tree.parents) == 1


async def test_a_repeat_after_a_crash_between_the_two_writes_finishes_the_same_memory() -> None:
    house = House()
    made = await house.create(key=KEY)
    house.shelf.kept.clear()
    house.shelf.keys.clear()
    assert await house.create(key=KEY) == made
    assert list(house.tree.parents) == [made]
    assert (await house.memories.get(made)).description.name == "Sales"


async def test_a_key_used_for_another_request_is_refused() -> None:
    house = House()
    await house.create(key=KEY)
    with pytest.raises(GroveError) as refused:
        await house.create("Other", key=Idempotency("once", b"other"))
    assert refused.value.code == "grovekeeper_idempotency_mismatch"


async def test_a_key_is_taken_before_the_memory_is_made() -> None:
    house = House()
    house.tree.broken = True
    with pytest.raises(GroveError):
        await house.create(key=KEY)
    house.tree.broken = False
    # Cut short, it belongs to its request all the same.
    with pytest.raises(GroveError) as refused:
        await house.create("Other", key=Idempotency("once", b"other"))
    assert refused.value.code == "grovekeeper_idempotency_mismatch"
    assert (await house.memories.get(await house.create(key=KEY))).description.name == "Sales"


async def test_a_key_of_a_refused_request_is_free_again() -> None:
    house = House()
    house.tree.refuses = True
    with pytest.raises(GroveError):
        await house.create(key=KEY)
    house.tree.refuses = False
    made = await house.create("Other", key=Idempotency("once", b"other"))
    assert (await house.memories.get(made)).description.name == "Other"


async def test_what_a_repeat_took_up_again_is_not_reconciled_away() -> None:
    house = House()
    house.tree.broken = True
    with pytest.raises(GroveError):
        await house.create(key=KEY)
    house.clock.advance(timedelta(minutes=5))
    before = house.clock.now() - timedelta(minutes=1)
    (left,) = house.shelf.kept
    house.tree.broken = False
    # The repeat comes after the reconciler looked and before it removes.
    made = await house.create(key=KEY)
    await forget_memories(house.shelf, [left], before)
    assert (await house.memories.get(made)).description.name == "Sales"


@pytest.mark.parametrize("name", ["", "  ", "x" * (MAX_NAME + 1)])
async def test_a_name_must_be_there_and_not_too_long(name: str) -> None:
    with pytest.raises(GroveError) as refused:
        await House().create(name)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "name")


async def test_a_name_and_a_description_may_be_as_long_as_it_is_said_and_no_longer() -> None:
    house = House()
    longest = Description("", "n" * MAX_NAME, "d" * MAX_DESCRIPTION, "", NOW, NOW)
    made = await house.memories.create(longest, "", restricted=False, idempotency=NO_KEY)
    assert made.description.description == longest.description
    too_long = replace(longest, description="d" * (MAX_DESCRIPTION + 1))
    with pytest.raises(GroveError) as refused:
        await house.memories.create(too_long, "", restricted=False, idempotency=NO_KEY)
    assert (refused.value.code, refused.value.param) == ("invalid_input", "description")


async def test_an_unknown_provider_is_refused_before_anything_is_written() -> None:
    house = House()
    with pytest.raises(GroveError) as refused:
        await house.create(provider="elsewhere")
    assert refused.value.code == "memory_unsupported"
    assert not house.tree.parents


async def test_a_crash_after_the_first_write_leaves_nothing_that_can_be_seen_and_then_nothing() -> None:
    house = House()
    house.tree.broken = True
    with pytest.raises(GroveError):
        await house.create(key=KEY)
    assert list(house.shelf.kept)
    assert (await house.memories.entry_points(Page())).memories == ()
    house.clock.advance(timedelta(minutes=5))
    await Reconciler(house.tree, house.shelf, house.clock).run()
    assert not house.shelf.kept


async def test_a_refused_create_leaves_nothing() -> None:
    house = House()
    house.tree.refuses = True
    with pytest.raises(GroveError) as refused:
        await house.create()
    assert refused.value.param == "parent_id"
    assert not house.shelf.kept
    root = "hmem_root"
    house.tree.plant(root, held=(Privilege.READ,))
    with pytest.raises(GroveError) as refused:
        await house.create(parent=root)
    assert (refused.value.code, refused.value.param) == ("memory_forbidden", "parent_id")


async def test_a_node_without_a_description_is_shown_to_nobody_and_then_discarded() -> None:
    house = House()
    house.tree.plant("hmem_half")
    with pytest.raises(GroveError) as refused:
        await house.memories.get("hmem_half")
    assert refused.value.code == "memory_not_found"
    assert (await house.memories.entry_points(Page())).memories == ()
    house.clock.advance(timedelta(minutes=5))
    await Reconciler(house.tree, house.shelf, house.clock).run()
    assert not house.tree.parents


async def test_a_half_deleted_memory_is_purged_by_the_reconciler() -> None:
    house = House()
    made = await house.create()
    del house.tree.parents[made], house.tree.held[made]
    house.clock.advance(timedelta(minutes=5))
    await Reconciler(house.tree, house.shelf, house.clock).run()
    assert [one.memory_ids for one in house.shelf.purges] == [(made,)]
    assert not house.shelf.kept


async def test_deleting_takes_the_subtree_and_enqueues_the_purge_of_all_of_it() -> None:
    house = House()
    root = await house.create()
    child = await house.create(parent=root)
    grandchild = await house.create(parent=child)
    gone = await house.memories.delete(root, NO_KEY)
    assert gone.node.id == root
    assert house.shelf.clearings == 1
    assert await clear_deleted(house.tree, house.shelf) == 3
    assert await clear_deleted(house.tree, house.shelf) == 0
    assert {one for purge in house.shelf.purges for one in purge.memory_ids} == {root, child, grandchild}


async def test_deleting_without_the_privilege_is_forbidden_and_removes_nothing() -> None:
    house = House()
    made = await house.create()
    house.tree.held[made] = (Privilege.READ,)
    with pytest.raises(GroveError) as refused:
        await house.memories.delete(made, NO_KEY)
    assert refused.value.code == "memory_forbidden"
    assert made in house.tree.parents


@pytest.mark.requirement("ME-2-08")
async def test_the_provider_of_a_memory_does_not_change() -> None:
    house = House()
    made = await house.create()
    await house.memories.update(made, Changed(provider="native", name="Renamed"), NO_KEY)
    with pytest.raises(GroveError) as refused:
        await house.memories.update(made, Changed(provider="folder"), NO_KEY)
    assert refused.value.code == "memory_unsupported"


async def test_a_rename_needs_write() -> None:
    house = House()
    made = await house.create()
    house.tree.held[made] = (Privilege.READ,)
    with pytest.raises(GroveError) as refused:
        await house.memories.update(made, Changed(name="Mine"), NO_KEY)
    assert refused.value.code == "memory_forbidden"


@pytest.mark.requirement("ME-2-10")
async def test_records_are_counted_only_for_those_who_may_read_them() -> None:
    house = House()
    made = await house.create()
    house.keeper.records.append(Record("hrec_1", made, (), None))
    assert (await house.memories.get(made)).records_count == 1
    house.tree.held[made] = (Privilege.WRITE,)
    assert (await house.memories.get(made)).records_count == 0
