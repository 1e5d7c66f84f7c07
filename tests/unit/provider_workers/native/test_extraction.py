"""Words of files that mean harm: in time, in bounds, nothing left running, and never an error."""

import asyncio
import io
import resource
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from provider_workers.adapters.native.extraction import HAVE_WORDS, MAX_WORDS_BYTES, Extraction
from tests.architecture.source import ROOT
from tests.fixtures.documents import docx_of, pdf_of

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PDF, HTML, CSV, TEXT = "application/pdf", "text/html", "text/csv", "text/plain"
TIMEOUT_S = 2.0
AT_ALL_S = 30.0
"""Far beyond the bound: what other tests of a busy machine may add."""
MOST = 8 * 1024 * 1024
CHILD_BYTES = 800 * 1024 * 1024


async def chunked(content: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(content), 1 << 20):
        yield content[start : start + (1 << 20)]


async def words(media_type: str, content: bytes, timeout_s: float = TIMEOUT_S) -> str:
    extraction = Extraction(max_bytes=MOST, timeout_s=timeout_s)
    return await extraction.words("person:a", media_type, len(content), chunked(content))


def children() -> list[str]:
    """The command lines of the extracting processes that this one started."""
    found = list[str]()
    for task in Path("/proc/self/task").iterdir():
        try:
            started = (task / "children").read_text().split()
        except OSError:  # a thread that has ended since
            continue
        for pid in started:
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
            except OSError:
                continue
            if "extract_child" in line:
                found.append(line)
    return found


def docx_with(body: bytes) -> bytes:
    """A Word document whose text is this XML."""
    made, held = io.BytesIO(docx_of("It is replaced.")), io.BytesIO()
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as new:
        for one in old.namelist():
            new.writestr(one, body if one == "word/document.xml" else old.read(one))
    return held.getvalue()


def zip_bomb() -> bytes:
    """200 MB of one paragraph in 200 KB."""
    return docx_with(_document(b"<w:p><w:r><w:t>" + b"a" * 200_000_000 + b"</w:t></w:r></w:p>"))


def lying_zip_bomb() -> bytes:
    """One that says in its directory that it is small."""
    made = bytearray(docx_with(_document(b"<w:p><w:r><w:t>" + b"a" * 100_000_000 + b"</w:t></w:r></w:p>")))
    at = made.find(b"PK\x01\x02")
    while at >= 0:
        made[at + 24 : at + 28] = (100).to_bytes(4, "little")
        at = made.find(b"PK\x01\x02", at + 4)
    return bytes(made)


def _document(paragraphs: bytes, before: bytes = b"") -> bytes:
    space = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return (
        b'<?xml version="1.0"?>%b<w:document xmlns:w="%b"><w:body>' % (before, space)
        + paragraphs
        + b"</w:body></w:document>"
    )


def billion_laughs() -> bytes:
    entities = b'<!ENTITY a0 "laugh">' + b"".join(
        b'<!ENTITY a%d "%b">' % (number, b"&a%d;" % (number - 1) * 10) for number in range(1, 11)
    )
    said = b"<w:p><w:r><w:t>&a10;</w:t></w:r></w:p>"
    return docx_with(_document(said, b"<!DOCTYPE w [" + entities + b"]>"))


def someone_elses_file() -> bytes:
    said = b"<w:p><w:r><w:t>&a;</w:t></w:r></w:p>"
    return docx_with(_document(said, b'<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]>'))


def looping_pdf() -> bytes:
    """A tree of pages that is its own child, and a page that is its own parent."""
    return pdf_of("round").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]")


def looping_tables_pdf() -> bytes:
    """A table of objects that comes before itself."""
    made = pdf_of("round")
    at = int(made.rsplit(b"startxref\n", 1)[1].split(b"\n")[0])
    return made.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % at)


def encrypted_pdf() -> bytes:
    writer, held = PdfWriter(), io.BytesIO()
    for page in PdfReader(io.BytesIO(pdf_of("secret"))).pages:
        writer.add_page(page)
    writer.encrypt("nobody knows", algorithm="RC4-128")
    writer.write(held)
    return held.getvalue()


def pdf_bomb() -> bytes:
    """A page whose drawing is 500 MB, packed twice."""
    packed = zlib.compress(zlib.compress(b"(a) Tj " * 70_000_000, 1), 9)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%b\nendstream" % (
        len(packed),
        packed,
    )
    made = pdf_of("bomb")
    start = made.index(b"4 0 obj\n") + len(b"4 0 obj\n")
    return made[:start] + stream + made[made.index(b"\nendobj", start) :]


