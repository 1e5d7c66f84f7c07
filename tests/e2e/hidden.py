"""Memories somebody may not see, or no longer, by every way there is to that; and all an answer says."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httpx

from tests.e2e.caller import Caller
from tests.e2e.people import Person
from tests.e2e.routes import Names, in_memory, memory_with_everything

__all__ = ["EVERY_PRIVILEGE", "PREFIX", "Hidden", "Whole", "unknown", "whole"]

EVERY_PRIVILEGE: Final = ("read", "write", "create", "delete")
PREFIX: Final = {
    "memory_id": "hmem_",
    "record_id": "hrec_",
    "grant_id": "hgrt_",
    "job_id": "hjob_",
    "snapshot_id": "hsnap_",
    "run_id": "hcon_",
    "operation": "op_",
    "type": "x.",
    "harness_id": "chrn_",
    "response_id": "resp_",
    "session_id": "hsess_",
    "share_id": "hshare_",
    "token_id": "tok_",
    "name": "group:",
    "principal": "person:",
}

Whole = tuple[int, str, list[tuple[str, str]]]


def unknown(names: Names) -> Names:
    """Names of the same kinds that nothing has."""
    return {kind: PREFIX[kind] + uuid.uuid4().hex for kind in names}


def whole(answer: httpx.Response, names: Names) -> Whole:
    """Everything an answer says, byte for byte: status, body, and headers in their order.

    The names it was asked with are called what they name, and what differs between any two requests is left out.
    """
    trace = answer.headers["traceparent"].split("-")[1]
    known = {trace: "{trace}", **{name: f"{{{kind}}}" for kind, name in names.items()}}

    def told(text: str) -> str:
        for name, kind in known.items():
            text = text.replace(name, kind)
        return text

    differs = {"date", "traceparent"}
    headers = [(name, "" if name in differs else told(value)) for name, value in answer.headers.multi_items()]
    return answer.status_code, told(answer.text), headers


@dataclass
class Hidden:
    """What alice hid from bob. ``worlds``: by how; in each a record, a grant and a job that is done.

    ``bob_group``: the group that bob's token names.
    """

    admin: Caller
    alice: Person
    bob: Person
    bob_group: str
    worlds: dict[str, Names] = field(default_factory=dict[str, Names])
    gone: set[str] = field(default_factory=set[str])
    states: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def make(self) -> None:
        """Hide one memory in each way, after bob could see it."""
        for hide in _WAYS:
            self.worlds[hide.__name__.strip("_").replace("_", " ")] = hide(self)
        for names in self.worlds.values():
            assert self.bob.send("GET", f"/v1/memories/{names['memory_id']}").status_code == 404
        self.states = {way: self.state(names) for way, names in self.worlds.items()}

    def unchanged(self) -> bool:
        """Whether nothing happened to any of them since."""
        return self.states == {way: self.state(names) for way, names in self.worlds.items()}

    def shown(self, *, parent: str | None = None) -> Names:
        """A memory of alice's, not yet hidden. What it learns from its job is there."""
        names = memory_with_everything(self.alice, parent)
        self.alice.finished(names["memory_id"], names["job_id"])
        return names

    def seen(self, names: Names) -> None:
        """Bob holds everything there, now."""
        assert set(self.bob.get(f"/v1/memories/{names['memory_id']}")["privileges"]) == set(EVERY_PRIVILEGE)

    def delete(self, memory: str, names: Names) -> None:
        """Delete ``memory``, with which what ``names`` names goes."""
        self.alice.delete(f"/v1/memories/{memory}")
        self.gone.add(names["memory_id"])

    def state(self, names: Names) -> list[str]:
        """What its owner sees of it: nothing of it may change when a request about it is refused."""
        memory, record = names["memory_id"], names["record_id"]
        if memory in self.gone:
            return []
        paths = ("", "/grants", "/records?include=all&limit=200", f"/records/{record}/history")
        answers = [self.alice.send("GET", f"/v1/memories/{memory}{path}") for path in paths]
        assert all(answer.is_success for answer in answers)
        return [answer.text for answer in answers]


def _never_granted(hidden: Hidden) -> Names:
    return hidden.shown()


def _revoked(hidden: Hidden) -> Names:
    names = hidden.shown()
    grant = hidden.alice.give(names["memory_id"], hidden.bob, *EVERY_PRIVILEGE)
    hidden.seen(names)
    hidden.alice.delete(f"/v1/memories/{names['memory_id']}/grants/{grant}")
    return names


def _group_with_bob(hidden: Hidden) -> str:
    """A group of its own, its path below ``/v1/grovekeeper/``; its last part is its name."""
    name = f"group:{uuid.uuid4().hex}"
    hidden.admin.post("/v1/grovekeeper/groups", {"name": name})
    hidden.admin.put(f"/v1/grovekeeper/groups/{name}/members/{hidden.bob.principal}", {})
    return f"/v1/grovekeeper/groups/{name}"


