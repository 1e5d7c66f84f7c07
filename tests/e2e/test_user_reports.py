"""What users of memory systems report as having gone wrong elsewhere, each as a case, through the product's HTTP.

Some of it is shown by other tests, which are named here and not written twice:

=============================================  =========================================================================
report                                         shown by
=============================================  =========================================================================
a write that is answered and not found         ``test_main_job``: a record is recalled the moment remember answers
an update that loses the old or the new value  ``test_main_job``: a revised fact replaces the old one …
two latest versions after revisions at once    ``test_record_rules``: twenty revisions at once …, of twenty …
a run that overwrites newer writes             ``contract/providers/test_consolidation``: a revision under way wins …
words left in indexes, caches, job answers     ``test_erased``: after an erase no dump …; vectors and ids in any table:
                                               ``contract/providers/test_erasing``: nothing of an erased record is left …
a poisoned input is quarantined, and shown     ``contract/providers/test_observing``: a poisoned episode fails its job …;
                                               ``test_jobs``: a failed job is listed with its reason …
merges that destroy                            ``contract/providers/test_consolidation``: derived facts that differ in
                                               fillers only …; ``…/test_consolidation_undone``: what is undone is as it was
always some result                             ``test_recall``: what was never said is not answered …
an agent shown what was revoked                ``api/runner_service/test_taken_back``
=============================================  =========================================================================
"""

import uuid
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import pytest
from psycopg import sql

from tests.e2e.caller import Caller, Json, Refused, text_of
from tests.e2e.hidden import EVERY_PRIVILEGE
from tests.e2e.people import Person, envelope, said
from tests.e2e.runs import consolidated
from tests.fixtures.stack import Stack

pytestmark = pytest.mark.slow

SECRET: Final = "The safe opens with 4711."
MANY: Final = 1_150
"""More than one batch of a purge, and several pages of a listing."""


@pytest.fixture
def admin(stack: Stack) -> Generator[Caller]:
    with Caller(stack.url, stack.admin_token) as caller:
        yield caller


@contextmanager
def database(stack: Stack) -> Generator[psycopg.Connection]:
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url) as connection:
        yield connection


def observed(who: Caller, memory: str, *texts: str, **more: object) -> Json:
    """The job, once it has ended."""
    episodes = [{"role": "user", "content": text, **more} for text in texts]
    job = who.post(f"/v1/memories/{memory}/observe", {"episodes": episodes})["job"]["id"]
    return who.finished(memory, str(job))


# -- what is recalled is not learnt again ----------------------------------------------------------------------


def test_turns_that_recall_do_not_fill_the_memory_with_what_they_recalled(alice: Person):
    memory = alice.plant("Desk")
    said_of_it = "The spare key hangs behind the third coat in the hall."
    observed(alice, memory, said_of_it)
    harness = alice.harness("Desk", {"memory_id": memory, "access": "write", "default": True})
    previous, turns = None, 4
    for _ in range(turns):
        turn = alice.run("Recall: Where does the spare key hang?", harness, previous)
        assert said_of_it in text_of(turn)
        previous = turn["id"]

    def kept() -> list[Json]:
        return alice.records(memory, "include=all")

    alice.until(kept, lambda seen: sum(one["type"] == "episode" for one in seen) == 1 + 3 * turns)
    # Another observe is worked on after those: once its fact is there, theirs would be.
    observed(alice, memory, "The cellar door sticks in the winter.")
    for done in (False, True):
        repeating = [one for one in kept() if said_of_it in one["content"]]
        facts = [one for one in repeating if one["type"] != "episode"]
        assert [(one["type"], one["content"]) for one in facts] == [("fact", said_of_it)]
        # What was answered is kept as it was answered, and is nobody's statement.
        assert len(repeating) - len(facts) == 1 + turns
        assert not any("memory-data" in one["content"] for one in repeating)
        if not done:
            assert consolidated(alice, memory)["status"] == "completed"


# -- deletes ---------------------------------------------------------------------------------------------------


