"""Groups, explanations and the audit as an administrator meets them: at the command line of a running product."""

import json
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from tests.e2e.people import Person, person
from tests.fixtures.stack import Stack


@pytest.fixture
def team() -> str:
    """A name no other test's group has."""
    return f"team-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def alice(stack: Stack) -> Iterator[Person]:
    with person(stack, "alice") as made:
        yield made


@pytest.fixture
def bob(stack: Stack) -> Iterator[Person]:
    with person(stack, "bob") as made:
        yield made


def grove(stack: Stack, *arguments: str) -> list[str]:
    """The lines a command prints."""
    done = stack.grove(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_group_is_kept_from_its_making_to_its_end(stack: Stack, alice: Person, bob: Person, team: str):
    memory = alice.plant("Shared")
    alice.grant(memory, f"group:{team}", "read")
    path = f"/v1/memories/{memory}"
    assert grove(stack, "group", "create", team, "--description", "Who works here.") == [f"group:{team}"]
    assert bob.send("GET", path).status_code == 404
    grove(stack, "group", "add", team, bob.principal, "credential:ci")
    assert bob.get(path)["privileges"] == ["read"]
    assert bob.get("/v1/grovekeeper/whoami")["managed_groups"] == [f"group:{team}"]
    shown = grove(stack, "group", "show", f"group:{team}")
    assert shown[:2] == [f"group:{team}: Who works here.", "members: 2"]
    assert [line.split()[0] for line in shown[2:]] == ["credential:ci", bob.principal]
    assert all(line.endswith("by credential:admin") for line in shown[2:])
    heading, row = grove(stack, "group", "list", "--member", bob.principal)
    assert heading.split() == ["GROUP", "MEMBERS", "DESCRIPTION"]
    assert row.split(maxsplit=2) == [f"group:{team}", "2", "Who works here."]
    grove(stack, "group", "remove", f"group:{team}", bob.principal)
    assert bob.send("GET", path).status_code == 404
    grove(stack, "group", "add", team, bob.principal)
    grove(stack, "group", "delete", team)
    assert bob.send("GET", path).status_code == 404
    done = stack.grove("group", "show", team)
    assert (done.returncode, done.stderr) == (1, "grove: refused (404): There is no such group.\n")


def test_names_of_any_characters_arrive_as_they_are(stack: Stack, team: str):
    names = [f"person:{name}" for name in ("a/b", "100%", "%2F", "a:b:c", "Zoë", "?x#y", "a/members/b")]
    odd = f"{team}/members/%2F"
    grove(stack, "group", "create", odd)
    grove(stack, "group", "add", odd, *names)
    shown = grove(stack, "group", "show", odd)
    assert [line.split()[0] for line in shown[2:]] == sorted(names)
    grove(stack, "group", "remove", odd, *names)
    assert grove(stack, "group", "show", odd)[1:] == ["members: 0"]
    grove(stack, "group", "delete", odd)


def test_a_group_in_a_group_is_refused_with_a_sentence(stack: Stack, team: str):
    grove(stack, "group", "create", team)
    done = stack.grove("group", "add", team, "group:other")
    assert done.returncode == 1
    assert "Groups do not nest" in done.stderr


def test_it_is_explained_why_somebody_reaches_a_memory_and_why_not(
    stack: Stack, alice: Person, bob: Person, team: str
):
    top = alice.plant("Top")
    middle = alice.plant("Middle", top, restricted=True)
    leaf = alice.plant("Leaf", middle)
    grove(stack, "group", "create", team)
    grove(stack, "group", "add", team, bob.principal)
    through = alice.grant(middle, f"group:{team}", "read", "write")["id"]
    own = alice.give(leaf, bob, "read")
    stopped = alice.give(top, bob, "delete")
    named = alice.grant(leaf, "group:night,shift", "create")["id"]
    assert grove(stack, "access", "explain", leaf, bob.principal, "--group", "night,shift") == [
        f"{bob.principal} holds read, write, create on {leaf}",
        "read:",
        f"  {own} on {leaf}",
        f"  {through} on {middle} above through group:{team}",
        "write:",
        f"  {through} on {middle} above through group:{team}",
        "create:",
        f"  {named} on {leaf} through group:night,shift",
        "stopped by a cutoff:",
        f"  delete: {stopped} on {top} above, stopped at {middle}",
        f"groups looked at: group:night,shift, group:{team}",
    ]
    first = grove(stack, "access", "explain", top, "person:nobody")
    assert first == [f"person:nobody holds nothing on {top}", "groups looked at: none"]
    told = grove(stack, "access", "explain", top, alice.principal)
    assert told[2].endswith(f"on {top} as its creator")
    asked = alice.get(f"/v1/grovekeeper/memories/{leaf}/access?principal={bob.principal}")
    assert (asked["complete"], asked["privileges"]) == (False, ["read", "write"])
    refused = bob.send("GET", f"/v1/grovekeeper/memories/{leaf}/access?principal={bob.principal}")
    assert refused.json()["error"]["code"] == "memory_forbidden"


def test_the_audit_tells_who_did_what_from_where_and_who_was_refused(
    stack: Stack, alice: Person, bob: Person
):
    memory = alice.plant("Watched")
    alice.give(memory, bob, "read")
    asked = bob.send("DELETE", f"/v1/memories/{memory}")
    assert asked.status_code == 403
    heading, *rows = grove(stack, "audit", "list", "--memory", memory)
    assert heading.split() == ["AT", "ACTOR", "ACTION", "OUTCOME", "MEMORY", "PRINCIPAL", "SOURCE", "DETAIL"]
    told = [row.split(maxsplit=7)[1:7] for row in rows]
    assert [one[:3] for one in told] == [
        [bob.principal, "access.check", "memory_forbidden"],
        [alice.principal, "grant.add", "allowed"],
        [alice.principal, "memory.create", "allowed"],
    ]
    assert {one[5] for one in told} == {"127.0.0.1"}
    assert json.loads(rows[0].split(maxsplit=7)[7]) == {"required": "delete"}
    trace = asked.headers["traceparent"].split("-")[1]
    found = [json.loads(line) for line in grove(stack, "audit", "export")]
    assert [one["memory_id"] for one in found if one["trace_id"] == trace] == [memory]


def test_the_export_is_every_record_there_is_from_old_to_new(stack: Stack, alice: Person):
    since = datetime.now(UTC).isoformat()
    memories = [alice.plant(f"Number {number}") for number in range(5)]
    until = datetime.now(UTC).isoformat()
    alice.plant("Later")
    found = [json.loads(line) for line in grove(stack, "audit", "export", "--since", since, "--until", until)]
    made = [one["memory_id"] for one in found if one["actor"] == alice.principal]
    assert made == memories
    everything = [json.loads(line)["id"] for line in grove(stack, "audit", "export")]
    assert len(everything) == len(set(everything))
    assert {one["id"] for one in found} <= set(everything)


def test_a_refused_credential_is_in_the_audit_and_is_not_told(stack: Stack):
    secret = f"gk_{uuid.uuid4().hex}"
    headers = {"Authorization": f"Bearer {secret}"}
    assert httpx.get(f"{stack.url}/v1/memories", headers=headers, timeout=30).status_code == 401
    lines = grove(stack, "audit", "list", "--action", "authenticate", "--outcome", "refused")
    assert "invalid_credential" in lines[1]
    assert "127.0.0.1" in lines[1]
    assert secret not in "".join(grove(stack, "audit", "export"))
    metrics = httpx.get(f"{stack.ops('authz')}/metrics", timeout=30).text
    assert re.search(
        r'^grove_audit_records\S*{[^}]*grove_audit_outcome="refused"[^}]*} [1-9]', metrics, re.MULTILINE
    )
