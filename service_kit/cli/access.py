"""``grove group``, ``grove access`` and ``grove audit``: who may reach what, from the command line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

from service_kit.cli.gateway import Document, connected, segment, text
from service_kit.embedded.settings import UpSettings

__all__ = [
    "Narrowing",
    "add_members",
    "audit",
    "create_group",
    "delete_group",
    "explain",
    "export",
    "group",
    "groups",
    "remove_members",
]

_GROUPS: Final = "/v1/grovekeeper/groups"
_AUDIT: Final = "/v1/grovekeeper/audit"


def create_group(settings: UpSettings, name: str, description: str) -> str:
    """The new group's whole name. Raises :class:`LaunchError`, as everything here does."""
    with connected(settings) as gateway:
        return text(gateway.post(_GROUPS, {"name": name, "description": description}), "name")


def groups(settings: UpSettings, member: str | None) -> Iterator[list[str]]:
    """The rows of a table of groups, by name; ``member``: only those it was put in."""
    yield ["GROUP", "MEMBERS", "DESCRIPTION"]
    with connected(settings) as gateway:
        for one in gateway.pages(_GROUPS, {"member": member}):
            yield [text(one, "name"), _members(one), text(one, "description")]


def group(settings: UpSettings, name: str) -> Iterator[str]:
    """What a group is, and who is in it, line by line."""
    with connected(settings) as gateway:
        found = gateway.get(_path(name))
        yield f"{text(found, 'name')}: {text(found, 'description') or 'no description'}"
        yield f"members: {_members(found)}"
        for one in gateway.pages(f"{_path(name)}/members"):
            yield f"  {text(one, 'principal')}  added {text(one, 'added_at')} by {text(one, 'added_by')}"


def delete_group(settings: UpSettings, name: str) -> None:
    """Delete a group, its memberships and every grant it holds."""
    with connected(settings) as gateway:
        gateway.delete(_path(name))


def add_members(settings: UpSettings, name: str, principals: list[str]) -> Iterator[str]:
    """Put principals in a group; each, once it is done."""
    with connected(settings) as gateway:
        for one in principals:
            gateway.put(f"{_path(name)}/members/{segment(one)}")
            yield one


def remove_members(settings: UpSettings, name: str, principals: list[str]) -> Iterator[str]:
    """Take principals out of a group; each, once it is done."""
    with connected(settings) as gateway:
        for one in principals:
            gateway.delete(f"{_path(name)}/members/{segment(one)}")
            yield one


def explain(settings: UpSettings, memory: str, principal: str, named: list[str]) -> Iterator[str]:
    """Why a principal holds what it holds on a memory, line by line."""
    with connected(settings) as gateway:
        path = f"/v1/grovekeeper/memories/{segment(memory)}/access"
        told = gateway.get(path, {"principal": principal, "group": named})
    held = _texts(told, "privileges")
    reasons = cast("list[Document]", told.get("reasons", []))
    yield f"{text(told, 'principal')} holds {', '.join(held) or 'nothing'} on {text(told, 'memory_id')}"
    for privilege in held:
        yield f"{privilege}:"
        for one in reasons:
            if not text(one, "stopped_at") and privilege in _texts(_grant(one), "privileges"):
                yield f"  {_reason(one)}"
    stopped = [one for one in reasons if text(one, "stopped_at")]
    if stopped:
        yield "stopped by a cutoff:"
    for one in stopped:
        privileges = ", ".join(_texts(_grant(one), "privileges"))
        yield f"  {privileges}: {_reason(one)}, stopped at {text(one, 'stopped_at')}"
    yield f"groups looked at: {', '.join(_texts(told, 'groups')) or 'none'}"
    if told.get("complete") is not True:
        yield "Grants on memories you cannot see are left out."


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which records of the audit; None does not narrow. The moments are RFC 3339 with an offset."""

    actor: str | None = None
    memory: str | None = None
    action: str | None = None
    outcome: str | None = None
    since: str | None = None
    until: str | None = None

    def query(self) -> dict[str, str | None]:
        """As the route takes it."""
        return {
            "actor": self.actor,
            "memory": self.memory,
            "action": self.action,
            "outcome": self.outcome,
            "since": self.since,
            "until": self.until,
        }


def audit(settings: UpSettings, narrowing: Narrowing, most: int) -> Iterator[list[str]]:
    """The rows of a table of records, newest first, ``most`` of them."""
    yield ["AT", "ACTOR", "ACTION", "OUTCOME", "MEMORY", "PRINCIPAL", "SOURCE", "DETAIL"]
    with connected(settings) as gateway:
        for one in islice(gateway.pages(_AUDIT, narrowing.query()), most):
            yield [
                text(one, "at"),
                text(one, "actor") or "-",
                text(one, "action"),
                text(one, "code") or text(one, "outcome"),
                text(one, "memory_id") or "-",
                text(one, "principal") or "-",
                text(one, "source") or "-",
                json.dumps(one.get("detail"), ensure_ascii=False),
            ]


def export(settings: UpSettings, narrowing: Narrowing) -> Iterator[str]:
    """Every record as a line of JSON, oldest first."""
    with connected(settings) as gateway:
        for one in gateway.pages(_AUDIT, {**narrowing.query(), "order": "oldest"}):
            yield json.dumps(one, ensure_ascii=False)


def _path(name: str) -> str:
    return f"{_GROUPS}/{segment(name)}"


def _members(found: Document) -> str:
    counted = found.get("members")
    return str(cast("Mapping[str, object]", counted).get("count", "")) if isinstance(counted, dict) else ""


def _texts(document: Document, field: str) -> list[str]:
    value = document.get(field)
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def _grant(reason: Document) -> Document:
    return cast("Document", reason.get("grant", {}))


def _reason(reason: Document) -> str:
    grant, via = _grant(reason), text(reason, "via_group")
    where = f"on {text(grant, 'memory_id')}" + (" above" if grant.get("inherited") is True else "")
    how = f" through {via}" if via else ""
    return f"{text(grant, 'id')} {where}{how}" + (" as its creator" if grant.get("creator") is True else "")
