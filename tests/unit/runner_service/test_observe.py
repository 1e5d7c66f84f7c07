"""The observe job (Memories §9.1): once, in order, as the harness, and given up only for good."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from runner_service.domain.errors import GroveError
from runner_service.domain.model import Asked, Attachment, Budgets, Episode, Item, Response, Session, Status
from runner_service.domain.observe import Observe
from runner_service.domain.ports import Access, HarnessStore, Memory, ObservedTurns, ResponseStore
from service_kit.clock import SystemClock

NOW = SystemClock().now()
PAYLOAD: dict[str, object] = {"response_id": "resp_1", "memory_id": "hmem_1"}
CAPS = (Attachment("hmem_1", "write", is_default=True),)


def said(text: str) -> Item:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def called(name: str) -> list[Item]:
    return [
        {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"},
        {"type": "function_call_output", "call_id": name, "output": "the secret that was recalled"},
    ]


def ended(*output: Item, asked: bytes = b'"What do you know?"') -> Response:
    task = Asked(asked, "m", "chrn_1", "", "", "", store=True, background=False, budgets=Budgets())
    final = msgspec.json.encode({"output": list(output)})
    return Response(
        "resp_1", "person:alice", "hsess_1", "chrn_1", task, "m", Status.COMPLETED, NOW, final=final
    )


class World:
    """All the neighbours of the job in one: keeps what was sent, and under which caps."""

    def __init__(self, response: Response | None) -> None:
        self.response = response
        self.sent: list[tuple[str, Sequence[Episode]]] = []
        self.caps: tuple[Attachment, ...] = ()
        self.trouble: list[GroveError] = []

    async def finished(self, response_id: str) -> Response | None:
        return self.response if response_id == "resp_1" else None

    async def attachments(self, harness_id: str) -> tuple[Attachment, ...]:
        return CAPS if harness_id == "chrn_1" else ()

    async def session(self, owner: str, session_id: str) -> Session | None:
        return Session(session_id, owner, "chrn_1", "", NOW)

    @asynccontextmanager
    async def as_harness(
        self, harness_id: str, session_id: str, narrowing: Sequence[Attachment] = ()
    ) -> AsyncGenerator[None]:
        assert (harness_id, session_id) == ("chrn_1", "hsess_1")
        self.caps = tuple(narrowing)
        yield

    async def observe(self, memory_id: str, response: Response, episodes: Sequence[Episode]) -> None:
        if self.trouble:
            raise self.trouble.pop(0)
        self.sent.append((memory_id, episodes))

    async def run(self) -> None:
        job = Observe(
            cast(ObservedTurns, self),
            (cast(HarnessStore, self), cast(ResponseStore, self)),
            cast(Access, self),
            cast(Memory, self),
        )
        await job.run(PAYLOAD)


@pytest.mark.requirement("ME-9.1-15", "ME-9.1-16")
async def test_asked_tools_and_answers_in_order_and_nothing_a_tool_returned() -> None:
    output = [
        said("Let me look."),
        *called("memory_recall"),
        *called("memory_recall"),
        *called("memory_list"),
        said("Four."),
    ]
    world = World(ended(*output))
    await world.run()
    ((memory, episodes),) = world.sent
    assert memory == "hmem_1"
    assert world.caps == CAPS
    assert [(one.role, one.text) for one in episodes] == [
        ("user", "What do you know?"),
        ("tool", "Tools that ran: memory_recall, memory_list."),
        ("assistant", "Let me look.\n\nFour."),
    ]


async def test_a_turn_that_said_nothing_is_observed_by_what_was_asked() -> None:
    world = World(ended())
    await world.run()
    assert [one.role for one in world.sent[0][1]] == ["user"]


@pytest.mark.parametrize("code", ["memory_not_found", "memory_forbidden", "memory_unsupported"])
async def test_a_memory_that_is_gone_or_not_to_be_written_ends_the_job(code: str) -> None:
    world = World(ended(said("Four.")))
    world.trouble = [GroveError(code, "no")]
    await world.run()
    assert world.sent == []


async def test_a_provider_that_fails_is_asked_again_with_the_same() -> None:
    world = World(ended(said("Four.")))
    world.trouble = [GroveError("memory_unavailable", "later")]
    with pytest.raises(GroveError):
        await world.run()
    await world.run()
    assert len(world.sent) == 1


async def test_a_turn_that_is_gone_is_observed_nowhere() -> None:
    world = World(None)
    await world.run()
    assert world.sent == []
