"""Consolidation runs (Memories, section 9.2), and the mark that keeps a memory's place while one runs (section 12).

A memory is marked before its provider is asked for a run, and the mark is prolonged by a job until the run has ended.
It lapses by itself when that job is cut short, or when the provider is not there to say that the run goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from memory_service.domain import errors
from memory_service.domain.model import Address, Page, Privilege, Record, Stamp
from memory_service.domain.place import Placing, capabilities_of
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.records import writer
from memory_service.domain.references import References
from service_kit.clock import Clock
from service_kit.errors import GroveError
from service_kit.idempotency import Idempotency
from service_kit.ids import new_id

__all__ = [
    "Change",
    "ChangePage",
    "Consolidations",
    "Due",
    "Guard",
    "Guards",
    "Holds",
    "ProviderRuns",
    "Run",
    "RunPage",
    "Starting",
    "Watching",
]

HELD_S: Final = 60
"""How long a mark lasts unless it is prolonged."""

_RUNS: Final = "runs"
_SEEN_TO_END: Final = timedelta(seconds=2 * HELD_S)
_MOST_MISSES: Final = 30
_SILENT: Final = "memory_unavailable"


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over a memory. ``payload`` is the provider's own answer, carried and never looked into."""

    id: str
    memory_id: str
    open: bool
    finished_at: datetime | None
    payload: object


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of runs; ``next_cursor`` is empty on the last one."""

    runs: tuple[Run, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Change:
    """What a run did to a record. ``payload`` is the provider's own answer, without the record."""

    record: Record
    payload: object


