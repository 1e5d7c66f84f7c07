"""Every tool at every position of a tree, against a small model of the chapter (sections 3, 9 and 13)."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from protos.authz.v1 import authz_pb2
from protos.memory.v1 import memory_pb2
from service_kit.errors import GroveError
from tests.api.runner_service.cluster import Memories, Runner
from tests.api.runner_service.test_memory import READ, WRITE, attach, data, entry, items
from tests.fixtures.model_stub import Answer, ModelStub

Product = tuple[Runner, Memories]
Json = dict[str, Any]


@dataclass
class Node:
    """A memory as the model knows it. ``held``: what the harness was granted here by hand."""

    parent: str = ""
    restricted: bool = False
    held: tuple[int, ...] = ()


@dataclass
class Tree:
    """The chapter's rules, told once more: inheritance, the cutoff, and what an attachment narrows."""

    nodes: dict[str, Node]
    attached: dict[str, str]
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def above(self, name: str) -> list[str]:
        """The node and its ancestors, nearest first."""
        return [name, *self.above(self.nodes[name].parent)] if name else []

    def granted(self, name: str) -> set[str]:
        found = set[str]()
        for one in self.above(name):
            node = self.nodes[one]
            found |= {"read" if held == READ else "write" for held in node.held}
            if one in self.attached:
                found |= {"read"} if self.attached[one] == "read" else {"read", "write"}
            if node.restricted:
                break
        return found

    def may(self, name: str) -> set[str]:
        access = next((self.attached[one] for one in self.above(name) if one in self.attached), "")
        if not access:
            access = "write" if all(one == "write" for one in self.attached.values()) else "read"
        return self.granted(name) & ({"read"} if access == "read" else {"read", "write"})


SHAPE = {
    "top": Node(held=(READ, WRITE)),
    "middle": Node("top"),
    "below": Node("middle"),
    "deep": Node("below"),
    "beside": Node("top"),
    "closed": Node("middle", restricted=True),
    "inside": Node("closed", held=(READ,)),
    "drop": Node("middle", restricted=True, held=(WRITE,)),
    "pit": Node("drop"),
    "slot": Node("drop", held=(READ,)),
    "hidden": Node(),
}


@pytest.mark.requirement(
    "ME-6.1-03",
    "ME-6.3-04",
    "ME-9-07",
    "ME-9-08",
    "ME-9.1-13",
    "ME-9.1-14",
    "ME-13-03",
    "ME-3.3-02",
    "ME-9.1-07",
    "ME-9.1-08",
    "ME-9.1-20",
)
@pytest.mark.parametrize(
    "attached",
    [
        {"middle": "read"},
        {"middle": "write"},
        {"middle": "read", "below": "write"},
        {"middle": "write", "deep": "read"},
        {"closed": "write"},
    ],
    ids=lambda attached: "-".join(f"{name}_{access}" for name, access in attached.items()),
)
async def test_each_tool_does_at_each_place_what_the_chapter_lets_it(
    product: Product, stub: ModelStub, attached: dict[str, str]
) -> None:
    runner, memories = product
    tree = Tree(SHAPE, attached)
    # Calls of one step run at once, so each is about a record of its own.
    records, changed, closed = dict[str, str](), dict[str, str](), dict[str, str]()
    for name, node in SHAPE.items():
        tree.ids[name] = await memories.create(
            name, tree.ids.get(node.parent, ""), restricted=node.restricted
        )
        records[name] = (await memories.remember(tree.ids[name], f"The word of {name}.")).id
        changed[name] = (await memories.remember(tree.ids[name], "Old.")).id
        closed[name] = (await memories.remember(tree.ids[name], "Over.")).id
    harness = await runner.harness(base="loop")
    for name, node in SHAPE.items():
        if node.held:
            await memories.grant(tree.ids[name], f"harness:{harness.id}", *node.held)
    await attach(runner, harness.id, *(entry(tree.ids[name], access) for name, access in attached.items()))
    writes = "write" in attached.values()
    calls = [
        (name, tool, {"memory": tree.ids[name], **arguments})
        for name in SHAPE
        for tool, arguments in (
            ("memory_list", {}),
            ("memory_recall", {"text": "word"}),
            ("memory_get", {"record": records[name]}),
            *((("memory_remember", {"content": "Written."}),) if writes else ()),
            *((("memory_revise", {"record": changed[name], "content": "Revised."}),) if writes else ()),
            *((("memory_forget", {"record": closed[name]}),) if writes else ()),
        )
    ]
    stub.say(Answer(calls=[(tool, json.dumps(arguments)) for _, tool, arguments in calls]), Answer("done"))
    final = await runner.run("walk", harness_id=harness.id)
    outputs = {one["call_id"]: one for one in items(final, "function_call_output")}
    asked = items(final, "function_call")
    assert len(asked) == len(calls)
    for (name, tool, _), call in zip(calls, asked, strict=True):
        may, output = tree.may(name), outputs[call["call_id"]]["output"]
        needs = "read" if tool in ("memory_recall", "memory_get") else "write"
        told = f"{tool} at {name} with {sorted(may)}: {output[:120]}"
        if not may:
            assert output.startswith("memory_not_found: "), told
        elif tool != "memory_list" and needs not in may:
            assert output.startswith("memory_forbidden: "), told
        else:
            assert "error" not in output.partition("\n")[0], told
            assert "trust" in output or tool == "memory_list", told
    for name in SHAPE:
        if tree.may(name):
            _check_walk(tree, name, outputs, calls, asked)


def _check_walk(
    tree: Tree, name: str, outputs: dict[str, Json], calls: list[tuple[str, str, Json]], asked: list[Json]
) -> None:
    """A listing of what the harness holds anything on names the parent and children it may read, and no others."""
    at = next(n for n, (where, tool, _) in enumerate(calls) if (where, tool) == (name, "memory_list"))
    listed = data(outputs[asked[at]["call_id"]])
    assert (listed["id"], listed["may"]) == (tree.ids[name], sorted(tree.may(name)))
    below = {one for one, node in tree.nodes.items() if node.parent == name and "read" in tree.may(one)}
    assert {one["name"] for one in listed["children"]} == below
    assert all(one.keys() >= {"id", "name", "description", "records"} for one in listed["children"])
    parent = tree.nodes[name].parent
    above = listed.get("parent", {})
    if parent and "read" in tree.may(parent):
        assert (above["id"], above["name"]) == (tree.ids[parent], parent)
        assert above["description"] == f"About {parent}."
        assert above["records"]
    else:
        assert "parent" not in listed
    told = outputs[asked[at]["call_id"]]["output"]
    assert not [
        one for one in tree.nodes if one != name and "read" not in tree.may(one) and tree.ids[one] in told
    ]


async def test_a_privilege_narrows_the_children_of_a_memory_and_no_other_list(product: Product) -> None:
    _, memories = product
    top = await memories.create("top")
    read = authz_pb2.PRIVILEGE_READ
    for asked in (
        memory_pb2.ListMemoriesRequest(ancestor=top, required=read),
        memory_pb2.ListMemoriesRequest(required=read),
    ):
        with pytest.raises(GroveError) as refused:
            await memories.memories.ListMemories(asked)
        assert (refused.value.code, refused.value.param) == ("invalid_input", "required")
