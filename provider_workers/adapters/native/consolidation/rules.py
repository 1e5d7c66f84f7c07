"""Whether two sentences of one subject say the same, or give one thing two values. No model, and no guess.

A merge that loses something is worse than two sentences that say the same. So similar vectors only find the pairs:
that they say the same takes the same words in the same order, but for articles, fillers and short forms; and that
a value changed takes a statement that holds for one value at a time, in which nothing but the value differs.
English; sentences of other languages say the same when their words do.
"""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["changed", "same"]

_MARKS: Final = ".,;:!?…\"'`()[]{}<>«»“”‘’*_~—–-。！？、"  # noqa: RUF001 - the marks of other scripts are meant
_LIGHT: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "so",
        "well",
        "oh",
        "ah",
        "um",
        "uh",
        "hmm",
        "yeah",
        "yes",
        "okay",
        "ok",
        "just",
        "really",
        "very",
        "quite",
        "actually",
        "basically",
        "also",
        "too",
        "now",
        "currently",
    ]
)
_SHORT: Final = {
    "i'm": "i am",
    "you're": "you are",
    "we're": "we are",
    "they're": "they are",
    "he's": "he is",
    "she's": "she is",
    "it's": "it is",
    "that's": "that is",
    "i've": "i have",
    "we've": "we have",
    "they've": "they have",
    "i'll": "i will",
    "won't": "will not",
    "can't": "can not",
    "cannot": "can not",
}
_DATES: Final = frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ]
)
_NUMBERS: Final = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "million",
    ]
)
_ONE_AT_A_TIME: Final = frozenset(
    [
        "live",
        "lives",
        "reside",
        "resides",
        "work",
        "works",
        "study",
        "studies",
        "cost",
        "costs",
        "renew",
        "renews",
        "expire",
        "expires",
        "start",
        "starts",
        "end",
        "ends",
        "begin",
        "begins",
        "close",
        "closes",
        "open",
        "opens",
        "earn",
        "earns",
        "weigh",
        "weighs",
    ]
)
_IS: Final = frozenset({"is", "are", "am"})
_WHOSE: Final = frozenset(["my", "our", "his", "her", "their", "its", "your", "the"])
# What keeps a statement from holding for one value at a time, now and plainly.
_NOT_SO: Final = frozenset(
    [
        "not",
        "no",
        "never",
        "nor",
        "was",
        "were",
        "had",
        "did",
        "been",
        "used",
        "if",
        "would",
        "might",
        "could",
        "may",
        "maybe",
        "perhaps",
        "want",
        "wants",
        "hope",
        "hopes",
        "think",
        "thinks",
        "plan",
        "plans",
        "unless",
        "should",
        "also",
        "too",
        "another",
        "sometimes",
        "often",
        "usually",
        "other",
        "others",
        "either",
        "both",
        "or",
        "some",
        "friend",
        "friends",
        "like",
        "likes",
    ]
)
_PAST: Final = re.compile(r"[a-z]{3,}ed")
_LEAST_WORDS: Final = 3
_LEAST_KEPT: Final = 2
_LONGEST_VALUE: Final = 4


@dataclass(frozen=True, slots=True)
class _Word:
    """A word as it is compared, and what kind of value it is ("" for none)."""

    folded: str
    value: str


def same(one: str, other: str) -> bool:
    """Whether they differ in nothing but punctuation, case, articles, fillers and short forms."""
    first, second = _telling(one), _telling(other)
    return len(first) >= _LEAST_WORDS and [word.folded for word in first] == [word.folded for word in second]


def changed(one: str, other: str) -> bool:
    """Whether they give one thing two values: a number, a date or a name is all in which they differ."""
    first, second = _telling(one), _telling(other)
    before = _alike(first, second)
    after = _alike(first[before:][::-1], second[before:][::-1])
    values = first[before : len(first) - after], second[before : len(second) - after]
    if before + after < _LEAST_KEPT or not all(0 < len(value) <= _LONGEST_VALUE for value in values):
        return False
    kinds = [_kind(value) for value in values]
    if not kinds[0] or kinds[0] != kinds[1]:
        return False
    kept = [word.folded for word in first[:before] + first[len(first) - after :]]
    said = {*_words(one), *_words(other)}
    return said.isdisjoint(_NOT_SO) and _holds_for_one(kept, _words(one), kinds[0])


def _holds_for_one(kept: list[str], said: list[str], kind: str) -> bool:
    if any(_PAST.fullmatch(word) for word in kept):
        return False
    if not _ONE_AT_A_TIME.isdisjoint(kept):
        return True
    if _IS.isdisjoint(kept):
        return False
    return said[0] in _WHOSE or said[0].endswith("'s") or (kind == "number" and "old" in kept)


def _telling(text: str) -> list[_Word]:
    found = list[_Word]()
    for place, raw in enumerate(_bare(text)):
        for word in _SHORT.get(raw.casefold(), raw.casefold()).split():
            if word not in _LIGHT:
                found.append(_Word(word, _value(raw, word, first=place == 0)))
    return found


def _words(text: str) -> list[str]:
    return [word for raw in _bare(text) for word in _SHORT.get(raw.casefold(), raw.casefold()).split()]


def _bare(text: str) -> list[str]:
    """The words without the marks around them; a sign before a number stays."""
    found = list[str]()
    for chunk in text.replace("’", "'").split():  # noqa: RUF001 - the apostrophe that is typed for one
        bare = chunk.strip(_MARKS)
        if bare and chunk.startswith("-") and bare[0].isdigit():
            bare = f"-{bare}"
        if bare:
            found.append(bare)
    return found


def _value(raw: str, word: str, *, first: bool) -> str:
    if any(char.isdigit() for char in word) or word in _NUMBERS:
        return "number"
    if word in _DATES and raw[0].isupper():
        return "date"
    return "name" if raw[0].isupper() and not first and word not in {"i", "am"} else ""


def _kind(value: list[_Word]) -> str:
    """What all of its words are: a date may have numbers in it. Empty when one of them is no value."""
    kinds = {word.value for word in value}
    if "" in kinds:
        return ""
    if "date" in kinds:
        return "date" if "name" not in kinds else ""
    return kinds.pop() if len(kinds) == 1 else ""


def _alike(first: list[_Word], second: list[_Word]) -> int:
    """How many words at the start are the same."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one.folded != other.folded:
            break
        count += 1
    return count