def test_deleting_takes_every_page_of_records_and_children(stack: Stack, alice: Person):
    root = alice.plant("Root")
    memory = alice.plant("Full", root)
    path = f"/v1/memories/{memory}"
    for start in range(0, MANY, 500):
        said_then = [
            {"role": "system", "content": f"Line {n}."} for n in range(start, min(start + 500, MANY))
        ]
        alice.post(f"{path}/observe", {"episodes": said_then})
    with ThreadPoolExecutor(8) as pool:
        children = list(pool.map(alice.plant, [f"Child {n}" for n in range(205)], [memory] * 205))
    for one in (children[0], children[-1]):
        alice.fact(one)
    assert alice.get(path)["records"]["count"] == MANY
    alice.delete(f"/v1/memories/{root}")
    for one in (memory, *children):
        assert alice.send("GET", f"/v1/memories/{one}").status_code == 404
    gone = [memory, *children]
    alice.until(lambda: rows_of(stack, gone), lambda left: left == {})


def rows_of(stack: Stack, memories: list[str]) -> dict[str, int]:
    """By table of the provider, how many rows these memories have."""
    found = dict[str, int]()
    with database(stack) as connection:
        tables = connection.execute(
            "select table_name from information_schema.columns where table_schema = 'provider'"
            " and column_name = 'memory_id'"
        ).fetchall()
        for (table,) in tables:
            name = sql.Identifier("provider", str(table))
            counted = connection.execute(
                sql.SQL("select count(*) from {} where memory_id = any(%s)").format(name), (memories,)
            ).fetchone()
            assert counted is not None
            if counted[0]:
                found[str(table)] = int(counted[0])
    return found


def test_a_delete_of_one_takes_nothing_of_another(alice: Person, bob: Person):
    """Neither what says the same elsewhere, nor what others wrote in the same memory, nor what merely points there."""
    shared, other, his = alice.plant("Shared"), alice.plant("Shared"), bob.plant("Shared")
    alice.give(shared, bob, "read", "write")
    mine, bobs = alice.fact(shared, SECRET), bob.fact(shared, SECRET)
    kept = {other: alice.fact(other, SECRET), his: bob.fact(his, SECRET)}
    about = [{"rel": "about", "memory_id": shared, "record_id": mine}]
    pointing = alice.fact(shared, "See the other one.", references=about)
    erased = alice.post(f"/v1/memories/{shared}/erase", {"record_ids": [mine]})
    assert erased == {"erased": [mine], "unreachable": []}
    assert {one["id"] for one in alice.records(shared, "include=all")} == {bobs, pointing}
    bob.delete(f"/v1/memories/{shared}/records/{bobs}")
    alice.delete(f"/v1/memories/{shared}")
    for memory, record in kept.items():
        whose = bob if memory == his else alice
        assert [one["id"] for one in whose.records(memory)] == [record]
        assert whose.found(memory, "What opens the safe?") == [SECRET]


READS: Final[dict[str, Callable[[Person, str, str], str]]] = {
    "get": lambda who, memory, record: who.send("GET", f"/v1/memories/{memory}/records/{record}").text,
    "history": lambda who, memory, record: (
        who.send("GET", f"/v1/memories/{memory}/records/{record}/history").text
    ),
    "list": lambda who, memory, _: str(who.records(memory, "include=all")),
    "meaning": lambda who, memory, _: str(who.recall(memory, "What opens the safe?", include="all")),
    "words": lambda who, memory, _: str(recalled(who, memory, text="safe 4711", include="all")),
    "fields": lambda who, memory, _: str(recalled(who, memory, filters=BY_FIELD, include="all")),
    "from above": lambda who, memory, _: str(above(who, memory)),
    "free query": lambda who, memory, _: queried(who, memory),
    "agent": lambda who, memory, _: agent_told(who, memory),
}
"""Every way there is to read what a memory says."""

BY_FIELD: Final[Json] = {"field": "attributes.door", "op": "eq", "value": "safe"}


def recalled(who: Person, memory: str, **asked: object) -> Json:
    return who.post(f"/v1/memories/{memory}/recall", {**asked})


def above(who: Person, memory: str) -> Json:
    parent = str(who.get(f"/v1/memories/{memory}")["parent_id"])
    return recalled(who, parent, query="What opens the safe?", depth=3, include="all")


def queried(who: Person, memory: str) -> str:
    statement = "select content from versions"
    return who.send("POST", f"/v1/memories/{memory}/query", {"language": "sql", "statement": statement}).text


def agent_told(who: Person, memory: str) -> str:
    """What an agent finds in a session of its own."""
    harness = who.harness("Reader", {"memory_id": memory, "access": "read"})
    return text_of(who.run("Recall: What opens the safe with 4711?", harness))


