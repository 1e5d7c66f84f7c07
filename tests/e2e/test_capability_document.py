"""Each word of a provider's capability document is driven: what it declares is done, what it does not is refused.

(Memories, sections 10.2 and 10.3.) The words a test does not know fail it, so that none is declared unproved.
"""

from collections.abc import Callable, Iterator
from typing import Final, cast
from urllib.parse import quote

import pytest

from tests.e2e.caller import Json
from tests.e2e.people import Person
from tests.e2e.runs import consolidated
from tests.e2e.shapes import ok, refusal

FACT: Final[Json] = {"type": "fact", "content": "Acme renews in March.", "attributes": {"account": "acme"}}
SAID: Final[Json] = {"episodes": [{"content": "Acme renews in March.", "role": "user"}]}
LISTED: Final = "select id from records"
NO_PARAMS: Final[Json] = {}

Drive = Callable[[Person, str, object], None]
"""Somebody, an empty memory of hers, and what the document declares."""


def leaves(document: Json, before: str = "") -> Iterator[tuple[str, object]]:
    """The words of a document, by their paths."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from leaves(cast("Json", value), f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def unsupported(who: Person, method: str, path: str, body: Json | None = None) -> None:
    refusal(who.send(method, path, body), 422, "memory_unsupported")


def record(who: Person, memory: str) -> str:
    """The path of a fact."""
    return f"/v1/memories/{memory}/records/{who.post(f'/v1/memories/{memory}/records', FACT)['id']}"


def uploaded(who: Person, name: str, content: bytes) -> str:
    answer = who.http.post("/v1/files", files={"file": (name, content)}, data={"purpose": "user_data"})
    return str(ok(answer)["id"])


def note(who: Person, memory: str, name: str, content: bytes) -> Json:
    """A record whose content is a file."""
    body = {"type": "note", "content": {"file": {"id": uploaded(who, name, content)}}}
    return who.post(f"/v1/memories/{memory}/records", body)


def isolation(who: Person, memory: str, declared: object) -> None:
    assert declared in ("container", "enforced_filter")
    path = record(who, memory)
    other = who.plant("Other")
    refusal(who.send("GET", path.replace(memory, other)), 404, "memory_record_not_found")
    for asked in ({"query": "When does Acme renew?"}, {"text": "Acme"}):
        assert who.post(f"/v1/memories/{other}/recall", asked)["results"] == []


def derivation(who: Person, memory: str, declared: object) -> None:
    job = who.post(f"/v1/memories/{memory}/observe", SAID)["job"]["id"]
    assert who.finished(memory, job)["status"] == "completed"
    facts = who.records(memory, "types=fact")
    assert bool(facts) == (declared in ("write_time", "background"))


def observe_answers(who: Person, memory: str, declared: object) -> None:
    answer = who.post(f"/v1/memories/{memory}/observe", SAID)
    assert (answer.get("job") is not None) == (declared == "job")
    assert bool(answer["records"]) == (declared == "records")


def observe_keeps_episodes(who: Person, memory: str, declared: object) -> None:
    who.post(f"/v1/memories/{memory}/observe", SAID)
    assert bool(who.records(memory, "types=episode")) == declared


def recall_signals(who: Person, memory: str, declared: object) -> None:
    assert isinstance(declared, list)
    record(who, memory)
    filters = {"field": "attributes.account", "op": "eq", "value": "acme"}
    asked: dict[str, Json | str] = {
        "query": "When does Acme renew?",
        "text": "Acme renews",
        "filters": filters,
    }
    for signal, value in asked.items():
        answer = who.post(f"/v1/memories/{memory}/recall", {signal: value})
        lacking = [] if signal in declared else [f"{signal}:not_supported"]
        assert answer["degraded"] == lacking
        assert [one["why"] for one in answer["results"]] == ([] if lacking else [[signal]])


def recall_abstain(who: Person, memory: str, declared: object) -> None:
    record(who, memory)
    answer = who.recall(memory, "What is the capital of Mongolia?")
    assert answer["abstain"] is declared


def recall_max_depth(who: Person, memory: str, declared: object) -> None:
    assert isinstance(declared, int)
    below = who.plant("Below", memory)
    record(who, below)
    within = who.post(f"/v1/memories/{memory}/recall", {"text": "Acme", "depth": min(1, declared)})
    assert len(within["results"]) == min(1, declared)
    beyond = who.post(f"/v1/memories/{memory}/recall", {"text": "Acme", "depth": declared + 1})
    assert beyond["degraded"] == [f"depth:capped_at_{declared}"]


def history_content(who: Person, memory: str, declared: object) -> None:
    path = record(who, memory)
    if declared == "none":
        unsupported(who, "GET", f"{path}/history")
        return
    before = who.get(path)["time"]["written_at"]
    who.call("PATCH", path, {"content": "Acme renews in May."})
    assert [one["version"] for one in who.get(f"{path}/history")["data"]] == [1, 2]
    assert who.get(f"{path}?as_of={quote(before)}")["content"] == FACT["content"]


def history_structure(who: Person, memory: str, declared: object) -> None:
    path = record(who, who.plant("Below", memory))
    then = who.get(path)["time"]["written_at"]
    asked = {"text": "Acme", "as_of": then, "depth": 1}
    degraded = who.post(f"/v1/memories/{memory}/recall", asked)["degraded"]
    assert ("as_of:structure_not_kept" in degraded) == (declared == "none")


def revise(who: Person, memory: str, declared: object) -> None:
    path = record(who, memory)
    if declared is False:
        unsupported(who, "PATCH", path, {"content": "Acme renews in May."})
    else:
        assert who.call("PATCH", path, {"content": "Acme renews in May."})["version"] == 2


def forget(who: Person, memory: str, declared: object) -> None:
    path = record(who, memory)
    if declared is False:
        unsupported(who, "DELETE", path)
    else:
        assert who.delete(path)["status"] == "forgotten"


def erase_unreachable(who: Person, memory: str, declared: object) -> None:
    assert declared == "reported"
    made = record(who, memory).rpartition("/")[2]
    answer = who.post(f"/v1/memories/{memory}/erase", {"record_ids": [made]})
    assert (answer["erased"], answer["unreachable"]) == ([made], [])


def prime(who: Person, memory: str, declared: object) -> None:
    who.post(f"/v1/memories/{memory}/records", FACT | {"type": "note", "content": "Ring twice."})
    harness = who.harness("Primed", {"memory_id": memory, "access": "read"})
    primed = who.run("Hello.", harness)["metadata"].get("grovekeeper_primed", [])
    assert any(one["memory_id"] == memory for one in primed) == declared


def consolidate(who: Person, memory: str, declared: object) -> None:
    assert declared == "runs"
    record(who, memory)
    record(who, memory)
    done = consolidated(who, memory)
    assert (done["status"], done["changes"]) == ("completed", {"created": 0, "superseded": 1, "forgotten": 0})
    (change,) = who.get(f"/v1/memories/{memory}/consolidations/{done['id']}/changes")["data"]
    assert change["record"]["written_by"] == done["written_by"]
    undone = who.post(f"/v1/memories/{memory}/consolidations/{done['id']}/revert", {})
    assert undone["reversal"]["restored"] == 1


def queries_named(who: Person, memory: str, declared: object) -> None:
    body = {"description": "All.", "params": NO_PARAMS, "language": "sql", "body": LISTED}
    answer = who.send("PUT", f"/v1/memories/{memory}/queries/all", body)
    if not declared:
        refusal(answer, 422, "memory_unsupported")
        return
    ok(answer)
    assert who.post(f"/v1/memories/{memory}/queries/all", {})["rows"] == []


def queries_languages(who: Person, memory: str, declared: object) -> None:
    assert isinstance(declared, list)
    for language in ("sql", "cypher", "sparql"):
        body = {"description": "All.", "params": NO_PARAMS, "language": language, "body": LISTED}
        answer = who.send("PUT", f"/v1/memories/{memory}/queries/all", body)
        if language in declared:
            ok(answer)
        else:
            refusal(answer, 422, "memory_unsupported")


def free_languages(who: Person, memory: str, declared: object) -> None:
    assert isinstance(declared, list)
    for language in ("sql", "cypher", "sparql"):
        answer = who.send("POST", f"/v1/memories/{memory}/query", {"language": language, "statement": LISTED})
        if language in declared:
            assert ok(answer)["rows"] == []
        else:
            refusal(answer, 422, "memory_unsupported")


def free_write(who: Person, memory: str, declared: object) -> None:
    assert declared is False
    record(who, memory)
    for statement in ("delete from records", "update records set type = 'note'"):
        asked = {"language": "sql", "statement": statement}
        assert not who.send("POST", f"/v1/memories/{memory}/query", asked).is_success
    assert len(who.records(memory)) == 1


def types(who: Person, memory: str, declared: object) -> None:
    body = {"type": "x.task", "attributes": {"title": "Ring Acme."}}
    made = who.post(f"/v1/memories/{memory}/records", body)
    path = f"/v1/memories/{memory}/records/{made['id']}/operations/complete"
    if declared:
        assert who.post(path, {})["record"]["attributes"]["status"] == "done"
    else:
        unsupported(who, "POST", path, {})


def files(who: Person, memory: str, declared: object) -> None:
    body = {"type": "note", "content": {"file": {"id": uploaded(who, "a.txt", b"Acme renews in March.")}}}
    answer = who.send("POST", f"/v1/memories/{memory}/records", body)
    if declared:
        assert ok(answer)["content"]["file"]["name"] == "a.txt"
    else:
        refusal(answer, 422, "memory_unsupported")


def content_bytes(who: Person, memory: str, declared: object) -> None:
    made = note(who, memory, "a.bin", bytes(range(256)))
    answer = who.send("GET", f"/v1/memories/{memory}/records/{made['id']}/content")
    assert (answer.content == bytes(range(256))) == (declared == "kept")


def content_media(who: Person, memory: str, declared: object) -> None:
    assert isinstance(declared, list)
    for name, kind, content in (
        ("a.txt", "text/plain", b"A walrus."),
        ("a.csv", "text/csv", b"animal,weight\nwalrus,900\n"),
        ("a.bin", "application/octet-stream", b"\0walrus\0"),
    ):
        made = note(who, memory, name, content)
        found = who.post(f"/v1/memories/{memory}/recall", {"text": "walrus"})["results"]
        assert (made["id"] in {one["record"]["id"] for one in found}) == (kind in declared), kind


def content_describes(who: Person, memory: str, declared: object) -> None:
    made = note(who, memory, "a.png", b"\x89PNG\r\n\x1a\n" + bytes(64))
    described = "text" in made.get("parts", [{}])[0]
    assert described == declared


def snapshots(who: Person, memory: str, declared: object) -> None:
    path = f"/v1/memories/{memory}/snapshots"
    if not declared:
        unsupported(who, "POST", path, {"name": "Now"})
        return
    at = who.post(path, {"name": "Now"})["at"]
    record(who, memory)
    assert who.records(memory, f"as_of={quote(at)}") == []


def outside(who: Person, memory: str, declared: object) -> None:
    harness = who.harness("Noticed")
    attached = who.put(
        f"/v1/harnesses/{harness}/memories", {"memories": [{"memory_id": memory, "access": "read"}]}
    )
    assert ("notices" in attached) == declared


DRIVES: Final[dict[str, Drive]] = {
    "isolation": isolation,
    "derivation": derivation,
    "observe.keeps_episodes": observe_keeps_episodes,
    "observe.answers": observe_answers,
    "recall.signals": recall_signals,
    "recall.abstain": recall_abstain,
    "recall.max_depth": recall_max_depth,
    "history.content": history_content,
    "history.structure": history_structure,
    "revise": revise,
    "forget": forget,
    "erase.unreachable": erase_unreachable,
    "prime": prime,
    "consolidate": consolidate,
    "queries.named": queries_named,
    "queries.languages": queries_languages,
    "queries.free.languages": free_languages,
    "queries.free.write": free_write,
    "types": types,
    "files": files,
    "snapshots": snapshots,
    "content.media": content_media,
    "content.bytes": content_bytes,
    "content.describes": content_describes,
    "outside": outside,
}


def declared_by(who: Person) -> dict[str, object]:
    """The native provider's document, word by word."""
    (native,) = [one for one in who.get("/v1/memories/providers")["data"] if one["id"] == "native"]
    return dict(leaves(native))


@pytest.mark.requirement("ME-10.2-01")
def test_no_word_of_the_document_goes_undriven(alice: Person):
    assert {*declared_by(alice)} == {"id", *DRIVES}


@pytest.mark.requirement(
    "ME-10.2-07", "ME-10.3-02", "ME-6.1-06", "ME-6.5-02", "ME-10.2-02", "ME-10.2-03", "ME-10.2-04"
)
@pytest.mark.parametrize("word", DRIVES)
def test_what_is_declared_is_done_and_what_is_not_is_refused_or_named(alice: Person, word: str):
    DRIVES[word](alice, alice.plant("Driven"), declared_by(alice)[word])
