"""What holds for every record of every provider, checked before an adapter sees it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from provider_workers.domain import errors, limits
from provider_workers.domain.filters import check as check_filter
from provider_workers.domain.model import Capabilities, Changes, Draft, Part, Question, Reference, Selection

CORE_TYPES: Final = frozenset({"episode", "fact", "note", "procedure", "link"})
EXTENSION: Final = "x."
ROLES: Final = frozenset({"", "user", "assistant", "system", "tool"})
_ADDRESSES: Final = ("url", "address")
_BOUNDS: Final = frozenset({"valid_from", "valid_to"})


def draft(stated: Draft, capabilities: Capabilities) -> None:
    """One record as stated: ``invalid_input``, ``memory_invalid``, ``memory_unsupported``, too large."""
    record_type(stated.type)
    _content(stated.content, capabilities, may_be_empty=stated.type == "link" or _extends(stated.type))
    attributes(stated.attributes)
    _link(stated)
    _references(stated.references)
    _interval(stated.valid_from, stated.valid_to)


def episodes(stated: Sequence[Draft], capabilities: Capabilities) -> None:
    """The episodes of one observe."""
    if not 1 <= len(stated) <= limits.MAX_EPISODES:
        raise errors.invalid(f"An observe takes 1 to {limits.MAX_EPISODES} episodes.", "episodes")
    for one in stated:
        draft(one, capabilities)
    size = sum(content_bytes(one.content) + len(one.attributes) for one in stated)
    if size > limits.MAX_OBSERVE_BYTES:
        raise errors.too_large(
            f"The episodes of one observe have at most {limits.MAX_OBSERVE_BYTES} bytes together.", "episodes"
        )


def changes(stated: Changes, capabilities: Capabilities) -> None:
    """What a revision changes; one that changes nothing is refused."""
    if stated == Changes():
        raise errors.invalid("The revision changes nothing.", "changes")
    if stated.content is not None:
        _content(stated.content, capabilities, may_be_empty=True)
    if stated.attributes is not None:
        attributes(stated.attributes)
    if stated.references is not None:
        _references(stated.references)
    if not stated.clear <= _BOUNDS:
        raise errors.invalid("Only valid_from and valid_to can be cleared.", "clear")


def revised(merged: Draft) -> None:
    """A record as a revision leaves it."""
    if not merged.content and not (merged.type == "link" or _extends(merged.type)):
        raise errors.invalid_content("A record needs content.")
    _link(merged)
    _interval(merged.valid_from, merged.valid_to)


def selection(asked: Selection) -> None:
    """Which records a read covers."""
    if len(asked.types) > limits.MAX_FILTER_TYPES:
        raise errors.invalid(f"At most {limits.MAX_FILTER_TYPES} types are asked for at once.", "types")
    for one in asked.types:
        if not one or len(one) > limits.MAX_TYPE or "\0" in one:
            raise errors.invalid(f"There is no record type {one[: limits.MAX_TYPE]!r}.", "types")
    if asked.filter is not None:
        check_filter(asked.filter)


def question(asked: Question) -> None:
    """What a recall asks."""
    if not (asked.query or asked.text or asked.selection.filter is not None):
        raise errors.invalid_content("A recall needs at least one of query, text and filters.", "query")
    for name, words in (("query", asked.query), ("text", asked.text)):
        if len(words) > limits.MAX_QUESTION:
            raise errors.too_large(f"The {name} has at most {limits.MAX_QUESTION} characters.", name)
    if not 1 <= asked.limit <= limits.MAX_HITS:
        raise errors.invalid(f"The limit is 1 to {limits.MAX_HITS}.", "limit")
    selection(asked.selection)


def many(items: Sequence[object], maximum: int, param: str, *, least: int = 0) -> None:
    """``invalid_input`` unless there are ``least`` to ``maximum`` of them."""
    if not least <= len(items) <= maximum:
        raise errors.invalid(f"There can be {least} to {maximum} {param.replace('_', ' ')}.", param)


def identifier(value: str, param: str) -> None:
    """Something that can be looked up."""
    if not _is_id(value):
        raise errors.invalid(f"The {param.replace('_', ' ')} is no id.", param)


def record(value: str, param: str) -> None:
    """A record that there may be: what is no id is no record either (``memory_record_not_found``)."""
    if not _is_id(value):
        raise errors.record_not_found(param)


def _is_id(value: str) -> bool:
    return 0 < len(value) <= limits.MAX_ID and "\0" not in value


def record_type(name: str) -> None:
    """A core type or an extension's."""
    if name not in CORE_TYPES and not _extends(name):
        raise errors.invalid(
            f"A record's type is one of {', '.join(sorted(CORE_TYPES))}, or starts with x. followed by a name.",
            "type",
        )


