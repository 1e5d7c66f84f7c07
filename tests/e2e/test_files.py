"""Files over HTTP: sent, named by records, found by their words, read back, erased with their records (section 7)."""

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.e2e.caller import Json, Refused
from tests.e2e.people import Person, envelope
from tests.fixtures.documents import docx_of, pdf_of, png
from tests.fixtures.stack import Stack

WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
POST3: Final = {"UHP-Memories-Revision": "post3"}


def send(caller: Person, name: str, content: bytes, **more: Any) -> httpx.Response:
    """Upload a file."""
    files = {"file": (name, content, more.pop("stated", "application/octet-stream"))}
    return caller.http.post("/v1/files", files=files, data={"purpose": "user_data"}, **more)


def uploaded(caller: Person, name: str, content: bytes) -> str:
    answer = send(caller, name, content)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def keep(caller: Person, memory: str, file_id: str, text: str | None = None) -> Json:
    part: Json = {"type": "file", "file": {"id": file_id}} | ({} if text is None else {"text": text})
    return caller.post(f"/v1/memories/{memory}/records", {"type": "note", "content": [part]})


def _html(words: str) -> bytes:
    return b"<html><body><p>" + words.encode()


def content(caller: Person, record: Json, tail: str = "", **headers: str) -> httpx.Response:
    path = f"/v1/memories/{record['memory_id']}/records/{record['id']}/content{tail}"
    return caller.send(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


def objects(stack: Stack) -> set[bytes]:
    """All that the object store holds."""
    return {one.read_bytes() for one in (stack.home / "objects").rglob("*") if one.is_file()}


@pytest.mark.requirement("ME-7-05", "SU-files-01")
def test_an_upload_answers_what_it_is(alice: Person):
    answer = send(alice, "ünï code.png", png())
    made = answer.json()
    assert made["id"].startswith("file_")
    assert made == {
        "id": made["id"],
        "object": "file",
        "filename": "ünï code.png",
        "bytes": len(png()),
        "created_at": made["created_at"],
        "media_type": "image/png",
        "purpose": "user_data",
    }


@pytest.mark.requirement("ME-4-03", "ME-7-01", "ME-7-04", "ME-7-05", "SU-files-04", "SU-revisions-07")
def test_a_picture_is_kept_with_its_words_and_read_back(alice: Person):
    memory, picture = alice.plant("Pictures"), png()
    file_id = uploaded(alice, "walrus.png", picture)
    record = keep(alice, memory, file_id, "A walrus on an ice floe")
    assert record["content"]["file"] == {
        "id": file_id,
        "name": "walrus.png",
        "media_type": "image/png",
        "bytes": len(picture),
        "version": record["content"]["file"]["version"],
    }
    (hit,) = alice.recall(memory, "walrus")["results"]
    assert hit["record"]["id"] == record["id"]
    read = alice.send("GET", f"/v1/memories/{memory}/records/{record['id']}", headers=POST3).json()
    assert read["content"] == [
        {"type": "file", "file": record["content"]["file"], "text": "A walrus on an ice floe"}
    ]
    for tail in ("", "/0", "?version=1"):
        for revision in ("original", "post3"):
            answer = content(alice, record, tail, UHP_Memories_Revision=revision)
            assert (answer.status_code, answer.content) == (200, picture)
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith('attachment; filename="walrus.png"')


@pytest.mark.parametrize(
    ("name", "made", "kind"),
    [
        ("a.pdf", pdf_of, "application/pdf"),
        ("a.docx", docx_of, WORD),
        ("a.html", _html, "text/html"),
        ("a.md", str.encode, "text/markdown"),
    ],
    ids=["pdf", "docx", "html", "md"],
)
def test_words_in_a_document_are_found_as_soon_as_it_is_written(
    alice: Person, name: str, made: Callable[[str], bytes], kind: str
):
    memory, word = alice.plant("Documents"), f"pelican{secrets.token_hex(3)}"
    record = keep(alice, memory, uploaded(alice, name, made(f"The {word} flies south")))
    assert record["content"]["file"]["media_type"] == kind
    (part,) = record["parts"]
    assert word in part["text"]
    assert part["text_source"] == "extracted"
    answer = alice.post(f"/v1/memories/{memory}/recall", {"text": word})
    assert [hit["record"]["id"] for hit in answer["results"]] == [record["id"]]


def test_a_document_nobody_can_read_is_kept_without_words(alice: Person):
    memory, broken = alice.plant("Broken"), pdf_of("Nothing of this")[:120]
    record = keep(alice, memory, uploaded(alice, "broken.pdf", broken))
    assert record["content"]["file"]["media_type"] == "application/pdf"
    assert "parts" not in record
    assert content(alice, record).content == broken


@pytest.mark.requirement("ME-7-02", "ME-7-03", "ME-7-04")
def test_a_revision_keeps_the_file_or_gives_another_and_the_earlier_bytes_stay(alice: Person):
    memory = alice.plant("Versions")
    first = uploaded(alice, "plan.txt", b"Plan one: walk.")
    record = keep(alice, memory, first)
    path = f"/v1/memories/{memory}/records/{record['id']}"
    same = alice.call("PATCH", path, {"content": {"file": {"id": first}}})
    assert same["content"]["file"] == record["content"]["file"]
    second = uploaded(alice, "plan.txt", b"Plan two: swim.")
    alice.call("PATCH", path, {"content": {"file": {"id": second}}})
    assert content(alice, record).content == b"Plan two: swim."
    for version in (1, 2):
        assert content(alice, record, f"?version={version}").content == b"Plan one: walk."
    assert content(alice, record, "?version=4").status_code == 404
    versions = [one["content"]["file"]["version"] for one in alice.get(f"{path}/history")["data"]]
    assert versions[0] == versions[1] != versions[2]
    earlier = alice.get(f"{path}?as_of={same['time']['written_at']}")
    assert earlier["content"]["file"]["id"] == first


def test_part_of_a_file_is_read_by_range(alice: Person):
    memory, whole = alice.plant("Ranges"), bytes(range(256)) * 8192
    record = keep(alice, memory, uploaded(alice, "whole.bin", whole))
    size = len(whole)
    for asked, first, last in (
        ("bytes=0-0", 0, 0),
        ("bytes=100-", 100, size - 1),
        ("bytes=-5", size - 5, size - 1),
        ("bytes=10-99999999", 10, size - 1),
        (f"bytes=-{size * 2}", 0, size - 1),
        ("bytes=1048570-1048590", 1048570, 1048590),
    ):
        answer = content(alice, record, Range=asked)
        assert (answer.status_code, answer.content) == (206, whole[first : last + 1]), asked
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{size}"
    for nothing in (f"bytes={size}-", "bytes=-0"):
        answer = content(alice, record, Range=nothing)
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{size}")
        assert envelope(answer)["code"] == "grovekeeper_range_not_satisfiable"
    for everything in ("bytes=5-1", "bytes=0-1,3-4", "lines=1-2", "bytes=-"):
        answer = content(alice, record, Range=everything)
        assert (answer.status_code, answer.content) == (200, whole), everything
    tag = answer.headers["etag"]
    assert content(alice, record, Range="bytes=0-9", If_Range=tag).status_code == 206
    assert content(alice, record, Range="bytes=0-9", If_Range='"another"').content == whole
    assert content(alice, record, If_None_Match=tag).status_code == 304
    head = alice.send("HEAD", f"/v1/memories/{memory}/records/{record['id']}/content")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(size), b"")


