"""Who a sentence speaks of, and what of it is turned into a vector. English.

"I moved to Oslo", said by Anna, is found better by its meaning as "Anna moved to Oslo". That is for the vector
alone: what is kept, answered and found by words is what was said.
"""

# ruff: noqa: RUF001 - the typographic apostrophe is meant

import re
from typing import Final

from provider_workers.adapters.native.languages import ENGLISH
from provider_workers.adapters.native.words import ROLES
from service_kit.db.tx import Row

__all__ = ["COLUMNS", "embedded", "first_person", "meant"]

COLUMNS: Final = (
    "v.prefix, v.text, v.type, v.language, case when jsonb_typeof(v.attributes_json -> 'speaker') = 'string'"
    " then left(btrim(v.attributes_json ->> 'speaker', E' \\t\\n\\r'), 200) end as speaker"
)
"""What :func:`embedded` reads, of a ``version v``."""

_LONG: Final = 2_000  # characters
_SELF: Final = r"\bI\b(?!\.)"
_OWN: Final = r"\b(?i:my|mine)\b"
_OBJECT: Final = r"\b(?i:me|myself)\b"
_FIRST_PERSON: Final = re.compile(rf"{_SELF}|{_OWN}|{_OBJECT}|\b(?:[Ww]e|[Oo]urs?|[Oo]urselves|us)\b")
_IN_THIRD: Final = (
    (rf"{_SELF}['’]m\b", " is"),
    (rf"{_SELF}['’]ve\b", " has"),
    (rf"{_SELF}['’]ll\b", " will"),
    (rf"{_SELF}['’]d\b", " would"),
    (rf"{_SELF}|{_OBJECT}", ""),
    (_OWN, "'s"),
)
"""What stands for the speaker, and what is said after their name instead."""
# All at once: a name may itself be "Me" or "My", or hold hundreds of them.
_SPEAKER: Final = re.compile("|".join(f"({pattern})" for pattern, _ in _IN_THIRD))
_MOST: Final = 20
"""So often a name is put in; a longer text would say nothing more."""


def first_person(sentence: str) -> bool:
    """Whether a sentence is about who says it: ``I``, ``my``, ``we``."""
    return _FIRST_PERSON.search(sentence) is not None


def meant(kind: str, text: str, speaker: str) -> str:
    """An English text with its speaker named in it, when it is a short fact: ``I`` alone tells a vector nothing."""
    if kind != "fact" or not speaker or speaker in ROLES or len(text) > _LONG:
        return text
    return _SPEAKER.sub(lambda found: speaker + _IN_THIRD[(found.lastindex or 1) - 1][1], text, count=_MOST)


def embedded(row: Row) -> str:
    """What is turned into the vector of a version."""
    english = row["language"] == ENGLISH
    return row["prefix"] + (meant(row["type"], row["text"], row["speaker"] or "") if english else row["text"])
