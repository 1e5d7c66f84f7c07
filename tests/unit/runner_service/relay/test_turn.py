"""What ends with a turn, and what is at its door."""

import asyncio

import httpx
import pytest
from opentelemetry import context as otel_context

from runner_service.domain.model import Budgets, Failure, ModelCalls, Usage
from runner_service.loopback.server import listening
from runner_service.relay.ledger import Called, Ledger
from runner_service.relay.turn import Turn, cut

LIMITED = Failure("provider_error", "The model's endpoint refused the request.")


async def test_a_turn_ends_while_a_call_is_ending_already() -> None:
    """An agent that is killed leaves its calls a moment before its turn ends."""
    turn = Turn("hsess_1", "resp_1", "m", otel_context.get_current())
    running, cleaning, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def call() -> None:
        async with turn.running() as deadline:
            try:
                running.set()
                cut(deadline)
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                await closed.wait()

    task = asyncio.create_task(call())
    await running.wait()
    await cleaning.wait()
    ending = asyncio.create_task(turn.end())
    await asyncio.sleep(0)
    assert not ending.done()
    closed.set()
    await asyncio.wait_for(ending, 2)
    with pytest.raises(TimeoutError):
        await task
    await turn.end()


async def test_what_begins_with_no_doors_name_is_nowhere() -> None:
    async with listening("127.0.0.1:0") as loopback, httpx.AsyncClient(trust_env=False) as client:
        for target in (b"*", b"/", b"/mcp", b"/relay/chat/v1/models", b"//relay"):
            answer = await client.options(loopback.url, extensions={"target": target})
            assert answer.status_code == 404


def test_a_failure_is_over_when_the_same_call_succeeds_and_not_another() -> None:
    ledger = Ledger()
    big, small = ("chat", "big"), ("chat", "small")
    for call, called in (
        (big, Called(status=429, failure=LIMITED)),
        (small, Called(status=200, whole=True)),
    ):
        ledger.begun(call)
        ledger.ended(call, called)
    assert ledger.failure() == LIMITED
    assert ledger.calls() == ModelCalls(made=2, failed=1, rate_limited=1)
    ledger.begun(big)
    ledger.ended(big, Called(status=200, whole=True))
    assert ledger.failure() is None
    assert ledger.calls().retried == 1
    assert ledger.usage() is None


def test_failures_of_ever_other_models_do_not_pile_up() -> None:
    ledger = Ledger()
    for number in range(1000):
        call = ("chat", f"m{number}")
        ledger.begun(call)
        ledger.ended(call, Called(status=404, failure=Failure("provider_error", str(number))))
    assert ledger.failure() == Failure("provider_error", "999")
    assert len(ledger._failures) < 100
    ledger.limit(Budgets(max_step=1000))
    assert ledger.spent() == ledger.stopped() == "max_step"
    assert ledger.usage() != Usage(0, 0)
