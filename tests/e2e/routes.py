"""Every route, with what makes it answer: the table the tests of access and robustness go through.

A route stands in the table of what it names. ``Route.needs`` is the privilege on the memory ``{memory_id}``,
``world`` makes what the request names, as its owner, and ``own`` what the caller brings along. ``refused`` is the
code that who may call it is answered with, where nothing more can be had yet.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import httpx

from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.runs import consolidated

__all__ = [
    "ADMIN_ROUTES",
    "CLASSES",
    "FEED_ROUTES",
    "HARNESS_ROUTES",
    "JOB_ROUTE",
    "LINK_ROUTES",
    "MEMORY_ROUTES",
    "NAMES_NOTHING",
    "NAMING_ROUTES",
    "OPEN_ROUTES",
    "OPERATE_ROUTE",
    "QUERIES_ROUTE",
    "RESPONSE_ROUTES",
    "THE_HARNESS",
    "Names",
    "Route",
    "call",
    "ended_response",
    "filled",
    "harness",
    "in_memory",
    "memory_with_everything",
    "shared_session",
]

Names = dict[str, str]
World = Callable[[Person], Names]

THE_HARNESS = "the harness"
"""``Route.needs`` of what no privilege of the caller's opens: its harness has to hold the memory itself."""


@dataclass(frozen=True)
class Route:
    """One operation. ``path``, ``query`` and ``body`` are filled with what ``world`` and ``own`` made; ``upload`` is
    a file, sent instead of a body.
    """

    method: str
    path: str
    body: Json | None = None
    needs: str | None = None
    query: str = ""
    refused: str = ""
    world: World = field(default=lambda _: {}, repr=False)
    own: World = field(default=lambda _: {}, repr=False)
    upload: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}{self.query} {' '.join(self.body or ())}".strip()

    @property
    def template(self) -> str:
        """The path as the document has it."""
        return self.path.replace("{own_", "{")

    def at(self, names: Names) -> str:
        """The address with these names."""
        return (self.path + self.query).format(**names)

    def opens(self, answer: httpx.Response) -> bool:
        """Whether this is what somebody is answered who may call it."""
        if self.refused:
            return not answer.is_success and answer.json()["error"]["code"] == self.refused
        return answer.is_success

    def names(self) -> set[str]:
        """What it is to be filled with."""
        return set(re.findall(r"{(\w+)}", f"{self.path} {self.query} {self.body}"))


_EVERYTHING: Json = {"description": "All of it.", "language": "sql", "body": "select * from records"}


def memory_with_everything(owner: Person, parent: str | None = None) -> Names:
    """A memory, a record in it, a grant on it, a job of it and a query over it."""
    return in_memory(owner, owner.plant("Everything", parent))


def in_memory(owner: Person, memory: str) -> Names:
    """A record in that memory, a grant on it and a job of it."""
    record = owner.fact(memory, "Penguins swim.", attributes={"account": "acme"})
    grant = owner.grant(memory, "group:nobody-is-in-it", "create")["id"]
    job = owner.post(f"/v1/memories/{memory}/observe", {"episodes": [{"content": "Hello."}]})["job"]
    snapshot = owner.post(f"/v1/memories/{memory}/snapshots", {"name": "Now"})["id"]
    owner.put(f"/v1/memories/{memory}/queries/everything", _EVERYTHING)
    return {
        "memory_id": memory,
        "record_id": record,
        "grant_id": grant,
        "job_id": job["id"],
        "snapshot_id": snapshot,
        "run_id": ended_run(owner, memory),
        "name": "everything",
        "operation": f"op_{uuid.uuid4().hex}",
    }


def ended_run(owner: Person, memory: str) -> str:
    """A consolidation run that has ended; its id."""
    return str(consolidated(owner, memory)["id"])


def harness(owner: Person) -> Names:
    """A harness attached to a memory."""
    entry = {"memory_id": owner.plant("Desk"), "access": "write", "default": True}
    return {"harness_id": owner.harness("Desk", entry)}


def ended_response(owner: Person) -> Names:
    """A response that completed, in its session."""
    made = owner.post("/v1/responses", {"input": "Reply with exactly: ok"})
    assert made["status"] == "completed"
    return {"response_id": made["id"], "session_id": made["metadata"]["session_id"]}


