"""From a record to the text it is found by: what it says, when and by whom, and the single words of both.

Postgres stems the words and drops stop words; everything before that happens here, so that a record and a
question are cut the same way: accents and case fold away, scripts written without spaces become pairs of
characters, and a symbol such as an emoji becomes a word. English stems are of these words. Those of other
languages are of the words with their accents, which their rules look at, and of the bare words, for who
leaves the accents out.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Final, NamedTuple, cast

import msgspec

from provider_workers.domain.model import Part

__all__ = [
    "Word",
    "digest",
    "names",
    "prefix",
    "question",
    "record_words",
    "session",
    "speaker",
    "text_of",
    "written_words",
]

_MAX_WORDS_BYTES: Final = 700_000  # a tsvector holds 1 MiB
_MAX_WORD: Final = 500  # characters; Postgres drops words over 2 KB
_MAX_SPEAKER: Final = 200
_MAX_SESSION: Final = 200
ROLES: Final = frozenset({"user", "assistant", "system", "tool"})

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_BARE: Final = str.maketrans("ıøłđ", "iold")
"""Letters with a stroke or without a dot, which are not made of a letter and a mark."""
_SILENT: Final = frozenset({"Mn", "Mc", "Me", "Cf"})
_TOKEN: Final = re.compile(rf"([{_UNSPACED}]+)|([^\W_{_UNSPACED}]+)|(\S)")


def text_of(kind: str, parts: Sequence[Part], attributes: bytes) -> str:
    """What a record says. A link says in its attributes what it points to, and in its content what that is."""
    said = "\n\n".join(text for text in (_said(part) for part in parts) if text.strip())
    if kind == "link":
        pointed = [one for one in _object(attributes).values() if isinstance(one, str)]
        said = "\n".join([*pointed, said] if said else pointed)
    return said.replace("\0", "")


def speaker(parts: Sequence[Part], attributes: bytes) -> str:
    """Who says it: ``attributes.speaker``, else the one role its parts have, else nobody."""
    named = _object(attributes).get("speaker")
    if isinstance(named, str) and named.strip():
        return named.replace("\0", "").strip()[:_MAX_SPEAKER]
    roles = {part.role for part in parts}
    return roles.pop() if len(roles) == 1 else ""


def session(attributes: bytes) -> str:
    """The conversation an episode says it is of (``attributes.session``, ``attributes.session_id``), or ""."""
    stated = _object(attributes)
    named = stated.get("session") or stated.get("session_id")
    return named.replace("\0", "").strip()[:_MAX_SESSION] if isinstance(named, str) else ""


def names(text: str) -> frozenset[str]:
    """The words of a name or of a question, unstemmed, to look for the one in the other."""
    return frozenset(_words(_folded(text), singles=True))


def prefix(who: str, at: datetime | None) -> str:
    """What is indexed before the text: ``1 October 2026, Anna: ``. A bare role says nothing worth finding."""
    when = "" if at is None else f"{at.day} {_MONTHS[at.month - 1]} {at.year:04d}"
    said_by = "" if who in ROLES else who
    joined = ", ".join(one for one in (when, said_by) if one)
    return f"{joined}: " if joined else ""


def digest(who: str, text: str) -> bytes:
    """16 bytes that are the same when the same speaker says the same."""
    return hashlib.sha256(f"{who}\0{text}".encode()).digest()[:16]


def record_words(text: str) -> str:
    """The different words of a record, separated by spaces, for ``to_tsvector``."""
    return _joined(_words(_folded(text), singles=True))


def written_words(text: str) -> str:
    """The different words of a record for the rules of its language: with their accents, and bare. None where
    the words themselves leave no room for them.
    """
    room = _MAX_WORDS_BYTES - len(record_words(text).encode())
    joined = _joined(chain(_spaced(_cased(text)), _spaced(_bare(text))))
    return joined if len(joined.encode()) <= room else ""


class Word(NamedTuple):
    """A word of a question: folded, as it is written, and bare."""

    folded: str
    written: str
    bare: str


def question(text: str) -> list[Word]:
    """The different words of a question. One character of an unspaced script asks for that character, more
    ask for their pairs.
    """
    found = dict[str, Word]()
    for chunk in text.split():
        folded = list(_words(_folded(chunk), singles=False))
        written = list(_words(_cased(chunk), singles=False))
        if len(written) != len(folded):
            written = folded
        for one, other in zip(folded, written, strict=True):
            found.setdefault(one, Word(one, other, one.translate(_BARE)))
    return list(found.values())


def _joined(words: Iterable[str]) -> str:
    kept, size = dict[str, None](), 0
    for word in words:
        if word not in kept:
            kept[word] = None
            size += len(word.encode()) + 1
            if size > _MAX_WORDS_BYTES:
                break
    return " ".join(kept)


def _words(text: str, *, singles: bool) -> Iterator[str]:
    for unspaced, word, other in cast("list[tuple[str, str, str]]", _TOKEN.findall(text)):
        if word:
            yield word[:_MAX_WORD]
        elif unspaced:
            pairs = [unspaced[at : at + 2] for at in range(len(unspaced) - 1)]
            yield from pairs
            if singles or not pairs:
                yield from unspaced
        elif unicodedata.category(other) == "So":
            yield f"u{ord(other):x}"


def _spaced(text: str) -> Iterator[str]:
    for _, word, _ in cast("list[tuple[str, str, str]]", _TOKEN.findall(text)):
        if word:
            yield word[:_MAX_WORD]


def _cased(text: str) -> str:
    """Without case and compatibility forms, its letters with their accents."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFKC", text.casefold())
    return "".join(char for char in composed if not _is_silent(char))


def _bare(text: str) -> str:
    return _folded(text).translate(_BARE)


def _folded(text: str) -> str:
    """Without case, compatibility forms, marks, and what is not seen."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in apart if not unicodedata.combining(char) and not _is_silent(char))
    return unicodedata.normalize("NFC", bare)


def _is_silent(char: str) -> bool:
    """A mark, or a character without a width: of direction, of joining, a soft hyphen."""
    return char > "\x7f" and unicodedata.category(char) in _SILENT


def _said(part: Part) -> str:
    if part.text or not part.raw:
        return part.text
    said = _object(part.raw).get("text")
    return said if isinstance(said, str) else ""


def _object(raw: bytes) -> dict[str, object]:
    """The members of a JSON object; of anything else, none."""
    try:
        parsed = cast("object", msgspec.json.decode(raw or b"{}"))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}


_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
