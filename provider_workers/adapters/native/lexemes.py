"""A question cut into words and their stems, and the bits that say which of them a version has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import sql

from provider_workers.adapters.native import words
from provider_workers.adapters.native.languages import ENGLISH
from provider_workers.adapters.native.scope import Arguments, among
from provider_workers.adapters.native.vectors import Vector
from provider_workers.domain.model import Question
from service_kit.db.tx import Tx

__all__ = ["Lexemes", "Search", "bit", "languages_of", "lexed", "masks"]

_PER_MASK: Final = 60
_LEXED: Final = 500


@dataclass(frozen=True, slots=True)
class Lexemes:
    """The words of a question, each as the lexemes it may be found by, one for each language. ``part`` is the weight
    they must have: A is what a record says.
    """

    words: tuple[tuple[str, ...], ...]
    part: str = ""

    @property
    def each(self) -> list[str]:
        """One ``tsquery`` for each word."""
        return [f"({' | '.join(_quoted(one) + self.part for one in forms)})" for forms in self.words]


@dataclass(frozen=True, slots=True)
class Search:
    """A question as it is searched for. ``plain`` are the conditions of a text without any lexeme."""

    memory_ids: Sequence[str]
    question: Question
    vector: Vector | None
    query: Lexemes
    text: Lexemes
    plain: tuple[str, str] | None = None


async def languages_of(tx: Tx, memory_ids: Sequence[str]) -> list[str]:
    """What a question to these memories is stemmed by: English first, then the others they hold."""
    bind = Arguments()
    statement = sql.SQL("select distinct language from memory_language where memory_id {}").format(
        among(memory_ids, bind)
    )
    rows = await tx.fetch_all(statement, bind.values)
    return [ENGLISH, *sorted(row["language"] for row in rows if row["language"] != ENGLISH)]


async def lexed(tx: Tx, text: str, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """The words of a question that are no stop words, each as its lexemes. Two words with a lexeme in common are one.

    A stop word of any of the languages is one: which of them the question is in, it is too short to say.
    """
    asked = [
        (place, language, form)
        for place, word in enumerate(words.question(text)[:_LEXED])
        for language in languages
        for form in dict.fromkeys([word.folded] if language == ENGLISH else [word.written, word.bare])
    ]
    if not asked:
        return []
    rows = await tx.fetch_all(
        "select place, tsvector_to_array(to_tsvector(('pg_catalog.' || language)::regconfig, form)) as lexemes"
        " from unnest(%s::int[], %s::text[], %s::text[]) with ordinality a(place, language, form, at) order by at",
        ([one[0] for one in asked], [one[1] for one in asked], [one[2] for one in asked]),
    )
    found, stopped = dict[int, list[str]](), set[int]()
    for row in rows:
        found.setdefault(row["place"], []).extend(row["lexemes"])
        if not row["lexemes"]:
            stopped.add(row["place"])
    return _merged(forms for place, forms in found.items() if place not in stopped)


def _merged(found: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    merged, places = list[dict[str, None]](), dict[str, int]()
    for forms in found:
        at = next((places[one] for one in forms if one in places), len(merged))
        if at == len(merged):
            merged.append({})
        merged[at].update(dict.fromkeys(forms))
        for one in forms:
            places.setdefault(one, at)
    return [tuple(forms) for forms in merged]


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
