"""Random operations on a memory of a provider and on the model, and every answer compared."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from provider_workers.domain.filters import All, Filter, Not, condition
from provider_workers.domain.filters import Any as Either
from provider_workers.domain.model import (
    Changes,
    Draft,
    Include,
    Page,
    Part,
    Question,
    Record,
    Selection,
    Stamp,
    Writer,
)
from service_kit.errors import GroveError
from service_kit.ids import new_id
from tests.contract.providers.subject import Subject
from tests.contract.records.model import CORE, Condition, Memory, Refused, Told, Version

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALICE = Stamp(Writer("person", "alice"))
_Answer = TypeVar("_Answer")


class World(Protocol):
    """What a run stands on."""

    subject: Subject

    def run(self, call: Awaitable[_Answer]) -> _Answer:
        """Run to the end."""
        ...


def ticks(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // timedelta(microseconds=1)


def moment(tick: int | None) -> datetime | None:
    return None if tick is None else EPOCH + timedelta(microseconds=tick)


def said(one: Record) -> Told:
    """Everything a read says of a version."""
    written_at = ticks(one.written_at)
    assert written_at is not None
    return (
        one.id,
        one.version,
        one.type,
        "".join(part.text for part in one.content),
        one.attributes,
        (ticks(one.valid_from), ticks(one.valid_to)),
        one.supersedes,
        one.status.value,
        written_at,
        ticks(one.invalidated_at),
    )


DAYS = [None, 0, 86_400_000_000, 20_000 * 86_400_000_000, -60_000 * 86_400_000_000, 253_402_300_799_999_999]
ATTRIBUTES = [
    b"",
    b"{}",
    b'{"n":1}',
    b'{ "n" : 1.0 }',
    b'{"n":2,"s":"a"}',
    b'{"n":"2","s":"b"}',
    b'{"n":null}',
    b'{"n":12345678901234567890123}',
    b'{"s":"\\u00e9","n":-0.0}',
    b'{"n":1,"n":2}',
]
Which = st.sampled_from([0, 0, 0, 1])
Texts = st.sampled_from(["one", "two", "three", "four"])
Attributes = st.sampled_from(ATTRIBUTES)
Days = st.sampled_from(DAYS)
Picks = st.integers(0, 30)
Includes = st.sampled_from(["active", "active", "superseded", "forgotten", "all"])


def _attribute(raw: bytes, name: str) -> tuple[bool, object]:
    held = json.loads(raw or b"{}", parse_float=float)
    return name in held, held.get(name)


def _same(one: object, other: object) -> bool:
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return one == other
    return type(one) is type(other) and one == other


def _opposite(one: Condition) -> Condition:
    return lambda kind, raw, valid: not one(kind, raw, valid)


def _any_of(one: Condition, other: Condition) -> Condition:
    return lambda kind, raw, valid: one(kind, raw, valid) or other(kind, raw, valid)


def _equal(name: str, value: object) -> Condition:
    return lambda _kind, raw, _valid: _same(_attribute(raw, name)[1], value)


def _above(name: str, value: Any) -> Condition:
    def above(_kind: str, raw: bytes, _valid: object) -> bool:
        held: Any = _attribute(raw, name)[1]
        alike = isinstance(held, str) if isinstance(value, str) else isinstance(held, (int, float))
        return alike and held > value

    return above


def _from(bound: int, value: int) -> Condition:
    def since(_kind: str, _raw: bytes, valid: tuple[int | None, int | None]) -> bool:
        held = valid[bound]
        return held is not None and held >= value

    return since


LEAVES: list[tuple[Filter, Condition]] = [
    (condition("attributes.n", "eq", b"1"), _equal("n", 1)),
    (condition("attributes.n", "ne", b"1.00"), _opposite(_equal("n", 1))),
    (condition("attributes.n", "eq", b"null"), _equal("n", None)),
    (condition("attributes.n", "gt", b"1"), _above("n", 1)),
    (condition("attributes.n", "gt", b'"1"'), _above("n", "1")),
    (condition("attributes.n", "exists", b"true"), lambda _k, raw, _v: _attribute(raw, "n")[0]),
    (
        condition("attributes.s", "in", b'["a","\xc3\xa9"]'),
        _any_of(_equal("s", "a"), _equal("s", "é")),
    ),
    (condition("attributes.s", "nin", b'["a"]'), _opposite(_equal("s", "a"))),
    (condition("type", "in", b'["fact","x.task"]'), lambda kind, _r, _v: kind in ("fact", "x.task")),
    (condition("time.valid_from", "gte", b'"1970-01-02"'), _from(0, DAYS[2] or 0)),
    (condition("time.valid_to", "gte", b'"1970-01-01T01:00:00+01:00"'), _from(1, 0)),
    (condition("time.valid_to", "eq", b"null"), lambda _k, _r, valid: valid[1] is None),
]


def _both(one: tuple[Filter, Condition], other: tuple[Filter, Condition]) -> tuple[Filter, Condition]:
    return All(
        (one[0], other[0])
    ), lambda kind, raw, valid: one[1](kind, raw, valid) and other[1](kind, raw, valid)


def _either(one: tuple[Filter, Condition], other: tuple[Filter, Condition]) -> tuple[Filter, Condition]:
    return Either((one[0], other[0])), _any_of(one[1], other[1])


def _not(one: tuple[Filter, Condition]) -> tuple[Filter, Condition]:
    return Not(one[0]), _opposite(one[1])


Filters = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: _both(*pair)),
        st.tuples(inner, inner).map(lambda pair: _either(*pair)),
        inner.map(_not),
    ),
    max_leaves=4,
)
Selections = st.tuples(
    Includes,
    st.lists(st.sampled_from([*CORE, "episode"]), max_size=2, unique=True).map(tuple),
    st.none() | Filters,
)


class RecordsMachine(RuleBasedStateMachine):
    """One example: two memories, of which the second is there to be confused with the first."""

    world: World
    steps: int = 0

    def __init__(self) -> None:
        super().__init__()
        self.memories = [self.world.subject.memory() for _ in range(2)]
        self.models = [Memory(), Memory()]
        self.known: tuple[list[str], list[str]] = ([], [])
        """Every id there is in each memory."""
        self.gone: list[str] = []
        self.moments: tuple[list[int], list[int]] = ([], [])

    # -- picking -------------------------------------------------------------------------------------------------

    def one(self, which: int, pick: int) -> str:
        """An id: mostly one there is here, at times one of the other memory, one erased or one that never was."""
        known = {28: self.known[1 - which], 29: self.gone}.get(pick, self.known[which])
        return new_id("hrec") if not known or pick == 30 else known[-1 - pick % min(len(known), 5)]

    def at(self, which: int, pick: int | None) -> int | None:
        """A moment at or beside one at which something was written or closed."""
        moments = self.moments[which]
        if pick is None or not moments:
            return None
        return moments[-1 - (pick // 3) % len(moments)] + pick % 3 - 1

    # -- comparing -----------------------------------------------------------------------------------------------

    def told(self, call: Awaitable[_Answer]) -> _Answer | str:
        """The answer, or the code of the refusal."""
        try:
            return self.world.run(call)
        except GroveError as error:
            return error.code

    def refused(self, ask: Callable[[], object]) -> str | None:
        """The code the model refuses with, if it does."""
        type(self).steps += 1
        try:
            ask()
        except Refused as refusal:
            return refusal.code
        return None

    def note(self, which: int, record: Record) -> None:
        self.moments[which].extend(
            tick for tick in (ticks(record.written_at), ticks(record.invalidated_at)) if tick
        )

    def compare(self, which: int, selection: Selection, tick: int | None) -> None:
        """One page of everything, at a moment."""
        page = self.world.run(self.world.subject.adapter.list(self.memories[which], selection, Page(200)))
        expected = self.models[which].list(selection.include.value, tick, (), _anything)
        assert [said(one) for one in page.records] == expected[:200]

    # -- writing -------------------------------------------------------------------------------------------------

    @rule(
        which=Which,
        kind=st.sampled_from(CORE),
        text=Texts,
        attributes=Attributes,
        bounds=st.tuples(Days, Days),
        over=st.none() | st.none() | Picks,
    )
    def remember(
        self,
        which: int,
        kind: str,
        text: str,
        attributes: bytes,
        bounds: tuple[int | None, int | None],
        over: int | None,
    ) -> None:
        start, end = bounds
        if start is not None and end is not None and end < start:
            start, end = end, start
        supersedes = "" if over is None else self.one(which, over)
        model = self.models[which]
        draft = Draft(kind, (Part("text", text),), attributes, moment(start), moment(end), (), supersedes)
        answer = self.told(self.world.subject.adapter.remember(self.memories[which], draft, ALICE))
        refusal = self.refused(lambda: model.may_supersede(supersedes) if supersedes else None)
        if isinstance(answer, str):
            assert answer == refusal
            return
        assert refusal is None
        written_at = ticks(answer.written_at)
        assert written_at is not None
        version = Version(1, kind, text, attributes, (start, end), supersedes, written_at)
        model.remember(answer.id, version)
        self.known[which].append(answer.id)
        self.note(which, answer)
        assert said(answer) == model.get(answer.id, None)

    @rule(which=Which, texts=st.lists(Texts, min_size=1, max_size=3))
    def observe(self, which: int, texts: list[str]) -> None:
        adapter, model = self.world.subject.adapter, self.models[which]
        drafts = [Draft("episode", (Part("text", text),)) for text in texts]
        self.world.run(adapter.observe(self.memories[which], drafts, ALICE))
        type(self).steps += 1
        page = self.world.run(adapter.list(self.memories[which], Selection(("episode",)), Page(len(texts))))
        for text, record in zip(texts, reversed(page.records), strict=True):
            written_at = ticks(record.written_at)
            assert written_at is not None
            model.remember(record.id, Version(1, "episode", text, b"", (None, None), "", written_at))
            self.known[which].append(record.id)
            self.note(which, record)
            assert said(record) == model.get(record.id, None)

    @rule(
        which=Which,
        pick=Picks,
        text=st.none() | Texts,
        attributes=st.none() | Attributes,
        time=st.just((None, None, frozenset[str]()))
        | st.tuples(Days, Days, st.frozensets(st.sampled_from(["valid_from", "valid_to"]))),
        expected=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def revise(
        self,
        which: int,
        pick: int,
        text: str | None,
        attributes: bytes | None,
        time: tuple[int | None, int | None, frozenset[str]],
        expected: int,
    ) -> None:
        start, end, clear = time
        changes = Changes(
            None if text is None else (Part("text", text),),
            attributes,
            moment(start),
            moment(end),
            clear,
        )
        if changes == Changes():
            return
        record_id, model = self.one(which, pick), self.models[which]
        answer = self.told(
            self.world.subject.adapter.revise(self.memories[which], record_id, changes, expected, ALICE)
        )
        refusal = self.refused(lambda: model.may_revise(record_id, expected))
        if refusal is not None and refusal != "grovekeeper_conflict":
            assert answer == refusal
            return
        record = model.demand(record_id)
        last = record.latest
        valid = (
            start if start is not None else None if "valid_from" in clear else last.valid[0],
            end if end is not None else None if "valid_to" in clear else last.valid[1],
        )
        backwards = valid[0] is not None and valid[1] is not None and valid[1] < valid[0]
        if isinstance(answer, str):
            assert answer in {refusal, "invalid_input" if backwards else refusal}
            return
        assert refusal is None
        assert not backwards
        written_at = ticks(answer.written_at)
        assert written_at is not None
        assert written_at > last.written_at
        last.closings.append((written_at, "superseded"))
        record.versions.append(
            Version(
                last.number + 1,
                last.kind,
                last.text if text is None else text,
                last.attributes if attributes is None else attributes,
                valid,
                last.supersedes,
                written_at,
            )
        )
        self.note(which, answer)
        assert said(answer) == model.get(record_id, None)

    @rule(which=Which, pick=Picks, expected=st.sampled_from([0, 0, 1, 2]))
    def forget(self, which: int, pick: int, expected: int) -> None:
        record_id, model = self.one(which, pick), self.models[which]
        before = datetime.now(UTC)
        answer = self.told(
            self.world.subject.adapter.forget(self.memories[which], record_id, expected, ALICE)
        )
        refusal = self.refused(lambda: model.may_forget(record_id, expected))
        if isinstance(answer, str):
            assert answer == refusal
            return
        assert refusal is None
        last, closed = model.demand(record_id).latest, ticks(answer.invalidated_at)
        assert closed is not None
        if last.status(None) == "active":
            assert closed > last.written_at
            last.closings.append((closed, "forgotten"))
        elif last.status(None) == "superseded":
            # When that was is told by no read; it was between these two.
            last.closings.append(((ticks(before) or 0), "forgotten"))
            for include in ("active", "superseded", "forgotten"):
                self.compare(which, Selection(include=Include(include), as_of=moment(closed)), closed)
        self.note(which, answer)
        assert said(answer) == model.get(record_id, None)

    @rule(which=Which, picks=st.lists(Picks, min_size=1, max_size=3), rarely=st.integers(0, 3))
    def erase(self, which: int, picks: list[int], rarely: int) -> None:
        if rarely:
            return
        record_ids, model = [self.one(which, pick) for pick in picks], self.models[which]
        answer = self.told(self.world.subject.adapter.erase(self.memories[which], record_ids, ALICE))
        refusal = self.refused(lambda: model.erase(record_ids))
        if isinstance(answer, str):
            assert answer == refusal
            return
        assert refusal is None
        assert (set(answer.erased), answer.unreachable) == (set(record_ids), ())
        self.known[which][:] = [one for one in self.known[which] if one not in record_ids]
        self.gone += record_ids

    # -- reading -------------------------------------------------------------------------------------------------

    @rule(which=Which, pick=Picks, at=st.none() | Picks)
    def get(self, which: int, pick: int, at: int | None) -> None:
        record_id, tick = self.one(which, pick), self.at(which, at)
        answer = self.told(self.world.subject.adapter.get(self.memories[which], record_id, moment(tick)))
        refusal = self.refused(lambda: self.models[which].get(record_id, tick))
        if isinstance(answer, str):
            assert answer == refusal
        else:
            assert said(answer) == self.models[which].get(record_id, tick)

    @rule(which=Which, pick=Picks)
    def history(self, which: int, pick: int) -> None:
        record_id = self.one(which, pick)
        answer = self.told(self.world.subject.adapter.history(self.memories[which], record_id))
        refusal = self.refused(lambda: self.models[which].history(record_id))
        if isinstance(answer, str):
            assert answer == refusal
        else:
            assert [said(one) for one in answer] == self.models[which].history(record_id)

    @rule(which=Which, asked=Selections, at=st.none() | Picks, limit=st.integers(1, 7))
    def list(self, which: int, asked: Any, at: int | None, limit: int) -> None:
        include, types, filter_ = asked
        tick = self.at(which, at)
        selection = Selection(types, filter_ and filter_[0], Include(include), moment(tick))
        found: list[Told] = []
        page = Page(limit)
        while True:
            answer = self.world.run(self.world.subject.adapter.list(self.memories[which], selection, page))
            assert len(answer.records) <= limit
            found += [said(one) for one in answer.records]
            if not answer.next_cursor:
                break
            page = Page(limit, answer.next_cursor)
        type(self).steps += 1
        assert found == self.models[which].list(include, tick, types, filter_[1] if filter_ else _anything)

    @rule(which=Which, asked=Selections, at=st.none() | Picks)
    def recall(self, which: int, asked: Any, at: int | None) -> None:
        """By its filter alone a recall finds everything the filter holds for, and nothing else."""
        include, types, filter_ = asked
        if filter_ is None:
            return
        tick = self.at(which, at)
        selection = Selection(types, filter_[0], Include(include), moment(tick))
        answer = self.world.run(
            self.world.subject.adapter.recall([self.memories[which]], Question(selection, limit=100))
        )
        type(self).steps += 1
        expected = self.models[which].list(include, tick, types, filter_[1])
        assert sorted(said(hit.record) for hit in answer.hits) == sorted(expected)
        assert {hit.why for hit in answer.hits} <= {("filters",)}
        assert answer.degraded == ()


def _anything(_kind: str, _raw: bytes, _valid: object) -> bool:
    return True
