"""Between rows and the domain's records, and the one place that writes versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, LiteralString

import msgspec

from provider_workers.adapters.native import voice, words
from provider_workers.adapters.native.generations import Generation
from provider_workers.adapters.native.languages import ENGLISH, Languages
from provider_workers.adapters.native.vectors import Vector, literal
from provider_workers.domain import errors
from provider_workers.domain.model import Draft, Part, Record, Reference, Status, Writer
from service_kit.db.tx import Row, Tx

__all__ = [
    "COLUMNS",
    "DERIVED_FROM",
    "NewVersion",
    "Text",
    "append",
    "at_first",
    "close",
    "hold_sources",
    "indexed",
    "parts_of",
    "record_of",
    "stated",
]

DERIVED_FROM: Final = "derived_from"
COLUMNS: Final[LiteralString] = (
    "v.memory_id, v.record_id, v.version, v.type, v.content, v.attributes, v.refs, v.valid_from, v.valid_to,"
    " v.written_at, v.invalidated_at, v.status, v.supersedes, v.writer_kind, v.writer_id, v.created_at,"
    " v.forgotten_at, v.projection"
)
"""What :func:`record_of` reads, of a ``version v``."""

_parts: Final = msgspec.json.Decoder(tuple[Part, ...])
_refs: Final = msgspec.json.Decoder(tuple[Reference, ...])
_json: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Text:
    """What a version is found by. ``said`` is its text, ``around`` the date and speaker before it, ``meant`` what of
    the text its vector is of; ``languages`` is what :meth:`Languages.of` says, ``written`` the words that the rules of
    a language are for.
    """

    said: str
    around: str
    meant: str
    words: str
    around_words: str
    digest: bytes
    languages: tuple[str, ...] = (ENGLISH,)
    written: str = ""

    @property
    def whole(self) -> str:
        """What is turned into the vector."""
        return self.around + self.meant


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version about to be written. ``vector`` None: it waits for one; ``session``: in what an episode was said."""

    memory_id: str
    record_id: str
    version: int
    draft: Draft
    text: Text
    vector: Vector | None
    created_at: datetime
    written_at: datetime
    writer: Writer
    derived: bool = False
    session: str = ""

    @property
    def record(self) -> Record:
        """As its writer is answered."""
        return Record(
            id=self.record_id,
            memory_id=self.memory_id,
            type=self.draft.type,
            content=self.draft.content,
            attributes=self.draft.attributes,
            version=self.version,
            status=Status.ACTIVE,
            supersedes=self.draft.supersedes,
            valid_from=self.draft.valid_from,
            valid_to=self.draft.valid_to,
            written_at=self.written_at,
            invalidated_at=None,
            written_by=self.writer,
            references=self.draft.references,
        )


def indexed(draft: Draft, languages: Languages, observed_at: datetime | None = None) -> Text:
    """What a draft is found by; ``observed_at`` dates an episode that does not say when it happened."""
    content = words.text_of(draft.type, draft.content, draft.attributes)
    said = "\n\n".join(one for one in (draft.projection, content) if one)
    who = words.speaker(draft.content, draft.attributes)
    around = words.prefix(who, draft.valid_from or observed_at)
    guessed = languages.of(said)
    return Text(
        said,
        around,
        voice.meant(draft.type, said, who) if guessed == (ENGLISH,) else said,
        words.record_words(said),
        words.record_words(around),
        words.digest(who, said),
        guessed,
        "" if guessed == (ENGLISH,) else words.written_words(said),
    )


