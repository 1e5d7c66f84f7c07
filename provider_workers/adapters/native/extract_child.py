"""``python -I extract_child.py MEDIA_TYPE MAX_BYTES SECONDS``: a file on stdin, its words on stdout.

Run by :mod:`extraction`, once for each file, with an empty environment. Once it has what it needs it gives up the
right to open anything more (no file, no socket), to more memory and to more time, and only then looks at the file.
Everything that goes wrong ends it with another code than 0 and no words.
"""

import contextlib
import importlib
import io
import pkgutil
import resource
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["READERS", "main"]

_MEMORY: Final = 768 * 1024 * 1024
_UNPACKED: Final = 64 * 1024 * 1024
"""Most a document's archive may hold unpacked."""
_PAGES: Final = 500
_DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

Pieces = Iterator[str]


def _html(content: bytes) -> Pieces:
    parser: Any = importlib.import_module("selectolax.lexbor").LexborHTMLParser(content)
    for tag in ("script", "style", "noscript", "template", "svg"):
        for node in parser.css(tag):
            node.decompose()
    title = parser.css_first("title")
    if title is not None:
        yield title.text()
    if parser.body is not None:
        yield parser.body.text(separator=" ")


def _pdf(content: bytes) -> Pieces:
    reader: Any = importlib.import_module("pypdf").PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        return
    for number, page in enumerate(reader.pages):
        if number == _PAGES:
            return
        yield page.extract_text()


def _docx(content: bytes) -> Pieces:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(one.file_size for one in archive.infolist()) > _UNPACKED:
            return
    document: Any = importlib.import_module("docx").Document(io.BytesIO(content))
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            for row in block.rows:
                yield "\t".join(cell.text for cell in row.cells)
        else:
            yield block.text


READERS: Final[dict[str, tuple[tuple[str, ...], Callable[[bytes], Pieces]]]] = {
    "text/html": (("selectolax",), _html),
    "application/pdf": (("pypdf",), _pdf),
    _DOCX: (("docx",), _docx),
}
"""What can be read: the packages it takes, and how."""


def main(media_type: str, most: int, seconds: int) -> int:
    """Read stdin, write the words; answers the exit code."""
    packages, read = READERS[media_type]
    # A document names how its letters are encoded.
    for name in (*packages, "encodings"):
        _import_whole(name)
    content = sys.stdin.buffer.read()
    _give_up(seconds)
    said, size = list[str](), 0
    for piece in read(content):
        # One line after the other, without what was only there for the eye.
        lines = (" ".join(line.split()) for line in piece.splitlines())
        text = "\n".join(line for line in lines if line).encode("utf-8", "ignore").decode()
        said.append(text)
        size += len(text.encode()) + 1
        if size > most:
            break
    words = "\n".join(one for one in said if one).encode()[:most]
    sys.stdout.buffer.write(words)
    sys.stdout.buffer.flush()
    return 0


def _import_whole(package: str) -> None:
    """A package with everything it would import once it needs it, when nothing can be opened any more."""
    path: Any = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, f"{package}.", onerror=lambda _: None):
        if not module.name.endswith(("__main__", "mbcs", "oem", "_path")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _give_up(seconds: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, _MEMORY),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
