"""What the use cases need from outside. Each docstring is the contract, errors included."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from runner_service.domain.abilities import Abilities
from runner_service.domain.model import (
    Attachment,
    Claim,
    Configuration,
    Episode,
    Event,
    Harness,
    Idempotency,
    Item,
    Lease,
    Model,
    PastTurn,
    Priming,
    Reach,
    RelayAccess,
    Response,
    Session,
    ToolAccess,
    TurnRequest,
)
from runner_service.domain.tool_calls import ToolCall
from runner_service.domain.turn_events import TurnEvent


class HarnessStore(Protocol):
    """Harnesses and what they are attached to. An owner only ever meets its own."""

    async def add_harness(self, harness: Harness, idempotency: Idempotency) -> Harness:
        """Stores a harness; with a key, the first one stored under it is answered, whoever wins a race.
        ``grovekeeper_idempotency_mismatch`` as above. A default harness that is there already is answered.
        """
        ...

    async def harness(self, owner: str, harness_id: str) -> Harness | None:
        """One harness, unless it is deleted or somebody else's."""
        ...

    async def default_harness(self, owner: str, base: str) -> Harness | None:
        """What an owner's tasks without a harness run on, if it was made."""
        ...

    async def harnesses(self, owner: str) -> tuple[Harness, ...]:
        """All of an owner's, oldest first."""
        ...

    async def change_harness(
        self, owner: str, harness_id: str, configuration: Configuration
    ) -> Harness | None:
        """Replaces the configuration; None when there is no such harness."""
        ...

    async def delete_harness(self, owner: str, harness_id: str) -> bool:
        """Deletes it (its sessions and responses stay); False when there is no such harness."""
        ...

    async def attached_before(self, owner: str, idempotency: Idempotency) -> bool:
        """Whether an attach under this key was carried out. ``grovekeeper_idempotency_mismatch``."""
        ...

    async def attach(
        self, owner: str, harness_id: str, attachments: Sequence[Attachment], idempotency: Idempotency
    ) -> None:
        """Replaces the list of attached memories, once under a key. ``grovekeeper_idempotency_mismatch``."""
        ...

    async def attachments(self, harness_id: str) -> tuple[Attachment, ...]:
        """The attached memories, in order."""
        ...


class ResponseStore(Protocol):
    """Sessions, responses and their events, for those who ask for them."""

    async def repeated_response(self, owner: str, idempotency: Idempotency) -> Response | None:
        """The response an earlier create under this key made. ``grovekeeper_idempotency_mismatch``."""
        ...

    async def queued(self) -> int:
        """How many responses wait to be started."""
        ...

    async def accept(
        self, session: Session, response: Response, created: Event, idempotency: Idempotency
    ) -> Response:
        """Stores response, first event, and the session if it is new, in one transaction, queued. A
        repeated key answers the first response. ``session_busy`` while another one of the session is not
        terminal.
        """
        ...

    async def response(self, owner: str, response_id: str) -> Response | None:
        """One response, unless it is somebody else's or was not to be stored and has ended."""
        ...

    async def followable(self, owner: str, response_id: str) -> Response | None:
        """As :meth:`response`, but also one that was not to be stored, while its events are kept."""
        ...

    async def expired(self, owner: str, response_id: str) -> bool:
        """Whether it was a response of an owner's session that was idle for so long that it is gone."""
        ...

    async def session(self, owner: str, session_id: str) -> Session | None:
        """One session, unless it is somebody else's."""
        ...

    async def running(self, session_id: str) -> str | None:
        """The id of the session's response that is not terminal, if any."""
        ...

    async def events(self, response_id: str, after: int, limit: int) -> tuple[Event, ...]:
        """At most ``limit`` events with a higher number, in order."""
        ...

    async def cancel_queued(self, response: Response, events: Sequence[Event]) -> bool:
        """Ends a response that was not started, with its last events, in one transaction. False, and
        nothing changed, when it is not queued any more.
        """
        ...

    async def request_cancel(self, response_id: str) -> None:
        """Marks a running response as to be cancelled; nothing when it is terminal."""
        ...


class TurnStore(Protocol):
    """The queue and the event log, for those who run turns. Every write names its lease: one that is no
    longer the session's newest raises ``LeaseLostError`` and writes nothing.
    """

    async def claim(self, owner: str) -> Claim | None:
        """Takes the oldest queued response under a new lease; None when nothing waits."""
        ...

    async def beat(self, owner: str, leases: Sequence[Lease]) -> frozenset[str]:
        """Prolongs leases; answers the session ids that are still held."""
        ...

    async def cancels(self, response_ids: Sequence[str]) -> frozenset[str]:
        """Which of these are to be cancelled."""
        ...

    async def history(self, response: Response) -> tuple[PastTurn, ...]:
        """The turns before this one in its chain, oldest first."""
        ...

    async def prime(self, lease: Lease, priming: Priming | None) -> None:
        """Keeps what was placed in a session's instructions; None: the next turn places it anew."""
        ...

    async def append(self, lease: Lease, response_id: str, events: Sequence[Event]) -> None:
        """Appends events to the log."""
        ...

    async def finish(
        self, lease: Lease, response: Response, events: Sequence[Event], observe: str | None
    ) -> None:
        """Ends a turn: last events, terminal state with ``response.final``, lease released and (with
        ``observe``, a memory id) the job that observes it, in one transaction.
        """
        ...

    async def log(self, response_id: str) -> tuple[Event, ...]:
        """Every event of a response so far, in order."""
        ...

    async def abandoned(self, owner: str, limit: int) -> tuple[Claim, ...]:
        """Turns whose runner fell silent, each under a new lease that shuts it out."""
        ...

    async def queue_depth(self) -> int:
        """How many responses wait to be started."""
        ...

    async def purge(self) -> int:
        """Removes what is past its time: unstored responses, a session with its last one, idle sessions, old
        idempotency keys. Answers how many idle sessions went.
        """
        ...


