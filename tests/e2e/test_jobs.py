"""The background work of every memory, as an operator sees it."""

import re
import uuid
from collections.abc import Generator

import httpx
import psycopg
import pytest

from tests.e2e.caller import Caller, Json, Refused
from tests.e2e.people import Person
from tests.e2e.runs import consolidated
from tests.fixtures.stack import Stack

FIELDS = {
    "id",
    "kind",
    "object",
    "memory_id",
    "status",
    "created_at",
    "pending_since",
    "finished_at",
    "runs",
    "quarantined_episodes",
    "reason",
}

DAY_S = 86_400


@pytest.fixture
def admin(stack: Stack) -> Generator[Caller]:
    with Caller(stack.url, stack.admin_token) as caller:
        yield caller


def listed(admin: Caller, status: str) -> dict[str, Json]:
    """Every job of a status, by id; page after page."""
    found: dict[str, Json] = {}
    cursor = ""
    while True:
        page = admin.get(f"/v1/grovekeeper/jobs?status={status}&limit=2&cursor={cursor}")
        assert not found.keys() & {one["id"] for one in page["data"]}
        found |= {one["id"]: one for one in page["data"]}
        if page["next_cursor"] is None:
            return found
        cursor = page["next_cursor"]


def oldest_age(stack: Stack) -> float:
    """What the gauge shows, by the name that docs/operating.md gives it."""
    metrics = httpx.get(f"{stack.ops('provider')}/metrics", timeout=30).text
    shown = re.search(r"^grove_derivation_oldest_pending_age_seconds(?:{.*})? (\S+)$", metrics, re.MULTILINE)
    return float(shown[1]) if shown else -1.0


def observed(caller: Caller, memory: str, text: str) -> str:
    job = str(caller.post(f"/v1/memories/{memory}/observe", {"episodes": [{"content": text}]})["job"]["id"])
    caller.finished(memory, job)
    return job


def failed(stack: Stack, memory: str, job: str) -> None:
    """As a derivation leaves it that was set aside three times."""
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "update provider.job set status = 'failed', error = %s where job_id = %s", ("It broke.", job)
        )
        owner.execute("update provider.job_episode set state = 'quarantined' where job_id = %s", (job,))


def test_a_failed_job_is_listed_with_its_reason_and_retried_to_its_end(
    stack: Stack, admin: Caller, alice: Person
):
    memory = alice.plant("Place")
    text = f"The key of house {uuid.uuid4().hex} hangs in the hall."
    job = observed(alice, memory, text)
    assert job in listed(admin, "completed")
    failed(stack, memory, job)
    told = listed(admin, "failed")[job]
    assert set(told) == FIELDS
    assert (told["memory_id"], told["reason"], told["quarantined_episodes"]) == (memory, "It broke.", 1)
    assert text not in str(told)
    assert job in stack.grove("jobs", "list", "--status", "failed", "--limit", "200").stdout
    begun = admin.post(f"/v1/grovekeeper/jobs/{job}/retry", {})
    assert (begun["status"], begun["reason"]) == ("pending", None)
    assert begun["pending_since"] > begun["created_at"]
    assert alice.finished(memory, job)["status"] == "completed"
    assert sorted(one["type"] for one in alice.records(memory)) == ["episode", "fact"]
    with pytest.raises(Refused) as again:
        admin.post(f"/v1/grovekeeper/jobs/{job}/retry", {})
    assert (again.value.status, again.value.code) == (409, "grovekeeper_conflict")
    acts = admin.get("/v1/grovekeeper/audit?action=job.retry")["data"]
    assert {"job": job} in [one["detail"] for one in acts if one["outcome"] == "allowed"]


def test_a_reader_sees_what_is_still_to_be_derived_and_since_when(stack: Stack, alice: Person):
    memory = alice.plant("Place")
    route = f"/v1/grovekeeper/memories/{memory}/derivation"
    job = observed(alice, memory, "The spare key hangs in the hall.")
    assert alice.get(route) == {
        "object": "grovekeeper.derivation",
        "memory_id": memory,
        "pending_jobs": 0,
        "pending_since": None,
        "reason": None,
        "quarantined_episodes": 0,
        "tokens_today": 0,
    }
    url = stack.state().database_url
    assert url is not None
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "update provider.job set status = 'pending', finished_at = null, created_at = '2026-01-02Z',"
            " error = 'It waits.' where job_id = %s",
            (job,),
        )
        try:
            told = alice.get(route)
            assert (told["pending_jobs"], told["reason"]) == (1, "It waits.")
            assert told["pending_since"].startswith("2026-01-02T00:00:00")
            alice.until(lambda: oldest_age(stack), lambda age: age > DAY_S)
        finally:
            owner.execute("update provider.job set status = 'completed' where job_id = %s", (job,))


def test_consolidation_runs_are_listed_beside_the_derivations(stack: Stack, admin: Caller, alice: Person):
    memory = alice.plant("Place")
    job = observed(alice, memory, "The spare key hangs in the hall.")
    done = consolidated(alice, memory)
    found = listed(admin, "completed")
    told = found[done["id"]]
    assert set(told) == FIELDS
    assert (told["kind"], told["memory_id"], told["reason"]) == ("consolidation", memory, None)
    assert found[job]["kind"] == "derivation"
    shown = stack.grove("jobs", "list", "--status", "completed", "--limit", "200").stdout.splitlines()
    (line,) = [one for one in shown if one.startswith(done["id"])]
    assert line.split()[1:4] == ["consolidation", memory, "completed"]
    with pytest.raises(Refused) as refused:
        admin.post(f"/v1/grovekeeper/jobs/{done['id']}/retry", {})
    assert (refused.value.status, refused.value.code) == (404, "grovekeeper_not_found")


def test_the_command_line_retries_a_job(stack: Stack, alice: Person):
    memory = alice.plant("Place")
    job = observed(alice, memory, "The spare key hangs in the hall.")
    failed(stack, memory, job)
    assert stack.grove("jobs", "retry", job).stdout == "pending\n"
    assert alice.finished(memory, job)["status"] == "completed"
    refused = stack.grove("jobs", "retry", job)
    assert (refused.returncode, "Only a failed job is retried" in refused.stderr) == (1, True)


def test_jobs_are_for_administrators_and_unknown_ones_and_statuses_are_refused(admin: Caller, alice: Person):
    memory = alice.plant("Place")
    job = observed(alice, memory, "The spare key hangs in the hall.")
    for method, path in (("GET", "/v1/grovekeeper/jobs"), ("POST", f"/v1/grovekeeper/jobs/{job}/retry")):
        answer = alice.send(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")
    for unknown in ("hjob_" + "0" * 32, "nonsense", "%00"):
        assert admin.send("POST", f"/v1/grovekeeper/jobs/{unknown}/retry").status_code in (400, 404)
    answer = admin.send("GET", "/v1/grovekeeper/jobs?status=broken")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "status")
