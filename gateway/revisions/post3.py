"""The chapter as it was patched: content is always a list of parts."""

from gateway.schemas.base import UNSET, Raw, UnsetType
from gateway.schemas.content import FilePart, Part, TextPart, WireContent, WirePart

__all__ = ["content", "part_of"]


def content(parts: list[Part]) -> tuple[WireContent, list[WirePart] | UnsetType]:
    """The parts, and nothing beside them."""
    return [part_of(one) for one in parts], UNSET


def part_of(part: Part) -> WirePart:
    """One part as it is read; an extension part exactly as it was written."""
    if part.raw:
        return Raw(part.raw)
    if part.file is not None:
        return FilePart(
            file=part.file,
            text=part.text or UNSET,
            text_source=part.text_source or UNSET,
            role=part.role or UNSET,
        )
    return TextPart(text=part.text, role=part.role or UNSET)