async def append(tx: Tx, new: Sequence[NewVersion], generation: Generation) -> None:
    """Write versions: the first of a record with its head, each with its vector or in line for one. Their
    sources are held already (:func:`hold_sources`).

    Raises psycopg's ``UniqueViolation`` for a version that is there already.
    """
    languages = await _languages(tx, new)
    await tx.execute_many(
        "insert into record (memory_id, record_id, created_at) values (%s, %s, %s) on conflict do nothing",
        [(one.memory_id, one.record_id, one.created_at) for one in new if one.version == 1],
    )
    await tx.execute_many(
        "insert into version (memory_id, record_id, version, type, content, attributes, attributes_json, refs,"
        " prefix, text, words, digest, valid_from, valid_to, created_at, written_at, status, supersedes,"
        " writer_kind, writer_id, derived, size, projection, session, language)"
        " values (%(memory_id)s, %(record_id)s, %(version)s, %(type)s, %(content)s, %(attributes)s,"
        " jsonb_or_null(%(attributes_text)s), %(refs)s, %(prefix)s, %(text)s,"
        " words_of(%(words)s, %(around_words)s) || stems_of(%(language)s, %(written)s), %(digest)s, %(valid_from)s, %(valid_to)s, %(created_at)s,"
        " %(written_at)s, 'active', %(supersedes)s, %(writer_kind)s, %(writer_id)s, %(derived)s, %(size)s, %(projection)s,"
        " %(session)s, %(language)s)",
        [_columns(one) | {"language": of} for one, of in zip(new, languages, strict=True)],
    )
    await _append_sources(tx, new)
    await _append_files(tx, new)
    await tx.execute_many(
        "insert into embedding (memory_id, record_id, version, generation, dimension, vector)"
        " values (%s, %s, %s, %s, %s, %s::halfvec)",
        [
            (
                one.memory_id,
                one.record_id,
                one.version,
                generation.name,
                generation.dimension,
                literal(one.vector),
            )
            for one in new
            if one.vector is not None
        ],
    )
    await tx.execute_many(
        "insert into unembedded (memory_id, record_id, version) values (%s, %s, %s)",
        [(one.memory_id, one.record_id, one.version) for one in new if one.vector is None],
    )


async def _languages(tx: Tx, new: Sequence[NewVersion]) -> list[str]:
    """The language of each version, and those the memory did not hold yet told to it. A text that may be in several
    is in the first of them that the memory holds, or else in English.
    """
    if all(one.text.languages == (ENGLISH,) for one in new):
        return [ENGLISH] * len(new)
    memory_id = new[0].memory_id
    rows = await tx.fetch_all("select language from memory_language where memory_id = %s", (memory_id,))
    held = {row["language"] for row in rows}
    certain = {one.text.languages[0] for one in new if len(one.text.languages) == 1}
    known = held | certain | {ENGLISH}
    await tx.execute_many(
        "insert into memory_language (memory_id, language) values (%s, %s)",
        [(memory_id, language) for language in sorted(certain - held - {ENGLISH})],
    )
    return [next((of for of in one.text.languages if of in known), ENGLISH) for one in new]


async def hold_sources(tx: Tx, drafts: Sequence[Draft]) -> None:
    """Hold what the drafts are derived from, so that an erase of it sees what is written, or precedes it."""
    sources = sorted({source for draft in drafts for source in _sources(draft)})
    if sources:
        await tx.execute(
            "select 1 from record where (memory_id, record_id) in"
            " (select * from unnest(%s::text[], %s::text[])) order by memory_id, record_id for key share",
            ([memory for memory, _ in sources], [record for _, record in sources]),
        )


def _sources(draft: Draft) -> list[tuple[str, str]]:
    return [(to.memory_id, to.record_id) for to in draft.references if to.rel == DERIVED_FROM]


async def _append_sources(tx: Tx, new: Sequence[NewVersion]) -> None:
    """What the versions were derived from."""
    edges = sorted({(*source, one.memory_id, one.record_id) for one in new for source in _sources(one.draft)})
    await tx.execute_many(
        "insert into derivation (source_memory_id, source_record_id, memory_id, record_id)"
        " values (%s, %s, %s, %s) on conflict do nothing",
        edges,
    )


