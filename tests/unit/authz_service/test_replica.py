"""The tree in memory against the definitions, after every one of many random changes."""

import random
from dataclasses import dataclass, field

import pytest

from authz_service.domain.caller import READ, WRITE, Caller
from authz_service.domain.model import ALL
from authz_service.replica import reading, walking
from authz_service.replica.reading import Reading
from authz_service.replica.tree import Changes, Row, Tree
from authz_service.replica.walking import descendants, level_below

PRINCIPALS = ("person:a", "person:b", "group:g", "group:h")
CREATORS = (*PRINCIPALS, "person:x", "person:y", "person:z")
# Privileges without read come often: a narrowing hides what has only those.
MASKS = (1, 2, 2, 2, 4, 8, 15)
IDS = [f"hmem_{number * 7919 % 1009:032x}" for number in range(1, 25)]


@dataclass
class Node:
    parent: str | None
    creator: str
    restricted: bool = False
    revoked: bool = False
    deleted: bool = False
    grants: dict[str, int] = field(default_factory=dict[str, int])

    def row(self, node: str) -> Row:
        given = self.grants or None
        return (
            node,
            self.parent,
            self.restricted,
            self.creator,
            self.revoked,
            self.deleted,
            None if given is None else list(given),
            None if given is None else list(given.values()),
        )


@dataclass
class Naive:
    """Nothing but dictionaries and the definitions."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    groups: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def line(self, node: str) -> list[str]:
        parent = self.nodes[node].parent
        return [node] if parent is None else [node, *self.line(parent)]

    def exists(self, node: str) -> bool:
        return node in self.nodes and not self.nodes[self.line(node)[-1]].deleted

    def held(self, caller: Caller, node: str) -> int:
        who, held = {*caller.principals, *self.groups.get(caller.principal, [])}, 0
        for one in self.line(node):
            there = self.nodes[one]
            held |= ALL if there.creator in who and not there.revoked else 0
            for principal, mask in there.grants.items():
                held |= mask if principal in who else 0
            if there.restricted:
                break
        return held

    def mask(self, caller: Caller, node: str) -> int:
        cap = next((caller.caps[one] for one in self.line(node) if one in caller.caps), caller.floor)
        return self.held(caller, node) & cap if self.exists(node) else 0

    def children(self, caller: Caller, node: str, need: int) -> list[str]:
        below = [one for one, there in self.nodes.items() if there.parent == node]
        return sorted(one for one in below if self.mask(caller, one) & need)

    def entries(self, caller: Caller) -> list[str]:
        def enters(node: str) -> bool:
            parent = self.nodes[node].parent
            return bool(self.mask(caller, node)) and (parent is None or not self.mask(caller, parent))

        return sorted(filter(enters, self.nodes))

    def below(self, caller: Caller, node: str, need: int, levels: int) -> list[tuple[int, str]]:
        found = [
            (self.line(one).index(node), one)
            for one in self.nodes
            if node in self.line(one) and self.mask(caller, one) & need
        ]
        return sorted(pair for pair in found if 0 < pair[0] <= levels)


class Changing:
    """One random change after another, to both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same every time
        self.naive = Naive()
        self.tree = Tree()

    def step(self) -> None:
        """A transaction of one to three changes, told as they are in the end, in any order."""
        touched: set[str] = set()
        for _ in range(self.random.randint(1, 3)):
            touched |= self._change()
        keys = list(touched)
        self.random.shuffle(keys)
        rows = [self.naive.nodes[one].row(one) for one in keys if one in self.naive.nodes]
        gone = [one for one in keys if one in IDS and one not in self.naive.nodes]
        groups = {one: self.naive.groups[one] for one in keys if one not in IDS}
        self.tree.apply(Changes(rows, gone, groups))

    def _change(self) -> set[str]:
        chosen, node = self.random.choice, self.random.choice(IDS)
        there = self.naive.nodes.get(node)
        if there is None:
            above = chosen([None, *self.naive.nodes])
            self.naive.nodes[node] = Node(above, chosen(CREATORS), restricted=self.random.random() < 0.3)
            return {node}
        match self.random.randint(0, 6):
            case 0:
                there.restricted = not there.restricted
            case 1:
                there.revoked = True
            case 2:
                self._move(node, there)
            case 3:
                there.grants.pop(chosen(PRINCIPALS), None)
            case 4:
                there.grants[chosen(PRINCIPALS)] = chosen(MASKS)
            case 5 if self.random.random() < 0.4:
                return self._remove(node)
            case _:
                person = chosen(PRINCIPALS[:2])
                self.naive.groups[person] = self.random.sample(PRINCIPALS[2:], self.random.randint(0, 2))
                return {person}
        return {node}

    def _move(self, node: str, there: Node) -> None:
        above = self.random.choice([None, *self.naive.nodes])
        if above is None:
            there.parent, there.deleted = None, self.random.random() < 0.5
        elif node not in self.naive.line(above):
            there.parent, there.deleted = above, False

    def _remove(self, node: str) -> set[str]:
        gone = {one for one in self.naive.nodes if node in self.naive.line(one)}
        for one in gone:
            del self.naive.nodes[one]
        return gone

    def caller(self) -> Caller:
        principals = tuple(self.random.sample(PRINCIPALS, self.random.randint(1, 3)))
        if self.random.random() < 0.6:
            return Caller(principals, {})
        caps = {one: self.random.choice([READ, WRITE]) for one in self.random.sample(IDS, 5)}
        return Caller(principals, caps, min(caps.values()))


