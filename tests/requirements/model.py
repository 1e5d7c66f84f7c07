"""What a requirement is: one sentence of the specification in our words, with an id that stays."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Level", "Requirement", "defined", "may", "must", "must_not", "should"]

Level = Literal["must", "must not", "should", "may", "defined"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """``id`` is ``<chapter>-<section>-<number>``. ``level`` is the specification's word, or ``defined`` where it
    says how something behaves without one.

    ``not_offered``: this release does not do it, and how a request for it is answered instead; a test shows that
    answer. ``not_ours``: it binds somebody else, or cannot be seen from here, and why; no test is asked for.
    """

    id: str
    level: Level
    sentence: str
    not_offered: str = ""
    not_ours: str = ""

    @property
    def chapter(self) -> str:
        """``ME``, ``AR`` or ``SU``."""
        return self.id.split("-")[0]

    @property
    def section(self) -> str:
        """The section's number, or its name where a page has no numbers."""
        return self.id.split("-")[1]


def must(ident: str, sentence: str, *, not_offered: str = "", not_ours: str = "") -> Requirement:
    """A MUST."""
    return Requirement(ident, "must", sentence, not_offered, not_ours)


def must_not(ident: str, sentence: str, *, not_offered: str = "", not_ours: str = "") -> Requirement:
    """A MUST NOT, said as what does not happen."""
    return Requirement(ident, "must not", sentence, not_offered, not_ours)


def should(ident: str, sentence: str, *, not_offered: str = "", not_ours: str = "") -> Requirement:
    """A SHOULD."""
    return Requirement(ident, "should", sentence, not_offered, not_ours)


def may(ident: str, sentence: str, *, not_offered: str = "", not_ours: str = "") -> Requirement:
    """A MAY, said as what this server does with it."""
    return Requirement(ident, "may", sentence, not_offered, not_ours)


def defined(ident: str, sentence: str, *, not_offered: str = "", not_ours: str = "") -> Requirement:
    """A behaviour that is described without a key word."""
    return Requirement(ident, "defined", sentence, not_offered, not_ours)
