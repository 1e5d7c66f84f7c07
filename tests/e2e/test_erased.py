"""What an erase leaves behind: nothing in the database, its dump, Valkey or the logs (Memories, section 5.2)."""

import subprocess
import uuid
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import redis
from psycopg import sql

from service_kit.embedded.postgres import find_pg_bin
from tests.e2e.caller import Caller, Json
from tests.e2e.people import Person
from tests.fixtures.stack import Stack


def dump(stack: Stack) -> bytes:
    """Everything the database holds, as a backup would."""
    url = stack.state().database_url
    assert url is not None
    program = find_pg_bin().bin / "pg_dump"
    made = subprocess.run([str(program), "--dbname", url], capture_output=True, check=True, timeout=120)
    assert b"CREATE TABLE provider.version" in made.stdout
    return made.stdout


def kept_in_valkey(stack: Stack) -> bytes:
    """Every key with its value."""
    url = stack.state().redis_url
    assert url is not None
    with cast("Any", redis).Redis.from_url(url) as client:
        return b"\n".join(key + b"\0" + (client.dump(key) or b"") for key in client.keys("*"))


def logs(stack: Stack) -> bytes:
    return b"".join(one.read_bytes() for one in sorted((stack.home / "logs").iterdir()))


def hexed(word: str) -> bytes:
    """How a dump writes bytea."""
    return word.encode().hex().encode()


@pytest.fixture
def word() -> str:
    """A word nobody else writes, without digits that a stemmer or a tokenizer would split."""
    return "zq" + "".join(chr(ord("a") + int(digit, 16)) for digit in uuid.uuid4().hex[:14])


@pytest.fixture
def admin(stack: Stack) -> Generator[Caller]:
    with Caller(stack.url, stack.admin_token) as caller:
        yield caller


def left(stack: Stack, word: str) -> list[str]:
    """Where the word still is."""
    dumped = dump(stack)
    places = {
        "dump": word.encode() in dumped.lower() or hexed(word) in dumped,
        "valkey": word.encode() in kept_in_valkey(stack).lower(),
        "logs": word.encode() in logs(stack).lower(),
    }
    return [place for place, holds in places.items() if holds]


@pytest.mark.requirement("ME-5.2-04", "ME-5.2-05", "ME-5.2-08")
def test_after_an_erase_no_dump_no_valkey_and_no_log_has_the_words(stack: Stack, alice: Person, word: str):
    memory, path = (made := alice.plant("Place")), f"/v1/memories/{made}"
    fact = alice.post(
        f"{path}/records",
        {
            "type": "fact",
            "content": f"The word is {word}.",
            "attributes": {f"k{word}": [word, {"deep": word}]},
            "references": [{"memory_id": memory, "record_id": "hrec_1", "rel": f"rel-{word}"}],
        },
        key=uuid.uuid4().hex,
    )["id"]
    alice.call("PATCH", f"{path}/records/{fact}", {"content": f"Now it is {word} too."}, key=uuid.uuid4().hex)
    said = {"episodes": [{"role": "user", "content": f"Everybody in the house knows {word} by heart."}]}
    job = alice.post(f"{path}/observe", said, key=uuid.uuid4().hex)["job"]["id"]
    written = [one["id"] for one in alice.finished(memory, job)["records"]]
    assert len(written) == 2
    assert fact in {one["record"]["id"] for one in alice.recall(memory, f"what about {word}?")["results"]}
    assert "dump" in left(stack, word)
    erased = alice.post(f"{path}/erase", {"record_ids": [fact, written[0]]}, key=uuid.uuid4().hex)
    assert (set(erased["erased"]), erased["unreachable"]) == ({fact, *written}, [])
    assert alice.recall(memory, f"what about {word}?", text=word, include="all")["results"] == []
    assert alice.get(f"{path}/jobs/{job}")["records"] == []
    assert left(stack, word) == []


