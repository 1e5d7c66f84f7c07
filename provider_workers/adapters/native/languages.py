"""The language a text is in, as Postgres calls the rules for its words.

A guess may be wrong at no great cost: whatever the language, a text is indexed by its English stems too.
"""

from functools import cache
from typing import Final, Literal, Protocol, cast

from py3langid import langid  # pyright: ignore[reportMissingTypeStubs]  (the wheel carries no types)

__all__ = ["DETECT", "ENGLISH", "Languages", "Setting"]

DETECT: Final = "detect"
ENGLISH: Final = "english"

Setting = Literal[
    "detect",
    "arabic",
    "armenian",
    "catalan",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "spanish",
    "swedish",
    "turkish",
]

_CONFIGURATIONS: Final = {
    "ar": "arabic",
    "bg": "russian",  # what a short Russian text is often taken for
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": ENGLISH,
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "tr": "turkish",
}
_OTHERS: Final = ("cs", "fa", "he", "hi", "ja", "ko", "pl", "th", "uk", "vi", "zh")
"""Told apart, and without rules in Postgres for the words as they are cut here."""

_LOOKED_AT: Final = 4_000
_CERTAIN: Final = 0.6
_POSSIBLE: Final = 0.05
_SHORT: Final = 12  # characters


class Languages:
    """``setting`` is :data:`DETECT`, or the language of every text."""

    def __init__(self, setting: Setting) -> None:
        self._setting: str = setting
        if setting == DETECT:
            _identifier()

    def of(self, text: str) -> tuple[str, ...]:
        """The language of a text, or several it may be in, the likeliest first, when it does not say enough.

        Takes some 0.1 ms; what comes after the first 4,000 characters is not looked at.
        """
        if self._setting != DETECT:
            return (self._setting,)
        text = text[:_LOOKED_AT].strip()
        if not text:
            return (ENGLISH,)
        ranked = _identifier().rank(text)
        first, certainty = ranked[0]
        if certainty >= _CERTAIN and (first in _OTHERS or len(text) >= _SHORT):
            return (_CONFIGURATIONS.get(first, ENGLISH),)
        possible = [_CONFIGURATIONS.get(code, ENGLISH) for code, share in ranked if share >= _POSSIBLE]
        return tuple(dict.fromkeys([*possible, ENGLISH]))


class _Identifier(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...
    def set_languages(self, langs: list[str]) -> None: ...


@cache
def _identifier() -> _Identifier:
    """One for the process: it takes 80 MB."""
    made = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)  # pyright: ignore[reportUnknownMemberType]
    identifier = cast("_Identifier", made)
    identifier.set_languages([*_CONFIGURATIONS, *_OTHERS])
    return identifier
