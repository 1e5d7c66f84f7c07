"""The object store's port, over a directory and over a real S3 server process."""

import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from service_kit.embedded.ports import free_ports
from service_kit.errors import GroveError
from service_kit.objects.store import Objects, open_objects, tried_objects
from service_kit.settings import ObjectSettings, SettingsError

LIMIT = 32 * 1024 * 1024


@pytest.fixture(scope="session")
def s3() -> Generator[str]:
    """The address of an S3 server with a bucket called ``bytes``."""
    (port,) = free_ports(1)
    argv = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx.get(url, timeout=5)
                break
            except httpx.HTTPError:
                assert process.poll() is None
                time.sleep(0.05)
        bucket = f"{url}/bytes"
        assert httpx.put(bucket, timeout=10).is_success
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["directory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "directory":
        settings = ObjectSettings(object_store_url=(tmp_path / "a place").as_uri())
    else:
        settings = ObjectSettings(
            object_store_url=f"s3://bytes/{tmp_path.name}",
            object_store_endpoint=str(request.getfixturevalue("s3")),
            object_store_region="us-east-1",
            object_store_access_key_id=SecretStr("id"),
            object_store_secret_access_key=SecretStr("secret"),
        )
    made = open_objects(settings, "kept")
    assert made is not None
    return made


async def sent(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(objects: Objects, key: str, offset: int, length: int) -> bytes:
    return b"".join([chunk async for chunk in objects.read(key, offset, length)])


@pytest.mark.parametrize("size", [0, 1, 3_000_000, 12_000_000])
async def test_what_was_put_is_read_back_whole_and_in_part(objects: Objects, size: int):
    whole = bytes(range(251)) * (size // 251 + 1)
    stored = await objects.put("m/one", sent(whole[: size // 2], whole[size // 2 : size]), LIMIT)
    assert stored.bytes == size
    assert await read(objects, "m/one", 0, size) == whole[:size]
    assert await read(objects, "m/one", size // 3, size // 2) == whole[size // 3 : size // 3 + size // 2]


async def test_what_is_too_large_or_breaks_off_is_not_there(objects: Objects):
    async def broken() -> AsyncGenerator[bytes]:
        yield b"x" * 8_000_000
        raise RuntimeError("the client left")

    with pytest.raises(GroveError) as refused:
        await objects.put("m/large", sent(b"x" * 9_000_000), 8_000_000)
    assert (refused.value.code, refused.value.detail) == ("file_too_large", {"max_bytes": 8_000_000})
    with pytest.raises(RuntimeError):
        await objects.put("m/broken", broken(), LIMIT)
    for key in ("m/large", "m/broken", "m/never"):
        with pytest.raises(GroveError) as missing:
            await read(objects, key, 0, 1)
        assert missing.value.code == "file_not_found"


async def test_deleting_is_done_once_it_answers_and_may_be_repeated(objects: Objects):
    for key in ("m/one", "m/two", "n/three"):
        await objects.put(key, sent(b"bytes"), LIMIT)
    await objects.delete(["m/one", "m/never"])
    await objects.delete(["m/one"])
    await objects.clear("m")
    await objects.clear("m")
    for key in ("m/one", "m/two"):
        with pytest.raises(GroveError):
            await read(objects, key, 0, 5)
    assert await read(objects, "n/three", 0, 5) == b"bytes"


async def test_a_store_that_does_not_answer_is_unavailable_and_says_nothing_of_where_it_is():
    (port,) = free_ports(1)
    settings = ObjectSettings(
        object_store_url="s3://bytes",
        object_store_endpoint=f"http://127.0.0.1:{port}",
        object_store_region="us-east-1",
        object_store_access_key_id=SecretStr("id"),
        object_store_secret_access_key=SecretStr("secret"),
    )
    away = open_objects(settings, "kept")
    assert away is not None
    with pytest.raises(GroveError) as refused:
        await away.delete(["m/one"])
    assert (refused.value.code, refused.value.retryable) == ("grovekeeper_unavailable", True)
    assert str(port) not in refused.value.message


def test_no_store_and_no_home_keep_nothing_and_an_unknown_store_is_a_fault():
    assert open_objects(ObjectSettings(), "kept") is None
    with pytest.raises(SettingsError):
        open_objects(ObjectSettings(object_store_url="ftp://somewhere"), "kept")


async def test_a_store_is_tried_by_writing_and_nothing_is_left(objects: Objects):
    await objects.check()
    with pytest.raises(GroveError) as missing:
        await read(objects, "probe", 0, 1)
    assert missing.value.code == "file_not_found"


async def test_a_directory_that_cannot_be_written_is_a_fault_with_its_reason(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    settings = ObjectSettings(object_store_url=(tmp_path / "file" / "store").as_uri())
    with pytest.raises(SettingsError, match="cannot be written"):
        await tried_objects(settings, "kept")


async def test_a_bucket_that_does_not_answer_is_said_and_waited_for(
    s3: str, caplog: pytest.LogCaptureFixture
):
    settings = ObjectSettings(
        object_store_url="s3://nobody-made-this",
        object_store_endpoint=s3,
        object_store_region="us-east-1",
        object_store_access_key_id=SecretStr("id"),
        object_store_secret_access_key=SecretStr("secret"),
    )
    assert await tried_objects(settings, "kept") is not None
    assert "the object store cannot be written" in caplog.text
    assert "secret" not in caplog.text
