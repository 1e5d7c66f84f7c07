"""The provider workers killed with SIGKILL in the middle of a consolidation run: it goes on and ends, nothing is done
twice, and the memory is free afterwards. And runs that nobody asked for (Memories, sections 9.1, 9.2 and 12).
"""

from collections.abc import Generator

import pytest

from tests.e2e.caller import Json, Refused
from tests.faults.product import Product, product

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FACTS = 150
IDLE = {
    "GROVE_NATIVE_CONSOLIDATE_IDLE_MIN": "0.03",
    "GROVE_NATIVE_CONSOLIDATE_IDLE_EPISODES": "3",
    "GROVE_MEMORY_CONSOLIDATE_S": "0.5",
}


@pytest.fixture(scope="module")
def grove() -> Generator[Product]:
    with product(IDLE) as made:
        yield made


def held(grove: Product, memory: str) -> int:
    """Marks that keep a memory's place."""
    ((count,),) = grove.rows(
        "select count(*) from authz.hold where node = %s and until > clock_timestamp()", memory
    )
    return count


@pytest.mark.requirement("ME-12-09", "ME-9.2-01")
def test_a_run_outlives_the_process_that_works_on_it(grove: Product):
    alice = grove.person("alice")
    root = alice.plant("Root")
    memory = alice.plant("Twice", root)
    for n in range(FACTS):
        for _ in range(2):
            alice.remember(memory, f"Account {n} renews in March.")
    runs = f"/v1/memories/{memory}/consolidations"
    run = str(alice.post(runs, {})["id"])
    begun = alice.until(lambda: alice.get(f"{runs}/{run}"), lambda one: one["changes"]["superseded"] > 0)
    grove.kill("provider")
    assert begun["status"] == "running"
    ((done,),) = grove.rows("select superseded from provider.consolidation where run_id = %s", run)
    assert 0 < done < FACTS
    assert held(grove, memory) == 1
    grove.start("provider")

    def ended() -> Json | None:
        try:
            found = alice.get(f"{runs}/{run}")
        except Refused:
            return None
        return found if found["status"] not in ("queued", "running") else None

    end = alice.until(ended, lambda one: one is not None)
    assert end is not None
    assert (end["status"], end["changes"]) == (
        "completed",
        {"created": 0, "superseded": FACTS, "forgotten": 0},
    )
    assert end["started_at"] == begun["started_at"]
    assert len(alice.records(memory, "limit=200")) == FACTS
    assert held(grove, memory) == 0
    assert alice.post(f"{runs}/{run}/revert", {})["reversal"]["restored"] == FACTS
    alice.delete(f"/v1/memories/{root}")


@pytest.mark.requirement("ME-9.1-17")
def test_an_idle_memory_is_consolidated_by_itself(grove: Product):
    alice = grove.person("alice")
    memory, quiet = alice.plant("Idle"), alice.plant("Hardly written to")
    for n in range(4):
        alice.post(
            f"/v1/memories/{memory}/observe", {"episodes": [{"content": f"Room {n} is too cold today."}]}
        )
    alice.post(f"/v1/memories/{quiet}/observe", {"episodes": [{"content": "Room 9 is too cold today."}]})
    (run,) = alice.until(
        lambda: alice.get(f"/v1/memories/{memory}/consolidations")["data"],
        lambda found: bool(found) and found[0]["status"] == "completed",
    )
    assert (run["trigger"], run["read"]["episodes"]) == ("idle", 4)
    assert alice.get(f"/v1/memories/{quiet}/consolidations")["data"] == []
    alice.delete(f"/v1/memories/{memory}")