async def _append_files(tx: Tx, new: Sequence[NewVersion]) -> None:
    """Tie files to the versions that name them. They are held, so that an erase or a sweep sees them named or
    precedes them; ``file_not_found`` for one that is not kept.
    """
    files = {
        (one.memory_id, one.record_id, one.version, part.file.id): part.file
        for one in new
        for part in one.draft.content
        if part.file is not None
    }
    if not files:
        return
    memory_id = new[0].memory_id
    rows = await tx.fetch_all(
        "select file_id, version, named from kept_file where memory_id = %s and file_id = any(%s) and kept"
        " order by file_id for no key update",
        (memory_id, sorted({file.id for file in files.values()})),
    )
    kept = {row["file_id"]: row["version"] for row in rows}
    if any(not file.version or kept.get(file.id) != file.version for file in files.values()):
        raise errors.file_not_found("content")
    fresh = [row["file_id"] for row in rows if not row["named"]]
    if fresh:
        await tx.execute(
            "update kept_file set named = true where memory_id = %s and file_id = any(%s) and kept",
            (memory_id, fresh),
        )
    await tx.execute_many(
        "insert into version_file (memory_id, record_id, version, file_id) values (%s, %s, %s, %s)",
        list(files),
    )


async def close(tx: Tx, memory_id: str, record_id: str, status: Status, at: datetime) -> None:
    """Close the latest version of a record, whose head the transaction has locked."""
    await tx.execute(
        "update version set status = %s, invalidated_at = %s"
        " where memory_id = %s and record_id = %s and invalidated_at is null",
        (status.value, at, memory_id, record_id),
    )
    await tx.execute(
        "update embedding set invalidated_at = %s"
        " where memory_id = %s and record_id = %s and invalidated_at is null",
        (at, memory_id, record_id),
    )


def parts_of(content: bytes) -> tuple[Part, ...]:
    """A version's content as its column has it."""
    return _parts.decode(content)


def record_of(row: Row, as_of: datetime | None = None) -> Record:
    """The version in a row (:data:`COLUMNS`), as it stood at ``as_of``: what closed it later had not yet."""
    invalidated_at, forgotten_at = _utc(row["invalidated_at"]), _utc(row["forgotten_at"])
    open_then = invalidated_at is None or (as_of is not None and invalidated_at > as_of)
    status = Status.ACTIVE if open_then else Status(row["status"])
    if not open_then and forgotten_at is not None and as_of is not None and forgotten_at > as_of:
        status = Status.SUPERSEDED
    return Record(
        id=row["record_id"],
        memory_id=row["memory_id"],
        type=row["type"],
        content=parts_of(row["content"]),
        attributes=bytes(row["attributes"]),
        version=row["version"],
        status=status,
        supersedes=row["supersedes"],
        valid_from=_utc(row["valid_from"]),
        valid_to=_utc(row["valid_to"]),
        written_at=row["written_at"].astimezone(UTC),
        invalidated_at=None if open_then else invalidated_at,
        written_by=Writer(row["writer_kind"], row["writer_id"]),
        references=_refs.decode(row["refs"]),
    )


def at_first(row: Row) -> Record:
    """The version in a row as its writer was answered: open."""
    return record_of(row, row["written_at"])


def stated(row: Row) -> Draft:
    """What the version in a row states, to be stated again with changes."""
    record = record_of(row)
    return Draft(
        record.type,
        record.content,
        record.attributes,
        record.valid_from,
        record.valid_to,
        record.references,
        record.supersedes,
        row["projection"],
    )


def _columns(one: NewVersion) -> dict[str, object]:
    draft, content = one.draft, _json.encode(one.draft.content)
    return {
        "memory_id": one.memory_id,
        "record_id": one.record_id,
        "version": one.version,
        "type": draft.type,
        "content": content,
        "attributes": draft.attributes,
        "attributes_text": draft.attributes.decode() or "{}",
        "refs": _json.encode(draft.references),
        "prefix": one.text.around,
        "text": one.text.said,
        "words": one.text.words,
        "around_words": one.text.around_words,
        "written": one.text.written,
        "digest": one.text.digest,
        "valid_from": draft.valid_from,
        "valid_to": draft.valid_to,
        "created_at": one.created_at,
        "written_at": one.written_at,
        "supersedes": draft.supersedes,
        "writer_kind": one.writer.kind,
        "writer_id": one.writer.id,
        "derived": one.derived,
        "projection": draft.projection,
        "session": one.session,
        "size": len(content) + len(draft.attributes),
    }


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
