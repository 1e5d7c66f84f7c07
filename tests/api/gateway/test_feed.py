"""The live feed of a harness at the door: taken up where it broke off, and ended with the credential."""

import json
from typing import Any

import httpx
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from protos.runner.v1 import runner_pb2, sessions_pb2
from service_kit.errors import GroveError
from tests.api.gateway.backends import ALICE, Script
from tests.api.gateway.test_every_request import fault

pytestmark = pytest.mark.asyncio(loop_scope="module")

FEED = "/v1/harnesses/chrn_1/events"
HARNESS = runner_pb2.Harness(id="chrn_1", name="Desk", base="scripted")


def fed(at: int, response: str = "", first: int = 0, count: int = 0) -> sessions_pb2.Fed:
    """So many events of a response."""
    made = sessions_pb2.Fed(at=Timestamp(seconds=at), response_id=response, session_id=f"of {response}")
    for number in range(first, first + count):
        event = json.dumps({"type": "t", "sequence_number": number}).encode()
        made.events.add(sequence_number=number, type="t", json=event)
    return made


async def told(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """The first events of a feed."""
    found: list[dict[str, Any]] = []
    async with client.stream("GET", FEED) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                return found
    return found


@pytest.mark.requirement("SU-streaming-13")
async def test_a_feed_that_breaks_off_is_taken_up_where_it_was(alice: httpx.AsyncClient, script: Script):
    script.answers["GetHarness"] = HARNESS
    script.fed = [
        [fed(5), fed(5, "resp_a", 0, 2), fed(6, "resp_b", 0, 1)],
        GroveError("grovekeeper_unavailable", "The runner is stopping."),
        # The other runner tells one event again.
        [fed(7, "resp_a", 1, 2), fed(8, "resp_b", 1, 1)],
    ]
    events = await told(alice, 5)
    assert [(one["response_id"], one["sequence_number"]) for one in events] == [
        ("resp_a", 0),
        ("resp_a", 1),
        ("resp_b", 0),
        ("resp_a", 2),
        ("resp_b", 1),
    ]
    assert events[0] == {
        "response_id": "resp_a",
        "session_id": "of resp_a",
        "type": "t",
        "sequence_number": 0,
    }
    first, *again = [one.request for one in script.calls if one.method == "FollowHarness"]
    assert not first.HasField("since")
    for request in again[:2]:
        assert (request.began.seconds, request.since.seconds) == (5, 6)
        assert dict(request.positions) == {"resp_a": 1, "resp_b": 0}


async def test_a_feed_ends_with_its_credential(alice: httpx.AsyncClient, script: Script):
    script.answers["GetHarness"] = HARNESS
    script.fed = [[fed(5, "resp_a", 0, 1)], GroveError("grovekeeper_deadline", "Long enough.")]

    async with alice.stream("GET", FEED) as answer:
        lines = answer.aiter_lines()
        while not (await anext(lines)).startswith("data: "):
            pass
        del script.tokens[ALICE]
        with pytest.raises(httpx.RemoteProtocolError):
            async for _ in lines:
                pass


async def test_a_harness_that_is_not_ones_own_has_no_feed(alice: httpx.AsyncClient, script: Script):
    script.answers["GetHarness"] = GroveError("harness_not_found", "There is no such harness.")
    assert fault(await alice.get(FEED))["code"] == "harness_not_found"
    assert [one.method for one in script.calls] == ["GetHarness"]
