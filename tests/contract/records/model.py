"""A second reading of sections 4, 5 and 6.2: the bitemporal rules of one memory's records, as plainly as can be.

Nothing of the product is used here. Moments are whole microseconds. What closed a version is kept as the list of
everything that happened to it, and what it reads like at a moment is worked out from that each time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

CORE = ("fact", "note", "procedure", "x.task")


class Refused(Exception):  # noqa: N818 - reads well in `except Refused`
    """With the code the chapter gives it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code: str = code


@dataclass
class Version:
    """One version; ``closings`` is when and how it was closed, in order."""

    number: int
    kind: str
    text: str
    attributes: bytes
    valid: tuple[int | None, int | None]
    supersedes: str
    written_at: int
    closings: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def status(self, at: int | None) -> str:
        """As it reads at a moment (None: now)."""
        happened = [how for when, how in self.closings if at is None or when <= at]
        return happened[-1] if happened else "active"

    def invalidated_at(self, at: int | None) -> int | None:
        """Since when it was no longer the latest, as far as that was so at a moment."""
        happened = [when for when, _ in self.closings if at is None or when <= at]
        return happened[0] if happened else None


@dataclass
class Held:
    """A record; its first version's time is its place in a list."""

    id: str
    versions: list[Version]

    @property
    def latest(self) -> Version:
        return self.versions[-1]


Told = tuple[str, int, str, str, bytes, tuple[int | None, int | None], str, str, int, int | None]
"""(id, version, type, text, attributes, valid, supersedes, status, written_at, invalidated_at)."""
Condition = Callable[[str, bytes, tuple[int | None, int | None]], bool]
"""Of type, attributes and validity."""


def told(record: Held, version: Version, at: int | None) -> Told:
    """Everything a read says of a version."""
    return (
        record.id,
        version.number,
        version.kind,
        version.text,
        version.attributes,
        version.valid,
        version.supersedes,
        version.status(at),
        version.written_at,
        version.invalidated_at(at),
    )


class Memory:
    """One memory's records."""

    def __init__(self) -> None:
        self.records: dict[str, Held] = {}

    def demand(self, record_id: str) -> Held:
        if record_id not in self.records:
            raise Refused("memory_record_not_found")
        return self.records[record_id]

    def may_supersede(self, record_id: str) -> None:
        target = self.demand(record_id)
        taken = any(one.versions[0].supersedes == record_id for one in self.records.values())
        if taken or target.latest.status(None) == "superseded":
            raise Refused("grovekeeper_conflict")

    def remember(self, record_id: str, version: Version) -> None:
        """``version.written_at`` is when the memory says it was written."""
        if version.supersedes:
            target = self.records[version.supersedes].latest
            if target.status(None) == "active":
                target.closings.append((version.written_at, "superseded"))
        self.records[record_id] = Held(record_id, [version])

    def may_revise(self, record_id: str, expected: int) -> Held:
        record = self.demand(record_id)
        if record.latest.kind == "episode":
            raise Refused("memory_unsupported")
        if expected and expected != record.latest.number:
            raise Refused("grovekeeper_conflict")
        if record.latest.status(None) != "active":
            raise Refused("grovekeeper_conflict")
        return record

    def may_forget(self, record_id: str, expected: int) -> Held:
        record = self.demand(record_id)
        if expected and expected != record.latest.number:
            raise Refused("grovekeeper_conflict")
        return record

    def erase(self, record_ids: Iterable[str]) -> None:
        for one in record_ids:
            self.demand(one)
        for one in set(record_ids):
            del self.records[one]

    def get(self, record_id: str, at: int | None) -> Told:
        record = self.demand(record_id)
        held = [one for one in record.versions if at is None or one.written_at <= at]
        if not held:
            raise Refused("memory_record_not_found")
        return told(record, held[-1], at)

    def history(self, record_id: str) -> list[Told]:
        record = self.demand(record_id)
        return [told(record, one, None) for one in record.versions]

    def list(self, include: str, at: int | None, types: tuple[str, ...], condition: Condition) -> list[Told]:
        """Newest first: by the record's first version, its id, and the version."""
        found = [
            (record.versions[0].written_at, record.id, version.number, told(record, version, at))
            for record in self.records.values()
            for version in record.versions
            if (at is None or version.written_at <= at)
            and include in ("all", version.status(at))
            and (not types or version.kind in types)
            and condition(version.kind, version.attributes, version.valid)
        ]
        return [one[3] for one in sorted(found, key=lambda one: one[:3], reverse=True)]
