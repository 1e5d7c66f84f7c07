"""An upload's body read as it comes: any cut of it into chunks is the same, and what is no upload is refused."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from gateway.multipart import MAX_REST_BYTES, Upload, begun, boundary_of, upload
from service_kit.errors import GroveError

B = b"a boundary"
LIMIT = 1000


def part(name: str, content: bytes = b"x", *more: bytes, filename: bytes | None = None) -> bytes:
    """One part of a form; ``more`` are further header lines."""
    said = b"" if filename is None else b'; filename="' + filename + b'"'
    head = b'Content-Disposition: form-data; name="' + name.encode() + b'"' + said
    return b"--" + B + b"\r\n" + b"\r\n".join([head, *more]) + b"\r\n\r\n" + content + b"\r\n"


def file(content: bytes = b"x", filename: bytes = b"a.txt", *more: bytes) -> bytes:
    return part("file", content, *more, filename=filename)


END = b"--" + B + b"--\r\n"


async def read(body: bytes, step: int = 0, limit: int = LIMIT, boundary: bytes = B) -> tuple[Upload, bytes]:
    """What an upload is, and its bytes, sent ``step`` bytes at a time (0: all at once)."""

    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(body), step or len(body) or 1):
            yield body[start : start + (step or len(body))]

    parts = upload(chunks(), boundary, limit)
    first, content, last = replace(await begun(parts)), b"", None
    async for one in parts:
        if isinstance(one, bytes):
            content += one
        else:
            last = one
    assert last is not None
    assert (last.name, last.media_type) == (first.name, first.media_type)
    return last, content


async def refusal(body: bytes, step: int = 0, limit: int = LIMIT) -> GroveError:
    with pytest.raises(GroveError) as raised:
        await read(body, step, limit)
    return raised.value


@pytest.mark.parametrize("step", [0, 1, 2, 3, 7, 64])
@pytest.mark.parametrize(
    "content",
    [
        b"plain",
        b"",
        b"\r\n",
        b"\r\n--",
        b"--" + B,
        b"\r\n--" + B[:-1],
        b"\r\n--" + B[:-1] + b"\r\n--" + B[:-1],
        b"\r\r\n\r\n--a bound\r\n--a boundar",
        b"\r\n-" + B + b"--\r\n",
        bytes(range(256)),
    ],
)
async def test_bytes_that_look_like_the_boundary_are_bytes(content: bytes, step: int):
    found, seen = await read(file(content) + part("purpose", b"user_data") + END, step)
    assert (found, seen) == (Upload("a.txt", "", "user_data"), content)


@pytest.mark.parametrize("step", [0, 1, 50])
async def test_fields_come_in_any_order_and_others_are_passed_over(step: int):
    parts = [
        file(b"bytes", b"a.txt", b"Content-Type: text/csv"),
        part("purpose", b"why"),
        part("other", b"y"),
    ]
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (2, 0, 1)):
        found, seen = await read(b"".join(parts[one] for one in order) + END, step)
        assert (found, seen) == (Upload("a.txt", "text/csv", "why"), b"bytes")


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(
    "body",
    [
        END,
        b"",
        b"--" + B,
        b"nothing of the kind",
        part("purpose") + END,
        file() + file() + END,
        part("purpose", b"a") + part("purpose", b"b") + file() + END,
        part("file") + END,  # no filename
        b"--" + B + b"\r\nContent-Type: text/plain\r\n\r\nx\r\n" + END,
        b"--" + B + b'\r\nContent-Disposition: attachment; name="file"; filename="a"\r\n\r\nx\r\n' + END,
        b"--" + B + b'\r\nContent-Disposition: form-data; filename="a"\r\n\r\nx\r\n' + END,
        file().removesuffix(b"\r\n"),
        file(),
        file() + b"--" + B,
        file() + b"--" + B + b"-",
        file() + END.replace(B, b"b boundary"),
        b"--" + B + b"\r\n: no name\r\n\r\nx\r\n" + END,
        b"--" + B + b"\r\nName with spaces: x\r\n\r\nx\r\n" + END,
        part("purpose", b"x" * 1025) + file() + END,
    ],
)
async def test_what_is_no_upload_is_refused(body: bytes, step: int):
    assert (await refusal(body, step)).code == "invalid_input"


@pytest.mark.parametrize("step", [0, 1, 999])
async def test_exactly_the_limit_passes_and_one_byte_more_does_not(step: int):
    _, seen = await read(file(b"x" * LIMIT) + END, step)
    assert len(seen) == LIMIT
    error = await refusal(file(b"x" * (LIMIT + 1)) + END, step)
    assert (error.code, error.rule.http, error.detail) == ("file_too_large", 413, {"max_bytes": LIMIT})


async def test_a_file_past_the_limit_is_refused_before_the_rest_was_read():
    read_so_far = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal read_so_far
        yield file(b"")[:-2]
        while True:
            read_so_far += 100
            yield b"x" * 100

    with pytest.raises(GroveError):
        async for _ in upload(endless(), B, LIMIT):
            pass
    assert read_so_far <= LIMIT + 100


@pytest.mark.parametrize("step", [1000, 0])
@pytest.mark.parametrize(
    "body",
    [
        part("other", b"x" * (MAX_REST_BYTES + 1)) + file() + END,
        b"--" + B + b"\r\nX-Long: " + b"x" * (MAX_REST_BYTES + 1),
        b"--" + B + b"\r\n" + b"X: y\r\n" * 20_000,
        file(b"x", b"n" * (MAX_REST_BYTES + 1)) + END,
        part("other") * 2000 + file() + END,
        b"x" * (MAX_REST_BYTES + 1),
        file() + END + b"x" * (MAX_REST_BYTES + 1),
    ],
    ids=["field", "header", "headers", "name", "parts", "preamble", "epilogue"],
)
async def test_all_that_is_not_the_file_has_little_room(body: bytes, step: int):
    assert (await refusal(body, step)).code == "invalid_input"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"../../etc/passwd", "../../etc/passwd"),
        (b"a\0b", "a\0b"),
        ("ünï 🦭.txt".encode(), "ünï 🦭.txt"),
        (b"\xe9t\xe9.txt", "été.txt"),
        (b"n" * 1000, "n" * 1000),
        (b"", ""),
        (b'quo\\"ted', 'quo"ted'),
    ],
)
async def test_a_name_is_taken_as_sent_for_its_owner_to_clean(sent: bytes, name: str):
    found, _ = await read(file(b"x", sent) + END)
    assert found.name == name


async def test_a_name_with_a_line_break_is_no_header_of_its_own():
    body = file(b"x", b'a"\r\nContent-Type: text/html\r\nX: "b')
    found, seen = await read(body + END)
    assert seen == b"x"
    assert "\n" not in found.name


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "x" * 71,
        "multipart/mixed; boundary=b",
        "application/x-www-form-urlencoded; boundary=b",
    ],
)
def test_a_type_without_a_boundary_is_refused(kind: str):
    with pytest.raises(GroveError) as raised:
        boundary_of(kind)
    assert raised.value.code == "invalid_input"


@pytest.mark.parametrize(
    ("kind", "boundary"),
    [
        ("multipart/form-data; boundary=b", b"b"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
        ("multipart/form-data; boundary=" + "x" * 70, b"x" * 70),
    ],
)
def test_a_boundary_is_found(kind: str, boundary: bytes):
    assert boundary_of(kind) == boundary
