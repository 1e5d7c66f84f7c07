"""The chapter as it was printed: content is a text or one file.

What that cannot say (several parts, a role, an extension part) is said in ``parts`` beside it, so that
nothing is lost.
"""

from typing import Final

from gateway.revisions.post3 import part_of
from gateway.schemas.base import UNSET, UnsetType
from gateway.schemas.content import FileContent, Part, WireContent, WirePart

__all__ = ["content"]

_BETWEEN: Final = "\n\n"


def content(parts: list[Part]) -> tuple[WireContent, list[WirePart] | UnsetType]:
    """One text or one file as the chapter prints it; anything else as its words, and the parts."""
    said_in_full = not parts or (len(parts) == 1 and _is_bare(parts[0]))
    rest = UNSET if said_in_full else [part_of(one) for one in parts]
    if len(parts) == 1 and parts[0].file is not None:
        return FileContent(file=parts[0].file), rest
    return _BETWEEN.join(one.text for one in parts if one.text), rest


def _is_bare(part: Part) -> bool:
    """Whether the short form says all of it."""
    if part.role or part.raw:
        return False
    return part.file is None or not (part.text or part.text_source)
