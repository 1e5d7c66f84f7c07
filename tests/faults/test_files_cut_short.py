"""The provider and memory_service killed between the steps of uploading, naming and erasing a file.

Nothing that was acknowledged is lost, no record names bytes that are not there, the store holds nothing that no row
knows of, and the same request again finishes.
"""

import secrets
import uuid
from collections.abc import Generator

import httpx
import pytest

from tests.e2e.caller import Caller, Json
from tests.faults.product import Product, product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MEMORY, PROVIDER = "memory", "provider"
FILES = "provider_workers.adapters.native.files:Files"
OPERATIONS = "provider_workers.domain.operations:Operations"
SENT = "memory_service.domain.files:Files"
ROWS = "memory_service.store.uploads:PostgresUploads"
OBJECTS = "service_kit.objects.store:Objects"

UPLOADING = [
    pytest.param(f"{ROWS}.begin_upload:after", id="the row is written, the bytes are not"),
    pytest.param(f"{OBJECTS}.put:after", id="the bytes are written, the upload is not there yet"),
    pytest.param(f"{ROWS}.finish:after", id="the upload is there and not answered"),
]
NAMING = [
    pytest.param(PROVIDER, f"{OBJECTS}.put:after", id="the copy is made, its row does not say so"),
    pytest.param(PROVIDER, f"{OPERATIONS}.keep:after", id="the copy is kept and not answered"),
    pytest.param(MEMORY, f"{SENT}._keep:after", id="the copy is answered, the record is not asked for"),
    pytest.param(PROVIDER, f"{OPERATIONS}.remember:before", id="the record is asked for and not written"),
    pytest.param(PROVIDER, f"{OPERATIONS}.remember:after", id="the record is written and not answered"),
]
ERASING = [
    pytest.param(PROVIDER, f"{OBJECTS}.delete:after", id="the bytes are gone, the records are not"),
    pytest.param(PROVIDER, f"{OPERATIONS}.erase:after", id="erased and not answered"),
    pytest.param(MEMORY, f"{SENT}._remove:before", id="erased, and the upload not yet hidden"),
    pytest.param(MEMORY, f"{ROWS}.hide:after", id="the upload hidden, its bytes still there"),
    pytest.param(MEMORY, f"{OBJECTS}.delete:after", id="its bytes gone, its row still there"),
]


@pytest.fixture(scope="module")
def grove() -> Generator[Product]:
    with product() as made:
        yield made


def send(caller: Caller, content: bytes, key: str) -> httpx.Response:
    return caller.http.post(
        "/v1/files", files={"file": ("a.txt", content, "text/plain")}, headers={"Idempotency-Key": key}
    )


def naming(file_id: str) -> Json:
    return {"type": "note", "content": {"file": {"id": file_id}}}


def write(caller: Caller, path: str, body: Json, key: str) -> httpx.Response:
    return caller.http.post(path, json=body, headers={"Idempotency-Key": key})


def copies(grove: Product, content: bytes) -> dict[str, int]:
    """How many objects of each service hold these bytes."""
    root = grove.deployment.home.path / "objects"
    found = [one for one in root.rglob("*") if one.is_file() and one.read_bytes() == content]
    return {
        name: sum(one.relative_to(root).parts[0] == name for one in found) for name in ("uploads", "kept")
    }


def dangling(grove: Product) -> set[str]:
    """Objects of the store that no row knows of."""
    root = grove.deployment.home.path / "objects"
    names = {one.name.partition("#")[0] for one in root.rglob("*") if one.is_file()}
    known = {row[0] for row in grove.rows("select id from memory.upload")}
    known |= {row[0] for row in grove.rows("select object from provider.kept_file")}
    return names - known


def die(grove: Product, victim: str, point: str, caller: Caller, memory: str) -> None:
    grove.kill(victim)
    grove.start_dying(victim, point)
    reached(caller, memory)


def recover(grove: Product, victim: str, caller: Caller, memory: str) -> None:
    grove.died(victim)
    grove.start(victim)
    reached(caller, memory)


def planted(caller: Caller, name: str) -> str:
    """A memory, once the others have found a process that the test before started anew."""
    caller.until(lambda: caller.send("GET", "/v1/memories").status_code, lambda status: status == 200)
    return caller.plant(name)


def reached(caller: Caller, memory: str) -> None:
    """Wait until the others have found a process that was started anew."""
    for path in (f"/v1/memories/{memory}", f"/v1/memories/{memory}/records"):
        caller.until(lambda path=path: caller.send("GET", path).status_code, lambda status: status == 200)