@pytest.mark.requirement("ME-5.2-04")
@pytest.mark.parametrize("how", READS)
def test_what_was_erased_is_found_by_no_read_that_found_it(alice: Person, how: str):
    memory = alice.plant("Place", alice.plant("Top"))
    record = alice.fact(memory, SECRET, attributes={"door": "safe"})
    alice.fact(memory, "The lamp is green.")
    assert SECRET in READS[how](alice, memory, record)
    assert alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [record]})["erased"] == [record]
    answer = READS[how](alice, memory, record)
    assert "4711" not in answer.replace("safe with 4711", "")
    assert SECRET not in answer


@pytest.mark.requirement("ME-5.2-08")
def test_a_delete_says_exactly_what_it_took_and_is_nothing_without_a_scope(alice: Person):
    memory = alice.plant("Place")
    path = f"/v1/memories/{memory}"
    source, other = alice.fact(memory, SECRET), alice.fact(memory, "The lamp is green.")
    derived = [
        alice.fact(
            memory, f"Copy {n}.", references=[{"rel": "derived_from", "memory_id": memory, "record_id": of}]
        )
        for n, of in enumerate((source, source))
    ]
    nothing: list[Json] = [{}, {"record_ids": []}, {"record_ids": None}, {"filters": BY_FIELD}, {"all": True}]
    for body in [*nothing, {"record_ids": [source, f"hrec_{uuid.uuid4().hex}"]}]:
        refused = alice.send("POST", f"{path}/erase", body)
        assert refused.status_code in (400, 404, 422), body
        envelope(refused)
    for method in ("DELETE", "PUT"):
        assert alice.send(method, "/v1/memories").status_code == 405
        assert alice.send(method, f"{path}/records").status_code == 405
    assert alice.get(path)["records"]["count"] == 4
    answer = alice.post(f"{path}/erase", {"record_ids": [source, source]})
    assert sorted(answer["erased"]) == sorted([source, *derived])
    assert len(answer["erased"]) == 3
    assert alice.get(path)["records"]["count"] == 1
    assert [one["id"] for one in alice.records(memory, "include=all")] == [other]


# -- contradictions --------------------------------------------------------------------------------------------


def test_a_value_that_changed_is_answered_alone_whoever_noticed(alice: Person):
    """Replaced by whoever states the new one, or by a run that saw it change: the old one is history, not lost."""
    stated, derived = alice.plant("Stated"), alice.plant("Derived")
    old = alice.fact(stated, "The deadline is on Monday for all of us.")
    new = alice.fact(stated, "The deadline is on Friday for all of us.", supersedes=old)
    for day, when in enumerate(("Monday", "Friday")):
        at = f"2026-10-0{day + 1}T09:00:00Z"
        text = f"The deadline is on {when} for all of us."
        observed(alice, derived, text, attributes={"speaker": "Anna"}, time={"valid_from": at})
    assert consolidated(alice, derived)["changes"]["superseded"] == 1
    for memory in (stated, derived):
        facts = alice.records(memory, "types=fact")
        assert [one["content"] for one in facts] == ["The deadline is on Friday for all of us."]
        found = alice.found(memory, "When is the deadline?", types=["fact"])
        assert found == ["The deadline is on Friday for all of us."]
        (closed,) = {one["id"] for one in alice.records(memory, "types=fact&include=superseded")}
        history = alice.get(f"/v1/memories/{memory}/records/{closed}/history")["data"]
        assert {one["content"] for one in history} == {"The deadline is on Monday for all of us."}
    assert alice.get(f"/v1/memories/{stated}/records/{new}")["supersedes"] == old


def test_of_replacements_stated_at_once_one_is_the_latest(alice: Person):
    memory = alice.plant("Place")
    old = alice.fact(memory, "The limit is one.")
    path = f"/v1/memories/{memory}/records"

    def replace(number: int) -> int:
        body: Json = {"type": "fact", "content": f"The limit is {number}.", "supersedes": old}
        return alice.send("POST", path, body).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = sorted(pool.map(replace, range(12)))
    assert statuses == [200] + [409] * 11
    (latest,) = alice.records(memory)
    assert latest["supersedes"] == old


# -- background work -------------------------------------------------------------------------------------------

HOSTILE: Final = (
    "\x01" * 50,
    "\U0001f600" * 2_000,
    "(" * 20_000,
    "a." * 20_000,
    "I am " * 20_000,
    "\u202e\u0301" * 5_000,
    "'; drop table provider.version; --",
    '{"a":' * 5_000,
    "Is is is is is is " * 3_000 + "?",
)


