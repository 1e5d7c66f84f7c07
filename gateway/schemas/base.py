"""What every schema stands on: strict types, unknown fields ignored, free-form JSON kept byte for byte."""

from datetime import datetime
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

__all__ = [
    "UNSET",
    "Answer",
    "Ask",
    "Count",
    "Instant",
    "Raw",
    "Text",
    "UnsetType",
    "Whole",
]


class Ask(Struct, kw_only=True, frozen=True):
    """A request body or a query. A field that is not declared is ignored (UHP, every request)."""


class Answer(Struct, kw_only=True, frozen=True):
    """A response body. A field that is ``UNSET`` is left out: absent is not null and not empty."""


Text: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A string that says something."""

Whole: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""A number that fits the contracts between the services."""

Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""RFC 3339 with an offset."""


class Count(Answer, kw_only=True, frozen=True):
    """How many the caller may see."""

    count: int
