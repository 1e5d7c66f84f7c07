"""What the scripted base says of a tool's answer."""

from collections.abc import Iterable
from typing import cast

from runner_service.domain.fence import enclosed, unfenced
from runner_service.domain.model import Item

__all__ = ["say"]


def say(tool: str, output: str, *, failed: bool) -> str:
    """A tool's answer in words. What came from memory is quoted, with who wrote it."""
    data = unfenced(output)
    if failed:
        said = output if data is None else f"{output.partition(':')[0]}: {data['message']}"
        return f"The memory refused: {said}"
    if data is None:
        return output
    match tool:
        case "memory_recall":
            return _recalled(data)
        case "memory_list":
            return _listed(data)
        case "memory_remember":
            return f"Remembered as {data['record']}: {data['content']}"
        case "memory_revise":
            return f"{data['record']} now reads, in version {data['version']}: {data['content']}"
        case "memory_forget":
            return f"Forgot {data['record']}: {data['content']}"
        case _:
            return f"It answered: {enclosed(output)}"


def _recalled(data: Item) -> str:
    results = cast("list[Item]", data["results"])
    if data["abstain"] or not results:
        return "This memory has no answer to that."
    lines = [f"In {results[0]['memory_name']}:"]
    lines += [f"- {one['content']} ({one['type']}, written by {one['written_by']})" for one in results]
    return "\n".join(lines)


def _listed(data: Item) -> str:
    memories = cast("list[Item]", data["memories"])
    if not memories:
        return "There is no memory I may read."
    return "\n".join(_tree(memories, ""))


def _tree(memories: Iterable[Item], indent: str) -> Iterable[str]:
    for one in memories:
        told = f": {one['description']}" if one["description"] else ""
        yield f"{indent}- {one['name']} ({one['id']}, {one['records']} records){told}"
        children = one["children"]
        if isinstance(children, list):
            yield from _tree(
                cast("list[Item]", [child | {"children": 0} for child in cast("list[Item]", children)]),
                indent + "  ",
            )