@dataclass(frozen=True, slots=True)
class ChangePage:
    """One page of changes; ``next_cursor`` is empty on the last one."""

    changes: tuple[Change, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class Starting:
    """A run to be started. ``budget`` is the wire's own, None: the provider's."""

    run_id: str
    trigger: str
    budget: object | None


@dataclass(frozen=True, slots=True)
class Due:
    """A memory its provider would consolidate now, and why."""

    address: Address
    trigger: str


@dataclass(frozen=True, slots=True)
class Guard:
    """What is watched: a run, and how often in a row it was not found."""

    address: Address
    run_id: str
    misses: int = 0


class ProviderRuns(Protocol):
    """The connected providers that declare runs. ``memory_unavailable`` when one does not answer."""

    async def start(self, address: Address, starting: Starting, stamp: Stamp) -> Run:
        """Queues a run; a repeated key answers the first one. ``invalid_input``, ``grovekeeper_conflict``."""
        ...

    async def run(self, address: Address, run_id: str) -> Run:
        """One of a memory. ``grovekeeper_not_found``."""
        ...

    async def runs(self, address: Address, page: Page) -> RunPage:
        """Newest first."""
        ...

    async def changes(self, address: Address, run_id: str, page: Page) -> ChangePage:
        """In the order they were made. ``grovekeeper_not_found``."""
        ...

    async def revert(self, address: Address, run_id: str, stamp: Stamp) -> Run:
        """Undoes a run. ``grovekeeper_not_found``, ``grovekeeper_conflict``."""
        ...

    async def due(self) -> tuple[Due, ...]:
        """Memories to start a run in now."""
        ...


class Holds(Protocol):
    """The marks, which authz keeps; asked as this service, whoever called."""

    async def hold(self, memory_id: str, holder: str, seconds: int) -> None:
        """Marks a memory, or prolongs the mark. ``memory_not_found``."""
        ...

    async def release(self, memory_id: str, holder: str) -> None:
        """Takes a mark off; one that is not there is off."""
        ...


class Guards(Protocol):
    """Where it is kept that a run is to be watched."""

    async def watch(self, guard: Guard) -> None:
        """A job looks at the run in a moment."""
        ...


class Watching:
    """Marks memories for as long as a run has not ended."""

    def __init__(self, provider: ProviderRuns, holds: Holds, guards: Guards, clock: Clock) -> None:
        self._provider = provider
        self._holds = holds
        self._guards = guards
        self._clock = clock

    async def start(self, address: Address, starting: Starting, stamp: Stamp) -> Run:
        """Mark, watch, start: whatever is cut short leaves a mark that lapses."""
        guard = Guard(address, starting.run_id)
        await self._holds.hold(address.memory_id, guard.run_id, HELD_S)
        try:
            await self._guards.watch(guard)
            started = await self._provider.start(address, starting, stamp)
        except GroveError:
            await self._holds.release(address.memory_id, guard.run_id)
            raise
        if started.id != starting.run_id:
            await self._holds.release(address.memory_id, guard.run_id)
        return started

    async def look(self, guard: Guard) -> None:
        """Prolong the mark of a run that has not ended and look again; take off that of one that has.

        A provider that does not answer prolongs nothing. One that does not know the run may not have been asked yet.
        """
        try:
            run = await self._provider.run(guard.address, guard.run_id)
        except GroveError as error:
            if error.code not in {"grovekeeper_not_found", "memory_unsupported", _SILENT}:
                raise
            if guard.misses < _MOST_MISSES or error.code == _SILENT:
                await self._guards.watch(replace(guard, misses=guard.misses + 1))
            return
        if not run.open:
            await self._holds.release(guard.address.memory_id, guard.run_id)
            return
        try:
            await self._holds.hold(guard.address.memory_id, guard.run_id, HELD_S)
        except GroveError as error:
            if error.code != "memory_not_found":
                raise
            return
        await self._guards.watch(replace(guard, misses=0))

    async def seen(self, runs: Sequence[Run]) -> None:
        """Whoever is told that a run has ended finds the memory free."""
        since = self._clock.now() - _SEEN_TO_END
        for run in runs:
            if run.finished_at is not None and run.finished_at > since:
                await self._holds.release(run.memory_id, run.id)


class Consolidations:
    """The use cases. ``memory_unsupported`` where the provider declares no runs."""

    def __init__(
        self,
        access: AccessTree,
        descriptions: Descriptions,
        provider: Provider,
        runs: ProviderRuns,
        watching: Watching,
    ) -> None:
        self._placing = Placing(access, descriptions)
        self._provider = provider
        self._runs = runs
        self._watching = watching
        self._references = References(access, descriptions, provider)

    async def start(self, memory_id: str, budget: object | None, idempotency: Idempotency) -> Run:
        """Starts a run now. Needs ``write``."""
        address = await self._address(memory_id, Privilege.WRITE)
        starting = Starting(new_id("hcon"), "api", budget)
        return await self._watching.start(address, starting, Stamp(writer(), idempotency))

    async def get(self, memory_id: str, run_id: str) -> Run:
        """One run. Needs ``read``."""
        run = await self._runs.run(await self._address(memory_id, Privilege.READ), run_id)
        await self._watching.seen([run])
        return run

    async def list(self, memory_id: str, page: Page) -> RunPage:
        """Newest first. Needs ``read``."""
        found = await self._runs.runs(await self._address(memory_id, Privilege.READ), page)
        await self._watching.seen(found.runs)
        return found

    async def changes(self, memory_id: str, run_id: str, page: Page) -> ChangePage:
        """What a run did, its records' references as the reader may see them. Needs ``read``."""
        found = await self._runs.changes(await self._address(memory_id, Privilege.READ), run_id, page)
        records = await self._references.resolve([one.record for one in found.changes])
        return replace(
            found,
            changes=tuple(
                replace(one, record=record) for one, record in zip(found.changes, records, strict=True)
            ),
        )

    async def revert(self, memory_id: str, run_id: str, idempotency: Idempotency) -> Run:
        """Undoes a run. Needs ``write``."""
        address = await self._address(memory_id, Privilege.WRITE)
        return await self._runs.revert(address, run_id, Stamp(writer(), idempotency))

    async def start_due(self) -> None:
        """Starts what the providers say is due, as this service. A memory that is gone or full is passed over."""
        if not any(one.consolidate == _RUNS for one in await self._provider.describe()):
            return
        for due in await self._runs.due():
            starting = Starting(new_id("hcon"), due.trigger, None)
            try:
                await self._watching.start(due.address, starting, Stamp(writer(), Idempotency("", b"")))
            except GroveError as error:
                if error.code not in {"memory_not_found", "grovekeeper_conflict"}:
                    raise

    async def _address(self, memory_id: str, required: Privilege) -> Address:
        address, _ = await self._placing.address(memory_id, required)
        if (await capabilities_of(self._provider, address.provider)).consolidate != _RUNS:
            raise errors.unsupported("consolidation runs")
        return address