@pytest.mark.parametrize("point", UPLOADING)
def test_an_upload_cut_short_is_finished_by_a_repeat_and_leaves_nothing(grove: Product, point: str):
    alice, key, content = grove.person("alice"), uuid.uuid4().hex, secrets.token_hex(16).encode()
    memory = planted(alice, f"Memory of {point}")
    die(grove, MEMORY, point, alice, memory)
    assert send(alice, content, key).status_code in (503, 504)
    recover(grove, MEMORY, alice, memory)
    assert dangling(grove) == set()
    made, again = send(alice, content, key), send(alice, content, key)
    assert (made.status_code, made.json()) == (200, again.json())
    # What cannot end any more goes with the next sweep.
    grove.rows("update memory.upload set created_at = now() - interval '21 minutes' where not complete")
    alice.until(lambda: copies(grove, content), lambda there: there == {"uploads": 1, "kept": 0})
    record = alice.post(f"/v1/memories/{memory}/records", naming(made.json()["id"]))
    assert alice.send("GET", f"/v1/memories/{memory}/records/{record['id']}/content").content == content


@pytest.mark.parametrize(("victim", "point"), NAMING)
def test_a_record_cut_short_is_finished_by_a_repeat_and_its_bytes_are_there(
    grove: Product, victim: str, point: str
):
    alice, key, content = grove.person("alice"), uuid.uuid4().hex, secrets.token_hex(16).encode()
    memory = planted(alice, f"Memory of {point}")
    path, body = f"/v1/memories/{memory}/records", naming(send(alice, content, uuid.uuid4().hex).json()["id"])
    die(grove, victim, point, alice, memory)
    assert write(alice, path, body, key).status_code in (503, 504)
    recover(grove, victim, alice, memory)
    for one in alice.get(path)["data"]:
        assert alice.send("GET", f"{path}/{one['id']}/content").content == content
    assert dangling(grove) == set()
    first, again = write(alice, path, body, key), write(alice, path, body, key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert [one["id"] for one in alice.get(path)["data"]] == [first.json()["id"]]
    assert alice.send("GET", f"{path}/{first.json()['id']}/content").content == content
    left = grove.rows("select count(*) from provider.kept_file where memory_id = %s and kept", memory)
    assert left == [(1,)]
    assert dangling(grove) == set()


@pytest.mark.parametrize(("victim", "point"), ERASING)
def test_an_erase_cut_short_is_finished_by_a_repeat_and_no_bytes_are_left(
    grove: Product, victim: str, point: str
):
    alice, key, content = grove.person("alice"), uuid.uuid4().hex, secrets.token_hex(16).encode()
    memory = planted(alice, f"Memory of {point}")
    file_id = send(alice, content, uuid.uuid4().hex).json()["id"]
    record = alice.post(f"/v1/memories/{memory}/records", naming(file_id))
    path, body = f"/v1/memories/{memory}/erase", {"record_ids": [record["id"]]}
    die(grove, victim, point, alice, memory)
    assert write(alice, path, body, key).status_code in (503, 504)
    recover(grove, victim, alice, memory)
    if alice.send("GET", f"/v1/memories/{memory}/records/{record['id']}").status_code == 404:
        # Never are records gone while the memory still holds their bytes.
        assert copies(grove, content)["kept"] == 0
    answer = write(alice, path, body, key)
    assert (answer.status_code, answer.json()["erased"]) == (200, [record["id"]])
    assert copies(grove, content) == {"uploads": 0, "kept": 0}
    assert dangling(grove) == set()
    assert grove.rows("select id from memory.upload where id = %s", file_id) == []


def test_an_upload_whose_erase_is_never_repeated_is_found_by_the_check(grove: Product):
    alice, content = grove.person("alice"), secrets.token_hex(16).encode()
    memory = planted(alice, "Never repeated")
    file_id = send(alice, content, uuid.uuid4().hex).json()["id"]
    record = alice.post(f"/v1/memories/{memory}/records", naming(file_id))
    die(grove, MEMORY, f"{SENT}._remove:before", alice, memory)
    body: Json = {"record_ids": [record["id"]]}
    write(alice, f"/v1/memories/{memory}/erase", body, uuid.uuid4().hex)
    grove.died(MEMORY)
    assert copies(grove, content) == {"uploads": 1, "kept": 0}
    grove.rows("update memory.upload_kept set created_at = now() - interval '1 hour'")
    grove.rows(
        "with path as materialized (select set_config('search_path', 'memory', false))"
        " update memory.procrastinate_jobs set scheduled_at = now() from path where scheduled_at > now()"
    )
    grove.start(MEMORY)
    alice.until(lambda: copies(grove, content), lambda there: there == {"uploads": 0, "kept": 0})


def test_a_gateway_that_dies_in_the_middle_of_an_upload_leaves_neither_row_nor_bytes(grove: Product):
    alice = grove.person("alice")
    memory, before = planted(alice, "Gateway"), grove.rows("select count(*) from memory.upload")

    def body() -> Generator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        yield b"x" * 200_000
        alice_sees = grove.rows("select count(*) from memory.upload where not complete")
        while not alice_sees[0][0]:
            alice_sees = grove.rows("select count(*) from memory.upload where not complete")
        grove.kill("gateway")
        yield b"x" * 200_000

    with pytest.raises(httpx.HTTPError):
        alice.http.post(
            "/v1/files", content=body(), headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
    grove.start("gateway")
    reached(alice, memory)
    alice.until(lambda: grove.rows("select count(*) from memory.upload"), lambda count: count == before)
    assert dangling(grove) == set()