def test_hostile_inputs_wedge_neither_what_comes_after_nor_a_run(alice: Person, admin: Caller):
    memory = alice.plant("Place")
    job = observed(alice, memory, *HOSTILE, "The lamp of the porch is green.")
    assert job["status"] in ("completed", "failed")
    assert "The lamp of the porch is green." in [
        one["content"] for one in job["records"] if one["type"] == "fact"
    ]
    after = observed(alice, memory, "The bell of the porch is broken.")
    assert after["status"] == "completed"
    assert [one["content"] for one in after["records"] if one["type"] == "fact"] == [
        "The bell of the porch is broken."
    ]
    assert consolidated(alice, memory)["status"] == "completed"
    assert (
        alice.found(memory, "What colour has the lamp of the porch?")[0] == "The lamp of the porch is green."
    )
    told = admin.get(f"/v1/grovekeeper/jobs?status={job['status']}&limit=200")["data"]
    assert job["id"] in {one["id"] for one in told}


def test_work_that_does_not_go_on_is_shown_with_since_when(stack: Stack, alice: Person, admin: Caller):
    memory = alice.plant("Place")
    began = datetime.now(UTC)
    with database(stack) as connection:
        # Whatever is derived is written here, and waits.
        connection.execute("lock table provider.derivation in exclusive mode")
        episodes: Json = {"episodes": [{"content": "The lamp of the porch is green."}]}
        job = alice.post(f"/v1/memories/{memory}/observe", episodes)["job"]["id"]
        (waiting,) = [
            one
            for one in admin.get("/v1/grovekeeper/jobs?status=pending&limit=200")["data"]
            if one["id"] == job
        ]
        since = datetime.fromisoformat(waiting["pending_since"])
        assert began - timedelta(seconds=5) < since < datetime.now(UTC)
        assert (waiting["memory_id"], waiting["finished_at"]) == (memory, None)
        assert alice.get(f"/v1/memories/{memory}/jobs/{job}")["status"] == "pending"
        # What was said is there meanwhile.
        assert alice.found(memory, "What colour has the lamp?") == ["The lamp of the porch is green."]
        connection.rollback()
    assert alice.finished(memory, str(job))["status"] == "completed"
    (done,) = [
        one
        for one in admin.get("/v1/grovekeeper/jobs?status=completed&limit=200")["data"]
        if one["id"] == job
    ]
    assert done["pending_since"] is None


# -- whose it is -----------------------------------------------------------------------------------------------


def test_a_name_opens_nothing_of_somebody_elses(alice: Person, bob: Person):
    """Not in an address, not to an agent, not where one has a memory of the same name, not after a rename."""
    name = f"Vault {uuid.uuid4().hex[:8]}"
    his = bob.plant(name)
    bob.fact(his, SECRET)
    nothing = said(alice.send("GET", f"/v1/memories/hmem_{uuid.uuid4().hex}"))
    for address in (name, name.replace(" ", "%20"), f"memory:{name}"):
        assert said(alice.send("GET", f"/v1/memories/{address}")) == nothing
        refused = alice.send("POST", f"/v1/memories/{address}/recall", {"query": "safe"})
        assert envelope(refused)["code"] == "memory_not_found"
    own = alice.plant("Mine")
    alice.fact(own, "The safe is in the cellar.")
    harness = alice.harness("Desk", {"memory_id": own, "access": "read"})
    ask = f"Recall in {name}: What opens the safe?"
    turn = alice.run(ask, harness)
    assert "I know no memory called" in text_of(turn)
    # One of her own of that name is hers and no other.
    alice.put(f"/v1/memories/{own}", {"name": name})
    told = text_of(alice.run(ask, alice.harness("Again", {"memory_id": own, "access": "read"})))
    assert ("in the cellar" in told, "4711" in told) == (True, False)
    assert [one["id"] for one in alice.listing()] == [own]