def shared_session(owner: Person) -> Names:
    """A session that is shared, and its link."""
    session = ended_response(owner)["session_id"]
    return {"session_id": session, "share_id": owner.post(f"/v1/sessions/{session}/share", {})["id"]}


_M = "/v1/memories/{memory_id}"
_R = _M + "/records/{record_id}"


def _memory(method: str, path: str, needs: str | None, body: Json | None = None, query: str = "") -> Route:
    return Route(method, path, body, needs, query, world=memory_with_everything)


_RUNS = _M + "/consolidations"


def with_file(owner: Person) -> Names:
    """A memory with everything, whose record is a file."""
    names = memory_with_everything(owner)
    sent = owner.http.post("/v1/files", files={"file": ("penguins.txt", b"Penguins dive.")}).json()["id"]
    body = {"type": "note", "content": {"file": {"id": sent}}}
    record = owner.post(f"/v1/memories/{names['memory_id']}/records", body)
    return names | {"record_id": str(record["id"])}


def with_changes(owner: Person) -> Names:
    """A memory with everything, whose run merged two records."""
    names = memory_with_everything(owner)
    for _ in range(2):
        owner.fact(names["memory_id"], "Penguins dive.")
    return names | {"run_id": ended_run(owner, names["memory_id"])}


def _content(path: str) -> Route:
    return Route("GET", path, needs="read", world=with_file, own=lambda _: {"own_index": "0"})


MEMORY_ROUTES = (
    _content(f"{_R}/content"),
    _content(f"{_R}/content/{{own_index}}"),
    _memory("GET", _M, None),
    _memory("GET", f"{_M}/grants", None),
    _memory("GET", _R, "read"),
    _memory("GET", f"{_R}/history", "read"),
    _memory("GET", f"{_M}/records", "read"),
    _memory("POST", f"{_M}/recall", "read", {"query": "What do penguins do?"}),
    _memory("POST", f"{_M}/recall", "read", {"query": "What do penguins do?", "depth": 3}),
    _memory("POST", f"{_M}/records", "write", {"type": "fact", "content": "Owls fly."}),
    _memory("POST", f"{_M}/observe", "write", {"episodes": [{"content": "Owls fly at night."}]}),
    _memory("PATCH", _R, "write", {"content": "Penguins swim well."}),
    _memory("PUT", _M, "write", {"name": "Renamed"}),
    _memory("DELETE", _R, "write"),
    _memory("POST", f"{_M}/snapshots", "write", {"name": "Before the move"}),
    _memory("GET", f"{_M}/snapshots", "read"),
    _memory("GET", f"{_M}/snapshots/{{snapshot_id}}", "read"),
    _memory("DELETE", f"{_M}/snapshots/{{snapshot_id}}", "write"),
    _memory("POST", _RUNS, "write", {"budget": {"limit": 60, "unit": "seconds"}}),
    _memory("GET", _RUNS, "read"),
    _memory("GET", f"{_RUNS}/{{run_id}}", "read"),
    Route("GET", f"{_RUNS}/{{run_id}}/changes", needs="read", world=with_changes),
    _memory("POST", f"{_RUNS}/{{run_id}}/revert", "write"),
    _memory("POST", f"{_M}/grants", "delete", {"principal": "group:g", "privileges": ["read"]}),
    _memory("DELETE", f"{_M}/grants/{{grant_id}}", "delete"),
    _memory("POST", f"{_M}/queries/{{name}}", "read"),
    _memory("POST", f"{_M}/query", "read", {"language": "sql", "statement": "select * from records"}),
    _memory("PUT", f"{_M}/queries/{{name}}", "write", _EVERYTHING),
    _memory("DELETE", f"{_M}/queries/{{name}}", "write"),
    _memory("PUT", _M, "delete", {"restricted": True}),
    _memory("POST", f"{_M}/erase", "delete", {"record_ids": ["{record_id}"]}),
    _memory("DELETE", _M, "delete"),
    _memory(
        "GET", "/v1/grovekeeper/memories/{memory_id}/access", "delete", query="?principal=person:somebody"
    ),
    _memory("GET", "/v1/grovekeeper/memories/{memory_id}/derivation", "read"),
    _memory("GET", "/v1/memories", None, query="?parent={memory_id}"),
    _memory("GET", "/v1/memories", None, query="?ancestor={memory_id}"),
    _memory("POST", "/v1/memories", "create", {"name": "Child", "parent_id": "{memory_id}"}),
)
"""Routes that name a memory, and the privilege each needs there; None: any."""


