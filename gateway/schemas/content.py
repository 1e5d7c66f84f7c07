"""What a record's content is made of (Memories, sections 4 and 7).

Inside the system content is always a list of :class:`Part`. A writer may send the forms of either
revision of the chapter; :func:`parts_of` reads them all. What a reader gets is a revision's matter.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from gateway.schemas.base import UNSET, Answer, Ask, Raw, UnsetType
from service_kit.errors import GroveError

__all__ = [
    "Content",
    "File",
    "FileContent",
    "FilePart",
    "Part",
    "Role",
    "TextPart",
    "WireContent",
    "WirePart",
    "parts_of",
]

ROLES: Final = frozenset({"user", "assistant", "system", "tool"})
NUL: Final = "\x00"


class File(Answer, kw_only=True, frozen=True, omit_defaults=True):
    """A file that content names. ``name``, ``media_type``, ``bytes`` and ``version`` are the server's to say."""

    id: str
    name: str = ""
    media_type: str = ""
    bytes: int = 0
    version: str = ""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part inside the system. ``raw`` is the whole part, as it was sent, of an extension type."""

    type: str
    text: str = ""
    role: str = ""
    file: File | None = None
    text_source: str = ""
    raw: bytes = b""


Role: TypeAlias = Literal["user", "assistant", "system", "tool"]


class TextPart(Answer, kw_only=True, frozen=True, tag_field="type", tag="text"):
    """Words, and whose."""

    text: str
    role: str | UnsetType = UNSET


class FilePart(Answer, kw_only=True, frozen=True, tag_field="type", tag="file"):
    """A file, and the words that describe it."""

    file: File
    text: str | UnsetType = UNSET
    text_source: str | UnsetType = UNSET
    role: str | UnsetType = UNSET


class FileContent(Answer, kw_only=True, frozen=True):
    """Content that is one file, as the chapter prints it."""

    file: File


WirePart: TypeAlias = TextPart | FilePart | Raw
"""A part as it is read; an extension part is carried unchanged."""

WireContent: TypeAlias = str | FileContent | list[WirePart]
"""Content as it is read under one revision or the other."""

Content: TypeAlias = Raw
"""Content as it is written: a string, ``{"file": {"id": …}}`` or a list of parts."""


class _FileAsked(Ask, kw_only=True, frozen=True):
    id: str | None = None
    name: str | None = None
    media_type: str | None = None


class _FileForm(Ask, kw_only=True, frozen=True):
    file: _FileAsked


class _PartAsked(Ask, kw_only=True, frozen=True):
    type: str
    text: str | None = None
    role: str | None = None
    file: _FileAsked | None = None
    text_source: str | None = None


class _Typed(Ask, kw_only=True, frozen=True):
    type: str


_FORMS: Final = msgspec.json.Decoder(str | _FileForm | list[Raw])
_PART: Final = msgspec.json.Decoder(_PartAsked)
_TYPED: Final = msgspec.json.Decoder(_Typed)


def parts_of(content: Raw, param: str = "content") -> list[Part]:
    """The parts in what was written. Raises ``memory_invalid`` for anything that is no form of content."""
    try:
        form = _FORMS.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        raise _refused("Content is a text, a file or a list of parts.", param) from None
    if isinstance(form, str):
        return [_text(form, "", param)]
    if isinstance(form, _FileForm):
        return [_file(form.file, _PartAsked(type="file"), f"{param}.file")]
    if not form:
        raise _refused("Content has at least one part.", param)
    return [_part(raw, f"{param}.{index}") for index, raw in enumerate(form)]


def _part(raw: Raw, param: str) -> Part:
    try:
        kind = _TYPED.decode(raw).type
        if kind.startswith("x.") and len(kind) > len("x."):
            return Part(type=_kept(kind, f"{param}.type"), raw=bytes(raw))
        part = _PART.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        raise _refused("A part is an object whose type, text and role are strings.", param) from None
    if part.role is not None and part.role not in ROLES:
        raise _refused("A role is user, assistant, system or tool.", f"{param}.role")
    if part.type == "text":
        return _text(part.text or "", part.role or "", f"{param}.text")
    if part.type == "file":
        return _file(part.file, part, f"{param}.file")
    raise _refused("A part's type is text, file, or an extension that starts with x.", f"{param}.type")


def _text(text: str, role: str, param: str) -> Part:
    if not text:
        raise _refused("A text has at least one character.", param)
    return Part(type="text", text=_kept(text, param), role=role)


def _file(file: _FileAsked | None, part: _PartAsked, param: str) -> Part:
    if file is None or not file.id:
        raise _refused("A file is named by its id.", f"{param}.id")
    named = File(
        id=_kept(file.id, param), name=_kept(file.name, param), media_type=_kept(file.media_type, param)
    )
    return Part(
        type="file",
        file=named,
        text=_kept(part.text, param),
        role=part.role or "",
        text_source=_kept(part.text_source, param),
    )


def _kept(text: str | None, param: str) -> str:
    if text is not None and NUL in text:
        raise _refused("A text cannot contain the NUL character.", param)
    return text or ""


def _refused(message: str, param: str) -> GroveError:
    return GroveError("memory_invalid", message, param=param)