def test_a_rename_takes_nobody_to_what_has_the_old_name_now(alice: Person, bob: Person):
    name = f"Desk {uuid.uuid4().hex[:8]}"
    mine, his = alice.plant(name), bob.plant("His")
    alice.fact(mine, "The safe is in the cellar.")
    bob.fact(his, SECRET)
    harness = alice.harness("Desk", {"memory_id": mine, "access": "read"})
    ask = f"Recall in {name}: What opens the safe?"
    first = alice.run(ask, harness)
    assert "in the cellar" in text_of(first)
    alice.put(f"/v1/memories/{mine}", {"name": "Renamed"})
    bob.put(f"/v1/memories/{his}", {"name": name})
    for turn in (alice.run(ask, harness, first["id"]), alice.run(ask, harness)):
        assert "4711" not in text_of(turn)
    by_id = alice.run(f"Recall in {mine}: Where is the safe?", harness, first["id"])
    assert "in the cellar" in text_of(by_id)


def _revoke(alice: Person, memory: str, top: str, harness: str) -> None:
    del top
    for grant in alice.get(f"/v1/memories/{memory}/grants")["data"]:
        if grant["principal"] == f"harness:{harness}" and not grant["inherited"]:
            alice.delete(f"/v1/memories/{memory}/grants/{grant['id']}")


def _cut_off(alice: Person, memory: str, top: str, harness: str) -> None:
    """The harness held it from above."""
    alice.grant(top, f"harness:{harness}", "read")
    _revoke(alice, memory, top, harness)
    alice.put(f"/v1/memories/{memory}", {"restricted": True})


def _move(alice: Person, memory: str, top: str, harness: str) -> None:
    alice.grant(top, f"harness:{harness}", "read")
    _revoke(alice, memory, top, harness)
    alice.put(f"/v1/memories/{memory}", {"parent_id": alice.plant("Elsewhere")})


def _delete(alice: Person, memory: str, top: str, harness: str) -> None:
    del top, harness
    alice.delete(f"/v1/memories/{memory}")


@pytest.mark.requirement("ME-3.3-01")
@pytest.mark.parametrize(
    "taking", [_revoke, _cut_off, _move, _delete], ids=lambda one: one.__name__.strip("_")
)
def test_what_is_taken_back_in_mid_session_is_gone_with_the_next_turn(
    alice: Person, taking: Callable[[Person, str, str, str], None]
):
    top = alice.plant("Top")
    vault, lab = alice.plant("Vault", top), alice.plant("Lab")
    alice.fact(vault, SECRET)
    alice.fact(lab, "The lamp is green.")
    attached: list[Json] = [{"memory_id": one, "access": "read"} for one in (vault, lab)]
    harness = alice.harness("Desk", *attached)
    asks = (
        "Recall in Vault: What opens the safe?",
        f"Recall in {vault}: What opens the safe?",
        "List memories",
    )
    first = alice.run(asks[0], harness)
    assert SECRET in text_of(first)
    assert primed(first) == [vault, lab]
    again = alice.run(asks[1], harness, first["id"])
    assert SECRET in text_of(again)
    taking(alice, vault, top, harness)
    turn = again
    for ask in asks:
        turn = alice.run(ask, harness, turn["id"])
        assert turn["status"] == "completed"
        assert "4711" not in str(turn["output"])
        assert primed(turn) == [lab]
    assert "Vault" not in text_of(turn)
    turn = alice.run(asks[0], harness, turn["id"])
    assert "I know no memory called" in text_of(turn)
    kept = alice.run("Recall in Lab: What colour has the lamp?", harness, turn["id"])
    assert "The lamp is green." in text_of(kept)


def primed(turn: Json) -> list[str]:
    return [one["memory_id"] for one in turn["metadata"]["grovekeeper_primed"]]


def test_a_revoke_in_the_middle_of_a_listing_ends_it(alice: Person, bob: Person):
    """A cursor, a snapshot and a job's id that were given out before open nothing after."""
    memory = alice.plant("Place")
    grant = alice.give(memory, bob, *EVERY_PRIVILEGE)
    for number in range(3):
        alice.fact(memory, f"Fact {number}.")
    page = bob.get(f"/v1/memories/{memory}/records?limit=1")
    snapshot = bob.post(f"/v1/memories/{memory}/snapshots", {"name": "before"})
    job = observed(bob, memory, "The lamp is green.")["id"]
    alice.delete(f"/v1/memories/{memory}/grants/{grant}")
    for path in (
        f"records?limit=1&cursor={page['next_cursor']}",
        f"records?as_of={snapshot['at']}",
        f"snapshots/{snapshot['id']}",
        f"jobs/{job}",
    ):
        with pytest.raises(Refused) as refusal:
            bob.get(f"/v1/memories/{memory}/{path}")
        assert (refusal.value.status, refusal.value.code) == (404, "memory_not_found")
