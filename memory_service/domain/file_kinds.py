"""What a file is called and what kind it is: of the bytes what they say, of the client what cannot do harm.

Kinds are told by their first bytes. Text is told by being UTF-8 without control characters; which kind of text it is
the bytes rarely say, so there, and only there, the name and the client are heard.
"""

import codecs
import re
import unicodedata
from typing import Final

__all__ = ["HEAD_BYTES", "MAX_NAME_BYTES", "UNKNOWN", "clean_name", "media_type_of"]

HEAD_BYTES: Final = 64 * 1024
"""How much of a file tells its kind."""
MAX_NAME_BYTES: Final = 255
UNKNOWN: Final = "application/octet-stream"

_NAMELESS: Final = "file"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_MAGIC: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "application/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyphei", "image/heic"),
    (4, b"ftypqt", "video/quicktime"),
    (4, b"ftyp", "video/mp4"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_ZIPPED: Final = (
    (b"word/", f"{_OFFICE}wordprocessingml.document"),
    (b"xl/", f"{_OFFICE}spreadsheetml.sheet"),
    (b"ppt/", f"{_OFFICE}presentationml.presentation"),
)
_ZIPPED_TYPE: Final = re.compile(rb"mimetype(application/[\w.+-]+)")
_TEXTS: Final = {
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "markdown": "text/markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "ndjson": "application/x-ndjson",
    "html": "text/html",
    "htm": "text/html",
    "xhtml": "text/html",
    "svg": "image/svg+xml",
    "xml": "application/xml",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "css": "text/css",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}
_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_HTML: Final = re.compile(rb"<(?:!doctype\s+html|html|head|body|script|iframe)\b", re.IGNORECASE)
_SVG: Final = re.compile(rb"<svg\b", re.IGNORECASE)
_LEADING: Final = b" \t\r\n\x0c\xef\xbb\xbf"
_SEPARATORS: Final = re.compile(r"[/\\]")
# Letters that turn the order of what follows around can make one ending look like another.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def clean_name(name: str) -> str:
    """A name without folders and without what cannot be seen, at most 255 bytes long; never empty."""
    last = _SEPARATORS.split(unicodedata.normalize("NFC", name))[-1]
    kept = "".join(char for char in last if unicodedata.category(char) not in _UNSEEN).strip()
    if kept.strip(". ") == "":
        return _NAMELESS
    stem, dot, ending = kept.rpartition(".")
    if not stem or len(ending.encode()) > 16:
        stem, dot, ending = kept, "", ""
    room = MAX_NAME_BYTES - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore") + dot + ending


def media_type_of(head: bytes, name: str, stated: str) -> str:
    """The media type of a file that begins with ``head`` (all of it, or :data:`HEAD_BYTES`)."""
    for offset, magic, kind in _MAGIC:
        if head.startswith(magic, offset):
            return kind
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], UNKNOWN)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(head)
    return _text(head, name, stated) if head and _is_text(head) else UNKNOWN


def _zipped(head: bytes) -> str:
    said = _ZIPPED_TYPE.search(head[:200])
    if said is not None:  # OpenDocument and EPUB say it first
        return said[1].decode("ascii")
    if b"[Content_Types].xml" in head or b"_rels/" in head:
        return next((kind for part, kind in _ZIPPED if part in head), "application/zip")
    return "application/zip"


def _is_text(head: bytes) -> bool:
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return True
    try:
        # The last character of the head may be cut in half.
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return False
    return _BINARY.search(head) is None


def _text(head: bytes, name: str, stated: str) -> str:
    begins = head.lstrip(_LEADING)[:1024]
    if begins.startswith(b"<"):
        if _SVG.search(begins):
            return "image/svg+xml"
        if _HTML.search(begins):
            return "text/html"
        if begins.startswith(b"<?xml"):
            return "application/xml"
    by_name = _TEXTS.get(name.rpartition(".")[2].lower())
    if by_name is not None:
        return by_name
    said = stated.partition(";")[0].strip().lower()
    return said if said in _TEXTS.values() else "text/plain"
