"""Consolidation runs (Memories, section 9.2): background work that is visible, bounded and reversible."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from provider_workers.domain import checks, errors
from provider_workers.domain.model import Page, Record, Stamp, Writer

__all__ = [
    "MOST",
    "TRIGGERS",
    "Budget",
    "Change",
    "ChangePage",
    "ConsolidationKeeper",
    "Consolidations",
    "Due",
    "Left",
    "Reversal",
    "Run",
    "RunPage",
    "Wanted",
]

TRIGGERS: Final = ("api", "schedule", "idle")
MOST: Final[Mapping[str, int]] = {"tokens": 10**9, "records": 10**9, "seconds": 86_400}
"""The units of a budget, and the largest limit in each."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a run may do: ``limit`` of a unit of :data:`MOST`. Records are those it reads."""

    limit: int
    unit: str
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to be started. ``budget`` None: the provider's own."""

    run_id: str
    trigger: str
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """A record a reversal left as it is, because it is not as the run had left it."""

    record_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reversal:
    """What undoing a run did. ``left`` are the first of ``left_count``."""

    at: datetime
    by: Writer
    restored: int
    forgotten: int
    left_count: int
    left: tuple[Left, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over a memory. ``through``: what was written up to then has been read. ``degraded``: what it had to leave
    to a later one, and why.
    """

    id: str
    memory_id: str
    status: str
    trigger: str
    started_at: datetime | None
    finished_at: datetime | None
    episodes: int
    through: datetime | None
    created: int
    superseded: int
    forgotten: int
    budget: Budget
    written_by: Writer
    input_tokens: int = 0
    output_tokens: int = 0
    error: str = ""
    degraded: tuple[str, ...] = ()
    reversal: Reversal | None = None


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of runs; ``next_cursor`` is empty on the last one."""

    runs: tuple[Run, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a run did to a record: ``record`` is the version it left, ``replaced_by`` what it was merged into or
    replaced by. ``undone`` None: not reverted; "": reverted; else why it was left.
    """

    change: str
    reason: str
    record: Record
    replaced_by: str
    undone: str | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """One page of changes; ``next_cursor`` is empty on the last one."""

    changes: tuple[Change, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Due:
    """A memory that should be consolidated, and why now."""

    memory_id: str
    trigger: str


class ConsolidationKeeper(Protocol):
    """A provider that declares ``consolidate: runs``."""

    async def start(self, memory_id: str, wanted: Wanted, stamp: Stamp) -> Run:
        """Queue a run and its job, in one step. One run of a memory works at a time, the others wait.

        Every record it writes is ``written_by`` the run's writer. It never touches what it was not shown to have
        been derived or to be stated twice by the same writer; episodes stay as they are. ``grovekeeper_conflict``
        when too many wait in this memory.
        """
        ...

    async def run(self, memory_id: str, run_id: str) -> Run:
        """One of this memory. ``grovekeeper_not_found``."""
        ...

    async def runs(self, memory_id: str, page: Page) -> RunPage:
        """Those of a memory, newest first. ``invalid_input`` for a cursor that is not ours."""
        ...

    async def changes(self, memory_id: str, run_id: str, page: Page) -> ChangePage:
        """What a run did, in order; nothing of what was erased since. ``grovekeeper_not_found``."""
        ...

    async def revert(self, memory_id: str, run_id: str, stamp: Stamp) -> Run:
        """Append what undoes a run: all of it in one step, but for records that are not as the run left them.

        Of a run that was reverted before, the same answer and nothing more. ``grovekeeper_not_found``;
        ``grovekeeper_conflict`` for one that has not ended.
        """
        ...

    async def due(self) -> Sequence[Due]:
        """Memories to start a run in now, at most as many as may run at once."""
        ...


class Consolidations:
    """The operations, by the provider a memory is bound to."""

    def __init__(self, keepers: Mapping[str, ConsolidationKeeper]) -> None:
        self._keepers = keepers

    async def start(self, address: tuple[str, str], wanted: Wanted, stamp: Stamp) -> Run:
        keeper = self._keeper(address)
        checks.identifier(wanted.run_id, "run_id")
        if wanted.trigger not in TRIGGERS:
            raise errors.invalid(f"A run's trigger is one of {', '.join(TRIGGERS)}.", "trigger")
        if wanted.budget is not None:
            _check(wanted.budget)
        return await keeper.start(address[1], wanted, stamp)

    async def run(self, address: tuple[str, str], run_id: str) -> Run:
        return await self._keeper(address).run(address[1], run_id)

    async def runs(self, address: tuple[str, str], page: Page) -> RunPage:
        return await self._keeper(address).runs(address[1], page)

    async def changes(self, address: tuple[str, str], run_id: str, page: Page) -> ChangePage:
        return await self._keeper(address).changes(address[1], run_id, page)

    async def revert(self, address: tuple[str, str], run_id: str, stamp: Stamp) -> Run:
        return await self._keeper(address).revert(address[1], run_id, stamp)

    async def due(self) -> list[tuple[str, Due]]:
        """Of every provider, with its id."""
        return [(name, one) for name, keeper in self._keepers.items() for one in await keeper.due()]

    def _keeper(self, address: tuple[str, str]) -> ConsolidationKeeper:
        checks.identifier(address[1], "memory_id")
        keeper = self._keepers.get(address[0])
        if keeper is None:
            raise errors.unsupported("consolidation runs")
        return keeper


def _check(budget: Budget) -> None:
    most = MOST.get(budget.unit)
    if most is None:
        raise errors.invalid(f"A budget's unit is one of {', '.join(MOST)}.", "budget.unit")
    if not 1 <= budget.limit <= most:
        raise errors.invalid(f"A budget in {budget.unit} is 1 to {most}.", "budget.limit")