def compare(naive: Naive, tree: Tree, caller: Caller) -> None:
    ask = Reading(tree, caller)
    for node in IDS:
        place = ask.place(node, count=True)
        assert (place is not None) == naive.exists(node)
        if place is None:
            continue
        assert place.mask == naive.mask(caller, node)
        assert [one.id for one in place.above] == naive.line(node)[1:]
        assert [one.mask for one in place.above] == [naive.mask(caller, one) for one in naive.line(node)[1:]]
        for need in (ALL, WRITE, 4):
            expected = naive.children(caller, node, need)
            assert ask.children(node, need, "", 99) == expected
            assert ask.children(node, need, IDS[3], 2) == [one for one in expected if one > IDS[3]][:2]
        if place.visible:
            assert place.children == len(naive.children(caller, node, ALL))
            for need, levels in ((ALL, 64), (READ, 64), (WRITE, 2)):
                found = naive.below(caller, node, need, levels)
                assert descendants(ask, node, need, levels, (0, ""), 99) == found
                after = [pair for pair in found if pair > (1, IDS[5])]
                assert descendants(ask, node, need, levels, (1, IDS[5]), 3) == after[:3]
    assert ask.entries("", 99) == naive.entries(caller)
    assert ask.entries(IDS[2], 2) == [one for one in naive.entries(caller) if one > IDS[2]][:2]


@pytest.mark.parametrize("few", [500, 0], ids=["one by one", "from what is held"])
@pytest.mark.parametrize("seed", range(3))
def test_no_answer_differs_from_the_definitions(seed: int, few: int, monkeypatch: pytest.MonkeyPatch):
    # 0 takes the other way through every listing: from what the caller holds itself.
    monkeypatch.setattr(reading, "FEW", few)
    monkeypatch.setattr(walking, "LITTLE", few)
    changing = Changing(seed)
    for _ in range(150):
        changing.step()
        compare(changing.naive, changing.tree, changing.caller())


def test_a_loaded_tree_is_the_one_that_was_followed():
    changing = Changing(99)
    for _ in range(300):
        changing.step()
    loaded = Tree()
    # In the order of ids, so that children often come before their parents.
    loaded.link(loaded.load(changing.naive.nodes[one].row(one) for one in sorted(changing.naive.nodes)))
    loaded.join(changing.naive.groups)
    assert len(loaded) == len(changing.tree) == len(changing.naive.nodes)
    for _ in range(20):
        caller = changing.caller()
        compare(changing.naive, loaded, caller)
        compare(changing.naive, changing.tree, caller)


def test_what_is_taken_away_leaves_nothing_behind():
    changing = Changing(5)
    for _ in range(300):
        changing.step()
    tree = changing.tree
    tree.apply(Changes([], list(changing.naive.nodes), {one: [] for one in PRINCIPALS}))
    assert len(tree) == 0
    left = (tree.open, tree.cut, tree.grants, tree.granted, tree.heads, tree.groups, tree.memberships)
    assert not [one for one in left if one]
    assert not any(tree.revoked.values())
    assert not any(tree.flags)
    size = len(tree.ids)
    changing.naive.nodes.clear()
    for _ in range(30):
        changing.step()
    assert len(tree.ids) <= max(size, len(IDS))  # numbers are used again


def test_a_node_that_does_not_exist_is_looked_for_as_long_as_one_that_is_hidden():
    tree = Tree()
    tree.link(tree.load([(IDS[0], None, False, "person:a", False, False, None, None)]))
    looked: list[int] = []

    class Watched(Reading):
        def own(self, number: int) -> int:
            looked.append(number)
            return super().own(number)

    assert Watched(tree, Caller.whole("person:b")).place(IDS[1]) is None
    assert looked == [tree.numbers[IDS[0]]]
    assert Watched(Tree(), Caller.whole("person:b")).place("no id at all") is None


def test_a_child_that_a_narrowing_hides_is_not_counted():
    root, hidden, shown = IDS[:3]
    naive = Naive({root: Node(None, "person:x", grants={"person:a": WRITE & ~READ})})
    for child in (hidden, shown):
        naive.nodes[child] = Node(root, "person:x")
    tree = Tree()
    tree.link(tree.load(there.row(node) for node, there in sorted(naive.nodes.items())))
    caller = Caller(("person:a",), {root: WRITE, hidden: READ}, READ)
    place = Reading(tree, caller).place(root, count=True)
    assert place is not None
    assert place.children == 1
    compare(naive, tree, caller)


def test_the_levels_below_a_node_are_found():
    changing = Changing(3)
    for _ in range(200):
        changing.step()
    for node in changing.naive.nodes:
        level, height = [changing.tree.numbers[node]], 0
        while level:
            level, height = level_below(changing.tree, level), height + 1
        depths = [
            changing.naive.line(one).index(node)
            for one in changing.naive.nodes
            if node in changing.naive.line(one)
        ]
        assert height == max(depths) + 1