def _through(hidden: Hidden, group: str) -> tuple[Names, str]:
    """What bob sees through a group he is in, and the grant that lets him."""
    names = hidden.shown()
    made = hidden.alice.grant(names["memory_id"], group.rpartition("/")[2], *EVERY_PRIVILEGE)
    hidden.seen(names)
    return names, str(made["id"])


def _revoked_from_his_group(hidden: Hidden) -> Names:
    names, grant = _through(hidden, _group_with_bob(hidden))
    hidden.alice.delete(f"/v1/memories/{names['memory_id']}/grants/{grant}")
    return names


def _revoked_from_a_group_of_his_credential(hidden: Hidden) -> Names:
    names, grant = _through(hidden, f"group:{hidden.bob_group}")
    hidden.alice.delete(f"/v1/memories/{names['memory_id']}/grants/{grant}")
    return names


def _removed_from_the_group(hidden: Hidden) -> Names:
    group = _group_with_bob(hidden)
    names, _ = _through(hidden, group)
    hidden.admin.delete(f"{group}/members/{hidden.bob.principal}")
    return names


def _group_deleted(hidden: Hidden) -> Names:
    group = _group_with_bob(hidden)
    names, _ = _through(hidden, group)
    hidden.admin.delete(group)
    return names


def _group_made_again(hidden: Hidden) -> Names:
    """A group of the same name, with bob in it: it holds nothing of what the first one held."""
    group = _group_with_bob(hidden)
    names, _ = _through(hidden, group)
    hidden.admin.delete(group)
    hidden.admin.post("/v1/grovekeeper/groups", {"name": group.rpartition("/")[2]})
    hidden.admin.put(f"{group}/members/{hidden.bob.principal}", {})
    return names


def _revoked_from_its_creator(hidden: Hidden) -> Names:
    """Bob created it below a memory of alice's, and everything he held on either was taken away."""
    top = hidden.alice.plant("Top")
    grant = hidden.alice.give(top, hidden.bob, "create")
    names = in_memory(hidden.alice, hidden.bob.plant("Bob's", top))
    hidden.alice.finished(names["memory_id"], names["job_id"])
    hidden.seen(names)
    hidden.alice.delete(f"/v1/memories/{top}/grants/{grant}")
    grants = hidden.alice.get(f"/v1/memories/{names['memory_id']}/grants")["data"]
    (own,) = [one["id"] for one in grants if one["creator"] and not one["inherited"]]
    hidden.alice.delete(f"/v1/memories/{names['memory_id']}/grants/{own}")
    return names


def _cut_off(hidden: Hidden) -> Names:
    top = hidden.alice.plant("Top")
    hidden.alice.give(top, hidden.bob, *EVERY_PRIVILEGE)
    names = hidden.shown(parent=top)
    hidden.seen(names)
    hidden.alice.put(f"/v1/memories/{names['memory_id']}", {"restricted": True})
    return names


def _cut_off_further_up(hidden: Hidden) -> Names:
    top = hidden.alice.plant("Top")
    hidden.alice.give(top, hidden.bob, *EVERY_PRIVILEGE)
    middle = hidden.alice.plant("Middle", top)
    names = hidden.shown(parent=middle)
    hidden.seen(names)
    hidden.alice.put(f"/v1/memories/{middle}", {"restricted": True})
    return names


def _moved_out_of_reach(hidden: Hidden) -> Names:
    top, elsewhere = hidden.alice.plant("Top"), hidden.alice.plant("Elsewhere")
    hidden.alice.give(top, hidden.bob, *EVERY_PRIVILEGE)
    names = hidden.shown(parent=top)
    hidden.seen(names)
    hidden.alice.put(f"/v1/memories/{names['memory_id']}", {"parent_id": elsewhere})
    return names


def _deleted(hidden: Hidden) -> Names:
    names = hidden.shown()
    hidden.alice.give(names["memory_id"], hidden.bob, *EVERY_PRIVILEGE)
    hidden.seen(names)
    hidden.delete(names["memory_id"], names)
    return names


def _deleted_with_what_is_above(hidden: Hidden) -> Names:
    top = hidden.alice.plant("Top")
    names = hidden.shown(parent=hidden.alice.plant("Middle", top))
    hidden.alice.give(names["memory_id"], hidden.bob, *EVERY_PRIVILEGE)
    hidden.seen(names)
    hidden.delete(top, names)
    return names


_WAYS: Final[tuple[Callable[[Hidden], Names], ...]] = (
    _never_granted,
    _revoked,
    _revoked_from_his_group,
    _revoked_from_a_group_of_his_credential,
    _removed_from_the_group,
    _group_deleted,
    _group_made_again,
    _revoked_from_its_creator,
    _cut_off,
    _cut_off_further_up,
    _moved_out_of_reach,
    _deleted,
    _deleted_with_what_is_above,
)