def _naming(method: str, path: str, needs: str, body: Json) -> Route:
    return Route(method, path, body, needs, world=memory_with_everything, own=_brought)


def _brought(caller: Person) -> Names:
    return {"own_memory_id": caller.plant("Own"), "own_harness_id": caller.harness("Own")}


NAMING_ROUTES = (
    _naming("PUT", "/v1/memories/{own_memory_id}", "create", {"parent_id": "{memory_id}"}),
    _naming(
        "PUT",
        "/v1/harnesses/{own_harness_id}/memories",
        "delete",
        {"memories": [{"memory_id": "{memory_id}", "access": "read"}]},
    ),
    _naming(
        "POST",
        "/v1/responses",
        THE_HARNESS,
        {"input": "Hi.", "metadata": {"harness_id": "{own_harness_id}", "memory": "{memory_id}"}},
    ),
)
"""Routes that name somebody's memory beside what is the caller's own."""

JOB_ROUTE = _memory("GET", f"{_M}/jobs/{{job_id}}", None)
"""Whoever may read or write sees how a job stands."""
QUERIES_ROUTE = _memory("GET", f"{_M}/queries", None)
"""Whoever may read or write sees which queries there are."""

OPERATE_ROUTE = Route(
    "POST",
    f"{_R}/operations/{{operation}}",
    refused="grovekeeper_not_found",
    world=memory_with_everything,
)
"""What it needs, and whether it is there at all, depends on the record: see test_types.py."""

_H = "/v1/harnesses/{harness_id}"


def _harness(method: str, path: str, body: Json | None = None) -> Route:
    return Route(method, path, body, world=harness)


HARNESS_ROUTES = (
    _harness("GET", _H),
    _harness("GET", f"{_H}/memories"),
    _harness("GET", f"{_H}/models"),
    _harness("PUT", _H, {"name": "Renamed"}),
    _harness("PUT", f"{_H}/memories", {"memories": []}),
    _harness("POST", "/v1/responses", {"input": "Hi.", "metadata": {"harness_id": "{harness_id}"}}),
    _harness("DELETE", _H),
)
"""Routes that name a harness."""


def _response(method: str, path: str, body: Json | None = None, query: str = "") -> Route:
    return Route(method, path, body, query=query, world=ended_response)


RESPONSE_ROUTES = (
    _response("GET", "/v1/responses/{response_id}"),
    _response("GET", "/v1/responses/{response_id}", query="?stream=true"),
    _response("POST", "/v1/responses/{response_id}/cancel"),
    _response("POST", "/v1/sessions/{session_id}/cancel"),
    _response("POST", "/v1/responses", {"input": "Hi.", "previous_response_id": "{response_id}"}),
    _response("GET", "/v1/responses/{response_id}/input_items"),
    _response("DELETE", "/v1/responses/{response_id}"),
    _response("GET", "/v1/sessions/{session_id}"),
    _response("GET", "/v1/sessions/{session_id}/turns"),
    _response("POST", "/v1/sessions/{session_id}/share"),
    Route("GET", "/v1/sessions/{session_id}/share", world=shared_session),
    Route("DELETE", "/v1/sessions/{session_id}/share", world=shared_session),
    _response("DELETE", "/v1/sessions/{session_id}"),
    _response("DELETE", "/v1/traces/{session_id}"),
)
"""Routes that name a response or its session."""

FEED_ROUTES = (_harness("GET", f"{_H}/events"),)
"""Routes that are answered without an end: not to be called, but listened to."""

LINK_ROUTES = (Route("GET", "/v1/shared/{share_id}", world=shared_session),)
"""Routes whose name is the secret: they open to whoever has it."""