def test_what_a_browser_would_run_is_served_as_text_to_be_saved(alice: Person):
    memory = alice.plant("Scripts")
    for name, script in (
        ("a.html", b"<html><script>alert(1)</script>"),
        ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        ("a.xml", b'<?xml version="1.0"?><x/>'),
        ("a.js", b"alert(1)"),
        ("a.png", b"<html><script>alert(1)</script>"),
    ):
        record = keep(alice, memory, uploaded(alice, name, script))
        answer = content(alice, record)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.content == script


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\u202egpj.exe", "agpj.exe"),
        ('say "hi"; x=y.txt', 'say "hi"; x=y.txt'),
        ("..", "file"),
        ("", "file"),
        ("x" * 400 + ".pdf", "x" * 251 + ".pdf"),
    ],
)
def test_a_name_loses_folders_and_what_cannot_be_seen(alice: Person, sent: str, kept: str):
    quoted = sent.replace("\\", "\\\\").replace('"', '\\"').encode()
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\nhello\r\n--b--\r\n'
        % quoted
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    made = alice.http.post("/v1/files", content=body, headers=headers).json()
    assert made["filename"] == kept
    record = keep(alice, alice.plant("Names"), made["id"])
    answer = content(alice, record)
    assert answer.content == b"hello"
    assert "\n" not in answer.headers["content-disposition"]


@pytest.mark.requirement("SU-files-02")
def test_a_file_past_the_limit_is_refused_and_nothing_of_it_is_kept(alice: Person, stack: Stack):
    before = objects(stack)
    answer = send(alice, "large.bin", b"x" * (64 * 1024 * 1024 + 1))
    assert (answer.status_code, envelope(answer)["code"]) == (413, "file_too_large")
    assert envelope(answer)["detail"]["max_bytes"] == 64 * 1024 * 1024
    alice.until(lambda: objects(stack), lambda there: there == before)  # the call is given up in its own time


