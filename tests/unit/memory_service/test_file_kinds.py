"""What a file is called and what kind it is, whatever its sender says."""

import pytest

from memory_service.domain.file_kinds import HEAD_BYTES, MAX_NAME_BYTES, UNKNOWN, clean_name, media_type_of


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.pdf", "plan.pdf"),
        ("a/", "file"),
        ("", "file"),
        ("...", "file"),
        ("a\0b\r\nc.txt", "abc.txt"),
        ("exe\u202ecod.doc", "execod.doc"),
        ("\u200b\u2028", "file"),
        ("u\u0308ni \U0001f9ad.txt", "üni \U0001f9ad.txt"),
        ("  a.txt  ", "a.txt"),
        (".profile", ".profile"),
    ],
)
def test_a_name_has_no_folders_and_nothing_unseen(sent: str, name: str):
    assert clean_name(sent) == name


@pytest.mark.parametrize("letter", ["n", "ü", "\U0001f9ad"])
def test_a_long_name_is_cut_between_letters_and_keeps_its_ending(letter: str):
    name = clean_name(letter * 1000 + ".pdf")
    assert len(name.encode()) <= MAX_NAME_BYTES
    assert name == letter * ((MAX_NAME_BYTES - 4) // len(letter.encode())) + ".pdf"
    assert len(clean_name("a." + letter * 1000).encode()) <= MAX_NAME_BYTES


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"%PDF-1.7", "application/pdf"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0????", UNKNOWN),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"PK\x03\x04", "application/zip"),
        (b"", UNKNOWN),
        (b"\0words", UNKNOWN),
        (b"\xff\xfe\xfd", "text/plain"),
        (b"\xc3(", UNKNOWN),
    ],
)
@pytest.mark.parametrize("lie", ["text/html", "image/svg+xml", "application/pdf"])
def test_the_bytes_decide_and_what_is_said_of_them_does_not(head: bytes, kind: str, lie: str):
    found = media_type_of(head, "lie.bin", lie)
    # Of text alone the sender may say which kind it is.
    assert found == (lie if kind == "text/plain" and lie in ("text/html", "image/svg+xml") else kind)


@pytest.mark.parametrize(
    ("head", "name", "stated", "kind"),
    [
        (b"a,b", "a.csv", "text/plain", "text/csv"),
        (b"a,b", "a", "text/csv; charset=utf-8", "text/csv"),
        (b"a,b", "a", "image/png", "text/plain"),
        (b"a,b", "a.png", "image/png", "text/plain"),
        (b"<!DOCTYPE html>", "a.txt", "text/plain", "text/html"),
        (b"\xef\xbb\xbf \n<SCRIPT>", "a.txt", "text/plain", "text/html"),
        (b"<svg onload=x>", "a.txt", "text/plain", "image/svg+xml"),
        (b"<?xml version='1.0'?><a/>", "a.md", "text/plain", "application/xml"),
        ("é".encode() * HEAD_BYTES, "a.md", "", "text/markdown"),
        (b"x" + "é".encode() * HEAD_BYTES, "a.md", "", "text/markdown"),
    ],
)
def test_which_kind_of_text_it_is(head: bytes, name: str, stated: str, kind: str):
    assert media_type_of(head[:HEAD_BYTES], name, stated) == kind