class ObservedTurns(Protocol):
    """What the observe job reads."""

    async def finished(self, response_id: str) -> Response | None:
        """A response that has ended; None when it has not, or is gone."""
        ...


class Base(Protocol):
    """One agent runtime. Its name is the harness's ``base``."""

    @property
    def name(self) -> str:
        """``scripted``, ``loop``, …"""
        ...

    @property
    def label(self) -> str:
        """What a person reads; says so when there is no model."""
        ...

    @property
    def default_model(self) -> str:
        """The model of a task that names none."""
        ...

    @property
    def provider(self) -> str:
        """``gen_ai.provider.name`` of its model calls."""
        ...

    async def models(self) -> tuple[Model, ...]:
        """Its models, with ``available`` computed now. Never raises, never waits longer than seconds."""
        ...

    async def serves(self, model: str) -> bool:
        """Whether a task may name this model."""
        ...

    def run(self, request: TurnRequest) -> AsyncGenerator[TurnEvent]:
        """Runs one turn. Raises ``BaseFailureError`` when it cannot be finished. Closing the generator, or
        cancelling the task that iterates it, ends everything it started.
        """
        ...


class Access(Protocol):
    """Decisions and grants of authz_service."""

    def as_harness(
        self, harness_id: str, session_id: str, narrowing: Sequence[Attachment] = ()
    ) -> AbstractAsyncContextManager[object]:
        """Act as the harness inside the block, narrowed; the passport is minted now, so revocation holds."""
        ...

    async def privileges(self, memory_id: str) -> frozenset[str]:
        """What the current passport may do on a memory: of ``read write create delete``.
        ``memory_not_found`` when nothing.
        """
        ...

    async def readable(self, memory_ids: Sequence[str]) -> frozenset[str]:
        """Which of these the current passport may read; others, unknown ones too, are left out."""
        ...

    async def attach(self, harness_id: str, attachments: Sequence[Attachment]) -> None:
        """Grants the harness what it lacks, by the caller's right; all or nothing, safe to repeat.
        ``memory_not_found``, ``memory_forbidden``.
        """
        ...


class Memory(Protocol):
    """What the seam asks of memory_service, for the current passport (Memories §9.1)."""

    async def prime(self, attachments: Sequence[Attachment], default: str) -> Priming:
        """What a session start places in an agent's instructions: the block, its cost by memory, and the
        memories it names. Memories that may not be read are left out. ``memory_unavailable``.
        """
        ...

    async def observe(self, memory_id: str, response: Response, episodes: Sequence[Episode]) -> None:
        """Sends a turn to a memory, once however often this is called. ``memory_not_found``,
        ``memory_forbidden``, ``memory_unavailable``.
        """
        ...


class ToolMemory(Protocol):
    """What the memory tools do, for the current passport. Answers are for an agent to read: JSON-able,
    with ``written_by``. Raises the codes of Memories §12, and ``invalid_input``.
    """

    async def memories(self, memory_ids: tuple[str, ...]) -> Item:
        """These memories and their direct children; those that may not be read are left out."""
        ...

    async def abilities(self, memory_ids: Sequence[str]) -> Abilities:
        """What can be done on these (at most 1,000) beyond records; those that may be neither read nor written are left out."""
        ...

    async def call(self, call: ToolCall, key: str) -> Item:
        """Carries out one call on the memory it names. ``key`` is the call's own: a write under it is
        made once.
        """
        ...


class Tools(Protocol):
    """The MCP server of this process."""

    def open(
        self,
        session: Session,
        attachments: Sequence[Attachment],
        where: Reach,
        disabled: frozenset[str],
        known: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[ToolAccess]:
        """Access for one turn: valid inside the block, revoked with its end. ``known``: memories the agent was told
        of, whose queries it may run too.
        """
        ...


class Relay(Protocol):
    """Models for agents that are programs: they speak an API to this process, which has the keys."""

    def kinds(self) -> frozenset[str]:
        """The APIs that are offered, of ``anthropic`` (Messages), ``responses`` and ``chat`` (OpenAI's)."""
        ...

    def models(self, kind: str) -> tuple[str, ...]:
        """The models the operator names for an API, the default one first; empty: any that its endpoint knows."""
        ...

    def open(self, session_id: str, response_id: str, model: str) -> AbstractAsyncContextManager[RelayAccess]:
        """Access for one turn: valid inside the block, revoked with its end, where calls still running are cut off.
        ``model`` may be called in any case.
        """
        ...


class Wakeups(Protocol):
    """Hints between processes. Losing one costs time, never truth: whoever waits also looks by itself."""

    async def publish(self, response_id: str, events: Sequence[Event]) -> None:
        """Tells followers of events that are in the log. Never raises."""
        ...

    async def wake_workers(self) -> None:
        """Something was queued. Never raises."""
        ...

    async def wake_cancel(self, response_id: str) -> None:
        """Something is to be cancelled. Never raises."""
        ...

    def follow(self, response_id: str) -> AbstractAsyncContextManager["Following"]:
        """Listens to one response inside the block, from the moment the block is entered."""
        ...


class Following(Protocol):
    """A listener's end of one response."""

    async def next(self, timeout_s: float) -> Sequence[Event] | None:
        """The next batch; an empty one or None says: look into the log (nothing came in time, or a batch
        was dropped).
        """
        ...


Bases = Mapping[str, Base]