ATTACKS: list[tuple[str, Callable[[], bytes]]] = [
    (WORD, zip_bomb),
    (WORD, lying_zip_bomb),
    (WORD, billion_laughs),
    (WORD, lambda: docx_of("cut short")[:500]),
    (WORD, lambda: pdf_of("a pdf that is called docx")),
    (WORD, lambda: b"PK\x03\x04" + b"\0" * 1000),
    (PDF, looping_pdf),
    (PDF, encrypted_pdf),
    (PDF, lambda: pdf_of("cut short")[:200]),
    (PDF, lambda: docx_of("a docx that is called pdf")),
    (PDF, lambda: b"%PDF-1.7\n" + b"1 0 obj << /A " * 100_000),
    (PDF, pdf_bomb),
    (PDF, lambda: b""),
    ("image/png", lambda: b"\x89PNG\r\n\x1a\n and words"),
]


@pytest.mark.parametrize(("media_type", "made"), ATTACKS)
async def test_what_means_harm_has_no_words_in_time_and_leaves_nothing_running(
    media_type: str, made: Callable[[], bytes]
):
    content = made()
    assert len(content) <= MOST
    started = time.monotonic()
    assert await words(media_type, content) == ""
    assert time.monotonic() - started < AT_ALL_S
    assert children() == []


@pytest.mark.slow
def test_what_means_harm_takes_no_more_memory_than_is_its_own():
    # A child counts the size of whoever starts it, until it runs something else: what starts these is small.
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.unit.provider_workers.native import test_extraction as t; t.main()",
        ],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
        check=True,
    )
    most = int(ran.stdout)
    assert 1024 * 1024 < most < CHILD_BYTES


def main() -> None:
    """Read everything that means harm, and print how many bytes the largest child had."""
    for media_type, made in ATTACKS:
        asyncio.run(words(media_type, made()))
    sys.stdout.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))


async def test_a_document_cannot_name_files_of_the_machine():
    assert "root:" not in await words(WORD, someone_elses_file(), 20.0)


async def test_a_table_of_objects_that_names_itself_ends():
    started = time.monotonic()
    await words(PDF, looping_tables_pdf())
    assert time.monotonic() - started < AT_ALL_S
    assert children() == []


@pytest.mark.parametrize("tag", [b"<div>", b"<b>", b"<table><tr><td>", b"<svg>", b"<template>"])
async def test_html_of_any_depth_ends_and_keeps_within_its_bounds(tag: bytes):
    started = time.monotonic()
    said = await words(HTML, (tag * MOST)[: MOST - 10] + b"deep")
    assert time.monotonic() - started < AT_ALL_S
    assert len(said.encode()) <= MAX_WORDS_BYTES
    assert children() == []


@pytest.mark.parametrize(
    ("media_type", "content", "said"),
    [
        (CSV, b"a," * 5_000_000, ("a," * 5_000_000)[:MAX_WORDS_BYTES]),
        (TEXT, b"one\0two", "one\0two"),
        (TEXT, b"\xff\xfe\xfdwords \xc3", None),
        (TEXT, b"caf\xc3\xa9 \xe9 words", "café  words"),
        (TEXT, "é".encode() * MAX_WORDS_BYTES, "é" * (MAX_WORDS_BYTES // 2)),
        (TEXT, "\ufeffwords".encode("utf-16-le"), "words"),
        (TEXT, b"", ""),
    ],
    ids=["huge line", "nul", "no utf-16", "no utf-8", "cut between letters", "utf-16", "empty"],
)
async def test_text_is_taken_as_it_stands_up_to_its_bound(media_type: str, content: bytes, said: str | None):
    found = await words(media_type, content)
    assert len(found.encode()) <= MAX_WORDS_BYTES
    assert said is None or found == said


async def test_what_is_larger_than_is_looked_into_is_not_read():
    async def never() -> AsyncGenerator[bytes]:
        raise AssertionError("it was read")
        yield b""

    extraction = Extraction(max_bytes=10, timeout_s=TIMEOUT_S)
    assert await extraction.words("person:a", PDF, 11, never()) == ""


async def test_files_of_one_caller_that_take_long_keep_nobody_else_waiting():
    extraction, bomb = Extraction(max_bytes=MOST, timeout_s=AT_ALL_S), pdf_bomb()
    slow = [
        asyncio.create_task(extraction.words("person:a", PDF, len(bomb), chunked(bomb))) for _ in range(4)
    ]
    async with asyncio.timeout(AT_ALL_S):
        while not children():
            assert not slow[0].done()
            await asyncio.sleep(0.01)
    assert await extraction.words("person:b", HTML, 8, chunked(b"<p>stork")) == "stork"
    assert not any(one.done() for one in slow)
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_write_that_is_given_up_leaves_no_process():
    task = asyncio.create_task(words(PDF, pdf_bomb(), 20.0))
    async with asyncio.timeout(AT_ALL_S):
        while not children():
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert children() == []


@pytest.mark.parametrize(
    ("media_type", "content"),
    [(HTML, b"<p>stork"), (PDF, pdf_of("stork")), (WORD, docx_of("stork")), (CSV, b"stork,1")],
)
async def test_what_means_no_harm_has_its_words(media_type: str, content: bytes):
    assert media_type in HAVE_WORDS
    assert "stork" in await words(media_type, content, 30.0)