def test_rewritten_tables_do_not_have_the_words_in_their_files_either(stack: Stack, alice: Person, word: str):
    memory = alice.plant("Place")
    fact = alice.fact(memory, f"The word is {word}.")
    alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [fact]})
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url, autocommit=True) as owner:
        tables = owner.execute("select tablename from pg_tables where schemaname = 'provider'").fetchall()
        for (table,) in tables:
            owner.execute(sql.SQL("vacuum full {}").format(sql.Identifier("provider", str(table))))
        owner.execute("checkpoint")
    heap = [one for one in (stack.home / "postgres" / "data" / "base").rglob("*") if one.is_file()]
    assert len(heap) > 100
    assert [one.name for one in heap if _holds(one, word)] == []


def _holds(file: Path, word: str) -> bool:
    try:
        return word.encode() in file.read_bytes()
    except FileNotFoundError:
        return False


@pytest.mark.requirement("ME-5.2-05", "ME-5.2-08", "ME-10.3-03")
def test_a_copy_goes_where_the_eraser_may_erase_and_is_named_where_it_may_not(
    alice: Person, bob: Person, word: str
):
    source, mine, his = alice.plant("Source"), alice.plant("Mine"), bob.plant("His")
    fact = alice.fact(source, f"The word is {word}.")
    promoted: Json = {"references": [{"memory_id": source, "record_id": fact, "rel": "derived_from"}]}
    copy = alice.fact(mine, f"A copy of {word}.", **promoted)
    hidden = bob.fact(his, f"Another copy of {word}.", **promoted)
    again: Json = {"references": [{"memory_id": mine, "record_id": copy, "rel": "derived_from"}]}
    further = alice.fact(alice.plant("Further"), f"A copy of the copy of {word}.", **again)
    key = uuid.uuid4().hex
    erased = alice.post(f"/v1/memories/{source}/erase", {"record_ids": [fact]}, key)
    assert set(erased["erased"]) == {fact, copy, further}
    assert erased["unreachable"] == [hidden]
    assert his not in str(erased)
    assert alice.post(f"/v1/memories/{source}/erase", {"record_ids": [fact]}, key) == erased
    assert alice.send("GET", f"/v1/memories/{mine}/records/{copy}").status_code == 404
    assert bob.get(f"/v1/memories/{his}/records/{hidden}")["references"] == [
        {"memory_id": source, "record_id": fact, "available": False}
    ]


def test_an_erase_is_in_the_audit_with_who_and_how_many_and_not_with_what(
    admin: Caller, alice: Person, bob: Person, word: str
):
    memory = alice.plant("Place")
    facts = [alice.fact(memory, f"{word} number {number}.") for number in range(3)]
    alice.give(memory, bob, "read", "write")
    assert bob.send("POST", f"/v1/memories/{memory}/erase", {"record_ids": facts}).status_code == 403
    alice.post(f"/v1/memories/{memory}/erase", {"record_ids": facts})
    found = admin.get(f"/v1/grovekeeper/audit?memory={memory}&action=record.erase")["data"]
    assert [(one["actor"], one["outcome"], one["detail"]) for one in found] == [
        (alice.principal, "allowed", {"records": "3"})
    ]
    assert not any(one in str(found) for one in (word, *facts))


def test_erases_revisions_and_derivations_at_once_leave_nothing(stack: Stack, alice: Person, word: str):
    memory = alice.plant("Place")
    path = f"/v1/memories/{memory}"
    said = [{"content": f"Everybody in house {number} knows {word} by heart."} for number in range(20)]
    job = alice.post(f"{path}/observe", {"episodes": said})["job"]["id"]
    episodes = [one["id"] for one in alice.records(memory, "types=episode")]
    facts = [alice.fact(memory, f"{word} was said {number} times.") for number in range(5)]
    with ThreadPoolExecutor(8) as pool:
        revised = [
            pool.submit(alice.send, "PATCH", f"{path}/records/{one}", {"content": f"{word} again."})
            for one in facts * 2
        ]
        erased = [
            pool.submit(alice.send, "POST", f"{path}/erase", {"record_ids": [one]})
            for one in (episodes + facts) * 2
        ]
        statuses = [one.result().status_code for one in erased]
    assert sorted(statuses) == [200] * 25 + [404] * 25
    assert {one.result().status_code for one in revised} <= {200, 404, 409}
    alice.finished(memory, job)
    assert alice.records(memory, "include=all") == []
    assert left(stack, word) == []