def test_a_large_file_passes_where_a_large_body_would_not(alice: Person):
    large = secrets.token_bytes(20 * 1024 * 1024)
    record = keep(alice, alice.plant("Large"), uploaded(alice, "large.bin", large))
    assert content(alice, record).content == large
    assert alice.send("POST", "/v1/memories", {"name": "x" * 9_000_000}).status_code == 413


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"--b\r\n", "multipart/form-data"),
        (
            b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nx\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
        ),
        (b"nothing of the kind", "multipart/form-data; boundary=b"),
        (
            2 * b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'
            + b"--b--\r\n",
            "multipart/form-data; boundary=b",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\ncut',
            "multipart/form-data; boundary=b",
        ),
        (b"--b\r\nX-Long: " + b"x" * 100_000, "multipart/form-data; boundary=b"),
        (
            b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n'
            + b"x" * 100_000
            + b"\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
        ),
        (b"", "multipart/form-data; boundary=" + "x" * 71),
    ],
    ids=[
        "json",
        "no boundary",
        "no file",
        "no form",
        "two files",
        "cut short",
        "long header",
        "long field",
        "no name",
        "long boundary",
    ],
)
def test_a_body_that_is_no_upload_is_refused_in_words(alice: Person, stack: Stack, body: bytes, kind: str):
    before = objects(stack)
    answer = alice.http.post("/v1/files", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, envelope(answer)["code"]) == (400, "invalid_input"), answer.text
    alice.until(lambda: objects(stack), lambda there: there == before)  # the call is given up in its own time


def test_the_fields_of_an_upload_may_come_in_any_order(alice: Person):
    file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n'
    purpose = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
    for body in (file + purpose, purpose + file):
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        made = alice.http.post("/v1/files", content=body + b"--b--\r\n", headers=headers).json()
        assert (made["purpose"], made["bytes"], made["media_type"]) == ("assistants", 5, "text/plain")


def test_an_empty_file_is_a_file(alice: Person):
    record = keep(alice, alice.plant("Empty"), uploaded(alice, "empty.txt", b""), "Nothing in it")
    answer = content(alice, record)
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_repeated_key_answers_the_first_upload(alice: Person, stack: Stack):
    key = {"Idempotency-Key": secrets.token_hex(8)}
    first, again = (
        send(alice, "a.txt", b"the same", headers=key),
        send(alice, "a.txt", b"the same", headers=key),
    )
    assert first.json() == again.json()
    assert sum(one == b"the same" for one in objects(stack)) == 1
    other = send(alice, "a.txt", b"not the same", headers=key)
    assert (other.status_code, envelope(other)["code"]) == (422, "grovekeeper_idempotency_mismatch")
    assert b"not the same" not in objects(stack)


def test_somebody_elses_upload_cannot_be_named(alice: Person, bob: Person):
    memory = bob.plant("Bob's")
    mine = uploaded(alice, "secret.txt", b"secret")
    refusals = list[Json]()
    for id_ in (mine, "file_" + "0" * 32):
        with pytest.raises(Refused) as refused:
            keep(bob, memory, id_)
        assert (refused.value.status, refused.value.code) == (404, "file_not_found")
        del refused.value.error["detail"]
        refusals.append(refused.value.error)
    assert refusals[0] == refusals[1]
    assert bob.records(memory) == []


def test_what_a_memory_keeps_may_be_named_again_by_who_writes_there(alice: Person, bob: Person):
    shared, other = alice.plant("Shared"), bob.plant("Bob's")
    alice.give(shared, bob, "read", "write")
    file_id = uploaded(alice, "plan.txt", b"Plan one: walk.")
    record = keep(alice, shared, file_id)
    path = f"/v1/memories/{shared}/records/{record['id']}"
    revised = bob.call("PATCH", path, {"content": {"file": {"id": file_id}}, "attributes": {"seen": True}})
    assert revised["content"] == record["content"]
    with pytest.raises(Refused) as refused:
        keep(bob, other, file_id)
    assert refused.value.code == "file_not_found"


def test_erasing_a_record_takes_bytes_words_and_upload_with_it(alice: Person, stack: Stack):
    memory, word = alice.plant("Erase"), f"heron{secrets.token_hex(4)}"
    written = f"The {word} stands still.".encode()
    file_id = uploaded(alice, f"{word}.txt", written)
    record = keep(alice, memory, file_id)
    assert written in objects(stack)
    assert alice.post(f"/v1/memories/{memory}/recall", {"text": word})["results"]
    erased = alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [record["id"]]})
    assert erased == {"erased": [record["id"]], "unreachable": []}
    assert not any(word.encode() in one for one in objects(stack))
    assert alice.post(f"/v1/memories/{memory}/recall", {"text": word})["results"] == []
    assert content(alice, record).status_code == 404
    with pytest.raises(Refused) as refused:
        keep(alice, memory, file_id)
    assert refused.value.code == "file_not_found"