def content_bytes(parts: Iterable[Part]) -> int:
    """How much a content weighs against the limit."""
    return sum(len(part.text.encode()) + len(part.raw) for part in parts)


def _extends(name: str) -> bool:
    return len(EXTENSION) < len(name) <= limits.MAX_TYPE and name.startswith(EXTENSION) and "\0" not in name


def _content(parts: Sequence[Part], capabilities: Capabilities, *, may_be_empty: bool) -> None:
    if not parts and not may_be_empty:
        raise errors.invalid_content("A record needs content.")
    if len(parts) > limits.MAX_PARTS:
        raise errors.too_large(f"A record has at most {limits.MAX_PARTS} parts.", "content")
    for part in parts:
        _part(part, capabilities)
    if content_bytes(parts) > limits.MAX_CONTENT_BYTES:
        raise errors.too_large(f"A record's content has at most {limits.MAX_CONTENT_BYTES} bytes.", "content")


def _part(part: Part, capabilities: Capabilities) -> None:
    if part.role not in ROLES:
        raise errors.invalid_content("A part's role is user, assistant, system or tool.")
    match part.type:
        case "text":
            if not part.text:
                raise errors.invalid_content("A text part needs text.")
        case "file":
            if not capabilities.files:
                raise errors.unsupported("files")
            if part.file is None or not part.file.id:
                raise errors.invalid_content("A file part needs to name a file.")
        case _:
            if not _extends(part.type):
                raise errors.invalid_content("A part is text, file, or a type that starts with x.")


def attributes(raw: bytes) -> None:
    """A record's attributes: a JSON object within bounds."""
    if len(raw) > limits.MAX_ATTRIBUTES_BYTES:
        raise errors.too_large(
            f"A record's attributes have at most {limits.MAX_ATTRIBUTES_BYTES} bytes.", "attributes"
        )
    if not raw:
        return
    try:
        raw.decode()
        msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        raise errors.invalid("The attributes are not a JSON object.", "attributes") from None


def _link(stated: Draft) -> None:
    """A link is an address, in its attributes, and a description (section 4.1); it has no bytes of its own."""
    if stated.type != "link":
        return
    held = msgspec.json.decode(stated.attributes or b"{}", type=dict[str, msgspec.Raw])
    if not any(bytes(held.get(name, b"")).strip()[:1] == b'"' and len(held[name]) > 2 for name in _ADDRESSES):
        raise errors.invalid_content(
            "A link says what it points to: attributes.url or attributes.address is a text.", "attributes"
        )
    if any(part.type == "file" for part in stated.content):
        raise errors.invalid_content("A link has no content but the words that describe it.")


def _references(references: Sequence[Reference]) -> None:
    if len(references) > limits.MAX_REFERENCES:
        raise errors.invalid(f"A record has at most {limits.MAX_REFERENCES} references.", "references")
    for one in references:
        identifier(one.memory_id, "references.memory_id")
        identifier(one.record_id, "references.record_id")
        if len(one.rel) > limits.MAX_REL or "\0" in one.rel:
            raise errors.invalid(f"A relation has at most {limits.MAX_REL} characters.", "references.rel")


def _interval(start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and end < start:
        raise errors.invalid("The record stops being true before it starts.", "valid_to")
