"""A question cut into lexemes, and the bits that say which of them a version has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from provider_workers.adapters.native.scope import Arguments
from provider_workers.adapters.native.vectors import Vector
from provider_workers.domain.model import Question

__all__ = ["Lexemes", "Search", "bit", "masks"]

_PER_MASK: Final = 60


@dataclass(frozen=True, slots=True)
class Lexemes:
    """The lexemes of a question. ``part`` is the weight they must have: A is what a record says."""

    lexemes: tuple[str, ...]
    part: str = ""

    @property
    def each(self) -> list[str]:
        """One ``tsquery`` for each lexeme."""
        return [f"{_quoted(one)}{self.part}" for one in self.lexemes]


@dataclass(frozen=True, slots=True)
class Search:
    """A question as it is searched for. ``plain`` are the conditions of a text without any lexeme."""

    memory_ids: Sequence[str]
    question: Question
    vector: Vector | None
    query: Lexemes
    text: Lexemes
    plain: tuple[str, str] | None = None


def masks(each: Sequence[str], bind: Arguments) -> sql.Composable:
    """Which of the words a ``version v`` has, a bit for each, 60 to a number."""
    if not each:
        return sql.SQL("array[]::bigint[]")
    numbers = [
        sql.SQL(" | ").join(
            sql.SQL("((v.words @@ {}::tsquery)::int::bigint << {})").format(bind(one), sql.Literal(at))
            for at, one in enumerate(each[start : start + _PER_MASK])
        )
        for start in range(0, len(each), _PER_MASK)
    ]
    return sql.SQL("array[{}]").format(sql.SQL(", ").join(numbers))


def bit(at: int) -> sql.Composed:
    """Whether the word at this place is in the column ``words``."""
    return sql.SQL("words[{}] >> {} & 1 = 1").format(
        sql.Literal(at // _PER_MASK + 1), sql.Literal(at % _PER_MASK)
    )


def _quoted(lexeme: str) -> str:
    """A lexeme as ``tsquery`` reads it."""
    doubled = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