def test_a_file_two_records_name_stays_until_both_are_erased(alice: Person, stack: Stack):
    memory, written = alice.plant("Twice"), secrets.token_hex(16).encode()
    file_id = uploaded(alice, "twice.txt", written)
    one, two = keep(alice, memory, file_id), keep(alice, memory, file_id)
    elsewhere = keep(alice, alice.plant("Elsewhere"), file_id)
    alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [one["id"]]})
    assert content(alice, two).content == written
    alice.post(f"/v1/memories/{memory}/erase", {"record_ids": [two["id"]]})
    assert content(alice, two).status_code == 404
    # Another memory is another unit.
    assert content(alice, elsewhere).content == written
    assert written in objects(stack)
    alice.post(f"/v1/memories/{elsewhere['memory_id']}/erase", {"record_ids": [elsewhere["id"]]})
    assert written not in objects(stack)


def test_deleting_a_memory_takes_its_files(alice: Person, stack: Stack):
    memory, written = alice.plant("Deleted"), secrets.token_hex(16).encode()
    keep(alice, memory, uploaded(alice, "gone.txt", written))
    folder = stack.home / "objects" / "kept" / memory
    assert [one.read_bytes() for one in folder.iterdir()] == [written]
    alice.delete(f"/v1/memories/{memory}")
    alice.until(folder.exists, lambda there: not there)


def test_a_part_that_is_no_file_has_no_content(alice: Person):
    memory = alice.plant("Words")
    record = alice.remember(memory, "Only words.")
    for tail in ("", "/0", "/7", "/x", "/-1"):
        answer = content(alice, record, tail)
        assert (answer.status_code, envelope(answer)["code"]) == (404, "file_not_found"), tail


def test_files_of_an_observe_are_kept_and_nothing_is_derived_from_them(alice: Person):
    memory = alice.plant("Observed")
    file_id = uploaded(alice, "talk.txt", b"The hub stands in the kitchen of the old house.")
    episode = {"content": [{"type": "text", "text": "See here."}, {"type": "file", "file": {"id": file_id}}]}
    job = alice.post(f"/v1/memories/{memory}/observe", {"episodes": [episode]})["job"]
    done = alice.finished(memory, job["id"])
    assert [one["type"] for one in done["records"]] == ["episode"]
    assert content(alice, done["records"][0], "/1").content.startswith(b"The hub")
    assert alice.recall(memory, "where is the hub?")["results"]


def test_the_capability_document_says_so(alice: Person):
    (native,) = [one for one in alice.get("/v1/memories/providers")["data"] if one["id"] == "native"]
    assert native["files"] is True
    assert (native["content"]["bytes"], native["content"]["describes"]) == ("kept", False)
    media = native["content"]["media"]
    memory = alice.plant("Media")
    for name, content_ in {
        "a.txt": b"words",
        "a.md": b"words",
        "a.csv": b"words,1",
        "a.tsv": b"words\t1",
        "a.json": b'{"words": 1}',
        "a.jsonl": b'{"words": 1}',
        "a.html": _html("words"),
        "a.pdf": pdf_of("words"),
        "a.docx": docx_of("words"),
        "a.png": png(),
        "a.svg": b"<svg><text>words</text></svg>",
        "a.yaml": b"words: 1",
        "a.bin": b"\x00words",
    }.items():
        record = keep(alice, memory, uploaded(alice, name, content_))
        kind, has_words = record["content"]["file"]["media_type"], "parts" in record
        assert has_words == (kind in media), kind
    assert len(media) == len(set(media)) == 9


def test_no_name_and_no_words_of_a_file_are_in_the_logs(alice: Person, stack: Stack):
    word = f"stork{secrets.token_hex(4)}"
    record = keep(alice, alice.plant("Logs"), uploaded(alice, f"{word}.txt", word.encode()))
    content(alice, record)
    alice.post(f"/v1/memories/{record['memory_id']}/erase", {"record_ids": [record["id"]]})
    logs = Path(stack.home / "logs")
    assert not any(word in one.read_text(errors="replace") for one in logs.glob("*.log"))
    assert json.dumps(record)  # it was one


def test_a_client_that_leaves_in_the_middle_leaves_no_bytes(alice: Person, stack: Stack):
    before, mark = objects(stack), secrets.token_bytes(8)

    class LeavingError(Exception):
        pass

    def body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(200):
            yield mark * 10_000
        raise LeavingError

    with pytest.raises(LeavingError):
        alice.http.post(
            "/v1/files", content=body(), headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
    alice.until(lambda: objects(stack), lambda there: there == before)
