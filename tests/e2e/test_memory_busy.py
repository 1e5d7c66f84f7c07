"""A memory in which a consolidation runs keeps its place (Memories, section 12: ``memory_busy``)."""

import json

import grpc
import httpx
import pytest

from protos.authz.v1 import authz_pb2 as wire
from protos.authz.v1 import authz_pb2_grpc as rpc
from tests.e2e.people import Person, envelope
from tests.e2e.runs import ended
from tests.fixtures.stack import Stack


def marked(stack: Stack, memory: str, *, off: bool = False) -> None:
    """Mark a memory as memory_service does when a run begins, or take the mark off."""
    tokens = json.loads((stack.home / "keys" / "service_tokens.json").read_text())
    with grpc.insecure_channel(str(stack.state().members["authz"].listen)) as channel:
        asked = wire.AuthenticateRequest(token=tokens["memory"])
        passport = rpc.AuthenticationStub(channel).Authenticate(asked, timeout=10).passport
        metadata, tree = (("grove-passport", passport),), rpc.TreeStub(channel)
        if off:
            tree.ReleaseNode(
                wire.ReleaseNodeRequest(memory_id=memory, holder="hcon_1"), timeout=10, metadata=metadata
            )
        else:
            tree.HoldNode(
                wire.HoldNodeRequest(memory_id=memory, holder="hcon_1", ttl_seconds=60),
                timeout=10,
                metadata=metadata,
            )


def is_busy(answer: httpx.Response) -> bool:
    error = envelope(answer)
    return (answer.status_code, error["code"], error["type"]) == (409, "memory_busy", "invalid_request_error")


@pytest.mark.requirement("ME-12-09")
def test_what_a_consolidation_runs_in_is_neither_moved_nor_deleted_until_it_ends(stack: Stack, alice: Person):
    root, elsewhere = alice.plant("Root"), alice.plant("Elsewhere")
    memory = alice.plant("Worked upon", root)
    marked(stack, memory)
    for one in (memory, root):
        assert is_busy(alice.send("DELETE", f"/v1/memories/{one}"))
        assert is_busy(alice.send("PUT", f"/v1/memories/{one}", {"parent_id": elsewhere}))
    assert alice.put(f"/v1/memories/{memory}", {"name": "Renamed", "restricted": True})["restricted"]
    assert alice.plant("Below", memory)
    marked(stack, memory, off=True)
    assert alice.put(f"/v1/memories/{memory}", {"parent_id": elsewhere})["parent_id"] == elsewhere
    alice.delete(f"/v1/memories/{memory}")


@pytest.mark.requirement("ME-12-09")
def test_a_run_keeps_the_place_of_its_memory_and_no_longer(alice: Person):
    root = alice.plant("Root")
    memory = alice.plant("Worked upon", root)
    for n in range(150):
        alice.fact(memory, f"Fact {n // 2} of the list.")
    runs = f"/v1/memories/{memory}/consolidations"
    started = [str(alice.post(runs, {})["id"]) for _ in range(4)]
    for one in (memory, root):
        assert is_busy(alice.send("DELETE", f"/v1/memories/{one}"))
    done = ended(alice, memory, started[-1])
    for one in alice.get(runs)["data"]:
        assert one["status"] == "completed"
    assert done["status"] == "completed"
    # Whoever has seen them end finds the memory free at once.
    alice.delete(f"/v1/memories/{root}")
