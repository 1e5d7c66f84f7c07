"""What an agent can be offered on some memories (Memories §9.1), told to those who may know it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from memory_service.domain.abilities import MAX_MEMORIES, Abilities, RunnableQuery
from memory_service.domain.model import Capabilities, Privilege
from service_kit.errors import GroveError
from tests.unit.memory_service.fakes import Keeper, Shelf, Tree

READ, WRITE = Privilege.READ, Privilege.WRITE


@dataclass(frozen=True)
class Query:
    name: str
    requires: Privilege = READ


class Documents(Keeper):
    """One provider that can everything and is outside, one that can nothing."""

    async def describe(self) -> tuple[Capabilities, ...]:
        able = Capabilities(
            "able",
            1,
            files=False,
            erase=True,
            payload=None,
            types=True,
            named_query_languages=("sql",),
            free_query_languages=("sql",),
            outside=True,
            query_schema="records(id)",
        )
        return able, Capabilities("plain", 1, files=False, erase=True, payload=None)


class Listed:
    """Queries and types of every memory."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def of_memories(
        self, memory_ids: Sequence[str], most: int
    ) -> Mapping[str, Sequence[RunnableQuery]]:
        self.asked.append(tuple(memory_ids))
        return {one: [Query("reads"), Query("writes", WRITE)] for one in memory_ids}

    async def operable(self) -> Sequence[object]:
        return ["x.type"]


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def abilities(tree: Tree, shelf: Shelf, listed: Listed) -> Abilities:
    return Abilities(tree, shelf, Documents(), listed, listed)


async def test_each_is_told_what_it_may_know(tree: Tree, shelf: Shelf) -> None:
    for memory_id, held in (("both", (READ, WRITE)), ("reads", (READ,)), ("writes", (WRITE,)), ("none", ())):
        tree.plant(memory_id, held=held)
        shelf.put(memory_id, provider="able")
    listed = Listed()
    found = await abilities(tree, shelf, listed).list(["none", "writes", "reads", "unknown", "both", "reads"])
    assert [
        (one.memory_id, [getattr(query, "name", "") for query in one.queries], one.types, one.outside)
        for one in found.abilities
    ] == [
        ("writes", [], False, True),
        ("reads", ["reads"], True, True),
        ("both", ["reads", "writes"], True, True),
    ]
    assert listed.asked == [("reads", "both")]
    assert found.types == ("x.type",)


async def test_a_provider_that_declares_nothing_is_asked_nothing(tree: Tree, shelf: Shelf) -> None:
    tree.plant("hmem_1")
    shelf.put("hmem_1", provider="plain")
    listed = Listed()
    found = await abilities(tree, shelf, listed).list(["hmem_1"])
    (one,) = found.abilities
    assert (one.queries, one.free_query_languages, one.types, one.outside) == ((), (), False, False)
    assert (found.types, listed.asked) == ((), [])


async def test_there_is_a_bound_and_none_is_an_answer(tree: Tree, shelf: Shelf) -> None:
    asking = abilities(tree, shelf, Listed())
    assert (await asking.list([])).abilities == ()
    with pytest.raises(GroveError) as refused:
        await asking.list([str(number) for number in range(MAX_MEMORIES + 1)])
    assert refused.value.code == "invalid_input"