OPEN_ROUTES = (
    Route("GET", "/v1/uhp"),
    Route("GET", "/v1/memories"),
    Route("POST", "/v1/memories", {"name": "Root"}),
    Route("GET", "/v1/memories/providers"),
    Route("GET", "/v1/memories/types"),
    Route("POST", "/v1/files", upload=b"Penguins dive."),
    Route("GET", "/v1/harnesses"),
    Route("POST", "/v1/harnesses", {"base": "scripted"}),
    Route("GET", "/v1/models"),
    Route("POST", "/v1/responses", {"input": "Reply with exactly: ok"}),
    Route("GET", "/v1/sessions"),
    Route("GET", "/v1/grovekeeper/whoami"),
)
"""Routes that name nothing of anybody's."""

ADMIN_ROUTES = (
    Route("POST", "/v1/grovekeeper/tokens", {"person": "somebody"}),
    Route("GET", "/v1/grovekeeper/tokens"),
    Route("POST", "/v1/grovekeeper/tokens/revoke", {"id": "{token_id}"}),
    Route("DELETE", "/v1/grovekeeper/tokens/{token_id}"),
    Route("GET", "/v1/grovekeeper/groups"),
    Route("POST", "/v1/grovekeeper/groups", {"name": "somebodies"}),
    Route("GET", "/v1/grovekeeper/groups/{name}"),
    Route("DELETE", "/v1/grovekeeper/groups/{name}"),
    Route("GET", "/v1/grovekeeper/groups/{name}/members"),
    Route("PUT", "/v1/grovekeeper/groups/{name}/members/{principal}"),
    Route("DELETE", "/v1/grovekeeper/groups/{name}/members/{principal}"),
    Route("PUT", "/v1/grovekeeper/types/{type}", {"description": "A deal."}),
    Route("DELETE", "/v1/grovekeeper/types/{type}"),
    Route("GET", "/v1/grovekeeper/audit"),
    Route("GET", "/v1/grovekeeper/jobs"),
    Route("POST", "/v1/grovekeeper/jobs/{job_id}/retry"),
)
"""Routes that need the scope ``admin``."""


CLASSES = {
    "MEMORY_ROUTES": MEMORY_ROUTES,
    "NAMING_ROUTES": NAMING_ROUTES,
    "JOB_ROUTE": (JOB_ROUTE,),
    "QUERIES_ROUTE": (QUERIES_ROUTE,),
    "OPERATE_ROUTE": (OPERATE_ROUTE,),
    "HARNESS_ROUTES": HARNESS_ROUTES,
    "RESPONSE_ROUTES": RESPONSE_ROUTES,
    "FEED_ROUTES": FEED_ROUTES,
    "LINK_ROUTES": LINK_ROUTES,
    "OPEN_ROUTES": OPEN_ROUTES,
    "ADMIN_ROUTES": ADMIN_ROUTES,
}
"""Every table."""

NAMES_NOTHING = {
    "references.memory_id": "what a writer states; its target is looked at when it is read, by whoever reads",
    "references.record_id": "the same",
    "supersedes": "a record of the memory in the path; see test_a_record_is_not_reached_through_another_memory",
    "principal": "whom to grant to or to explain, who need not exist",
    "harness": "on which harness the caller's own sessions that are listed ran",
    "group": "a group that somebody is taken to be in, which need not exist",
}
"""Fields that sound like a name of something and whose value opens or shows nothing by itself, and why."""


def filled(body: Json | None, names: Names) -> Json | None:
    """``body`` with names in place of ``{memory_id}`` and its kin."""
    return None if body is None else {key: _filled(value, names) for key, value in body.items()}


def _filled(value: object, names: Names) -> object:
    if isinstance(value, str):
        return names.get(value.strip("{}"), value) if value.startswith("{") else value
    if isinstance(value, dict):
        return {key: _filled(inner, names) for key, inner in cast("Json", value).items()}
    if isinstance(value, list):
        return [_filled(inner, names) for inner in cast("list[object]", value)]
    return value


def call(
    caller: Person, route: Route, names: Names, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """One request of that route."""
    if route.upload is not None:
        return caller.http.request(route.method, route.path, files={"file": ("a.txt", route.upload)})
    return caller.send(route.method, route.at(names), filled(route.body, names), headers)
