"""Each process of the product killed with SIGKILL in the middle of the main job, and started again.

What was acknowledged is there, what was under way ends or goes on, nothing happens twice, and meanwhile
every refusal is one a client can act on.
"""

from collections.abc import Callable, Generator

import httpx
import pytest

from tests.e2e.caller import Caller, Json, Refused, Streamed, text_of
from tests.faults.product import Product, product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

COUNT = "Count slowly from 1 to 40, one number per line."
COUNTED = "\n".join(str(number) for number in range(1, 41))


@pytest.fixture(scope="module")
def grove() -> Generator[Product]:
    with product() as made:
        yield made


def attached(alice: Caller, name: str) -> tuple[str, str]:
    """A memory and a harness that observes into it."""
    memory = alice.plant(name)
    harness = alice.harness(name, {"memory_id": memory, "access": "write", "default": True})
    return memory, harness


def refusal(caller: Caller, memory: str) -> Refused | None:
    """How a recall is refused, if it is."""
    try:
        caller.recall(memory, "anything")
    except Refused as refused:
        return refused
    return None


def episodes(caller: Caller, memory: str) -> list[str]:
    return sorted(one["content"] for one in caller.records(memory, "types=episode"))


def numbers(events: list[Json]) -> list[int]:
    return [event["sequence_number"] for event in events]


@pytest.mark.requirement("ME-9.1-15", "ME-12-10")
@pytest.mark.parametrize("victim", ["memory", "authz", "provider"])
def test_a_turn_outlives_a_service_it_needs_and_is_observed_once(grove: Product, victim: str):
    alice = grove.person("alice")
    memory, harness = attached(alice, victim)
    alice.remember(memory, "Acme renews in March.")
    with alice.streaming(COUNT, harness) as (streamed, events):
        for event in events:
            if event["type"] == "response.output_text.delta":
                break
        grove.kill(victim)
        with Caller(grove.url, alice.token) as meanwhile:
            refused = refusal(meanwhile, memory)
        for _ in events:
            pass
    assert refused is not None
    assert refused.status == 503
    assert refused.error["type"] == "server_error"
    assert refused.code == ("memory_unavailable" if victim == "provider" else "grovekeeper_unavailable")
    assert len(refused.error["detail"]["trace_id"]) == 32
    assert streamed.events[-1]["type"] == "response.completed"
    assert text_of(streamed.response) == COUNTED

    grove.start(victim)
    alice.until(lambda: refusal(alice, memory), lambda seen: seen is None)
    assert "Acme renews in March." in alice.found(memory, "When does Acme renew?")
    assert alice.get(f"/v1/responses/{streamed.response['id']}") == streamed.response
    alice.until(lambda: episodes(alice, memory), lambda seen: len(seen) >= 2)
    again = alice.run("Recall: When does Acme renew?", harness, streamed.response["id"])
    assert "Acme renews in March." in text_of(again)
    observed = alice.until(lambda: episodes(alice, memory), lambda seen: len(seen) >= 5)
    assert observed == sorted(
        [
            COUNT,
            COUNTED,
            "Recall: When does Acme renew?",
            "Tools that ran: memory_recall.",
            text_of(again),
        ]
    )


def test_a_tool_that_reaches_nothing_is_said_to_the_agent_and_the_turn_ends(grove: Product):
    alice = grove.person("alice")
    memory, harness = attached(alice, "unreachable")
    first = alice.run("Reply with exactly: ok", harness)
    grove.kill("provider")
    second = alice.run("Recall: anything?", harness, first["id"])
    grove.start("provider")
    assert second["status"] == "completed"
    assert "memory_unavailable" in text_of(second) or "grovekeeper_unavailable" in text_of(second)
    alice.until(lambda: episodes(alice, memory), lambda seen: len(seen) >= 5)


def test_a_killed_runner_ends_its_turns_failed_and_its_sessions_go_on(grove: Product):
    alice = grove.person("alice")
    _, harness = attached(alice, "runner")
    with alice.streaming(COUNT, harness) as (streamed, events):
        for _ in events:
            if len(streamed.of("response.output_text.delta")) >= 3:
                break
        grove.kill("runner")
        grove.start("runner")
        # The gateway takes the stream up again by itself.
        for _ in events:
            pass
    assert numbers(streamed.events) == list(range(len(streamed.events)))
    assert streamed.events[-1]["type"] == "response.failed"
    response = streamed.response
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    kept = text_of(response)
    assert kept
    assert COUNTED.startswith(kept)
    assert alice.get(f"/v1/responses/{response['id']}") == response

    again = alice.run("Reply with exactly: on we go", harness, response["id"])
    assert text_of(again) == "on we go"
    assert again["metadata"]["session_id"] == response["metadata"]["session_id"]


def test_a_stream_cut_off_with_the_gateway_is_resumed_on_the_next_one(grove: Product):
    alice = grove.person("alice")
    _, harness = attached(alice, "gateway")
    cut: list[Json] = []
    with pytest.raises(httpx.TransportError):
        read_until_cut(alice, harness, cut, lambda: grove.kill("gateway"))
    grove.start("gateway")
    with Caller(grove.url, alice.token) as back:
        rest = resumed(back, cut[0]["response"]["id"], cut[-1]["sequence_number"])
    whole = [*cut, *rest.events]
    assert numbers(whole) == list(range(len(whole)))
    assert whole[-1]["type"] == "response.completed"
    assert text_of(whole[-1]["response"]) == COUNTED


def read_until_cut(caller: Caller, harness: str, into: list[Json], cut: Callable[[], None]) -> None:
    """Stream a task into a list, and cut something off after its third delta."""
    with caller.streaming(COUNT, harness) as (streamed, events):
        for event in events:
            into.append(event)
            if len(streamed.of("response.output_text.delta")) == 3:
                cut()


def resumed(caller: Caller, response: str, after: int) -> Streamed:
    """The events after a number, once the response has ended."""
    with caller.following(response, after) as (streamed, events):
        for _ in events:
            pass
    return streamed


def test_what_was_acknowledged_survives_everything_dying_at_once(grove: Product):
    alice = grove.person("alice")
    memory, harness = attached(alice, "power cut")
    facts = [f"Locker {number} belongs to visitor {number * 7}." for number in range(20)]
    written = [alice.remember(memory, fact)["id"] for fact in facts]
    observed = alice.post(f"/v1/memories/{memory}/observe", {"episodes": [{"content": "The key is blue."}]})
    queued = alice.run("Reply with exactly: soon", harness, background=True)
    everything = ("gateway", "runner", "memory", "provider", "authz", "valkey", "postgres")
    grove.kill(*everything)
    grove.start("postgres", "valkey")
    grove.start("authz", "provider", "memory", "runner", "gateway")
    with Caller(grove.url, alice.token) as back:
        assert {one["id"] for one in back.records(memory, "types=fact")} >= set(written)
        assert facts[13] in back.found(memory, "Whose is locker 13?", limit=3)
        job = back.finished(memory, observed["job"]["id"])
        assert job["status"] == "completed"
        assert [one["content"] for one in job["records"]] == ["The key is blue.", "The key is blue."]
        ended = back.until(
            lambda: back.get(f"/v1/responses/{queued['id']}"), lambda one: one["status"] != "in_progress"
        )
        assert ended["status"] in ("completed", "failed")
        again = back.run("Reply with exactly: here", harness, queued["id"])
        assert text_of(again) == "here"
