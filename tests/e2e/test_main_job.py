"""The main job, as its user does it: a tree with grants and a cutoff, records, what was observed, a turn."""

import uuid
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from tests.e2e.caller import Caller, Json, Refused, text_of
from tests.fixtures.parts import short_directory
from tests.fixtures.stack import Stack, running

NEVER_ISSUED = "hmem_" + "0" * 32
TRANSCRIPT = (
    ("user", "Priya", "Our freezer alarm limit is minus seventeen degrees."),
    ("assistant", "Desk", "Thanks, I have noted that. Who should we call at night?"),
    ("user", "Priya", "At night please call Jonas Lindqvist on extension 4417."),
)


@dataclass
class Company:
    """Company > (Sales > Acme, People's files); the files are restricted. Names are this test's own.

    alice creates all but the files. bob is in the group sales: read and write on Sales. hanna keeps the
    files and reads Company. olaf has a token and nothing else.
    """

    alice: Caller
    bob: Caller
    hanna: Caller
    olaf: Caller
    root: str
    sales: str
    acme: str
    files: str


def build(stack: Stack, stem: str) -> Generator[Company]:
    def someone(name: str, *groups: str) -> Caller:
        return Caller(stack.url, stack.token(person=f"{name}-{stem}", groups=groups))

    with (
        someone("alice") as alice,
        someone("bob", f"sales-{stem}") as bob,
        someone("hanna") as hanna,
        someone("olaf") as olaf,
    ):
        root = alice.plant("Company", description="Prices, hours and who is who.")
        sales = alice.plant("Sales", root, description="Accounts and objections.")
        acme = alice.plant("Acme", sales, description="One customer.")
        alice.grant(sales, f"group:sales-{stem}", "read", "write")
        alice.grant(root, f"person:hanna-{stem}", "read", "create")
        files = hanna.plant("Files", root, description="Pay and reviews.", restricted=True)
        yield Company(alice, bob, hanna, olaf, root, sales, acme, files)


@pytest.fixture
def company(stack: Stack) -> Generator[Company]:
    yield from build(stack, uuid.uuid4().hex[:8])


def names(memories: list[Json]) -> list[str]:
    return sorted(one["name"] for one in memories)


def without_trace(error: Json) -> Json:
    return {**error, "detail": {key: value for key, value in error["detail"].items() if key != "trace_id"}}


@pytest.mark.requirement("ME-2-13", "ME-3.1-02", "ME-2-05")
def test_a_tree_is_seen_as_far_as_it_was_granted(company: Company):
    alice, bob, hanna, olaf = company.alice, company.bob, company.hanna, company.olaf
    assert names(alice.listing()) == names(hanna.listing()) == ["Company"]
    assert names(alice.listing(f"parent={company.root}")) == ["Sales"]
    assert names(hanna.listing(f"parent={company.root}")) == ["Files", "Sales"]
    assert names(alice.listing(f"ancestor={company.root}")) == ["Acme", "Sales"]

    entry = bob.listing()
    assert names(entry) == ["Sales"]
    assert entry[0]["parent_id"] is None
    assert entry[0]["ancestors"] == []
    assert sorted(entry[0]["privileges"]) == ["read", "write"]
    assert bob.get(f"/v1/memories/{company.acme}")["ancestors"] == [company.sales]
    assert olaf.listing() == []

    assert alice.get(f"/v1/memories/{company.root}")["children"]["count"] == 1
    assert hanna.get(f"/v1/memories/{company.root}")["children"]["count"] == 2


@pytest.mark.requirement("ME-3.2-01")
def test_a_cutoff_hides_what_is_below_it_even_from_whoever_owns_what_is_above(company: Company):
    company.hanna.remember(company.files, "Alice's pay is reviewed in May.")
    for nobody in (company.alice, company.bob, company.olaf):
        refused: list[Json] = []
        for memory in (company.files, NEVER_ISSUED):
            with pytest.raises(Refused) as refusal:
                nobody.recall(memory, "pay")
            assert refusal.value.status == 404
            assert refusal.value.code == "memory_not_found"
            refused.append(without_trace(refusal.value.error))
        assert refused[0] == refused[1]
    assert company.alice.found(company.root, "When is pay reviewed?", depth=5) == []
    assert company.hanna.found(company.root, "When is pay reviewed?", depth=5) == [
        "Alice's pay is reviewed in May."
    ]


@pytest.mark.requirement("ME-12-02")
def test_whoever_sees_a_memory_and_lacks_a_privilege_is_forbidden(company: Company):
    with pytest.raises(Refused) as refusal:
        company.bob.plant("Globex", company.sales)
    assert (refusal.value.status, refusal.value.code) == (403, "memory_forbidden")
    with pytest.raises(Refused) as refusal:
        company.hanna.remember(company.root, "I may only read here.")
    assert (refusal.value.status, refusal.value.code) == (403, "memory_forbidden")


@pytest.mark.requirement("ME-3.1-10")
def test_a_grant_taken_back_holds_for_the_next_request(company: Company):
    assert company.bob.get(f"/v1/memories/{company.sales}")["name"] == "Sales"
    for grant in company.alice.get(f"/v1/memories/{company.sales}/grants")["data"]:
        if grant["principal"].startswith("group:"):
            company.alice.delete(f"/v1/memories/{company.sales}/grants/{grant['id']}")
    with pytest.raises(Refused) as refusal:
        company.bob.get(f"/v1/memories/{company.sales}")
    assert refusal.value.code == "memory_not_found"
    assert company.bob.listing() == []


@pytest.mark.requirement("SU-requests-02")
def test_a_revoked_token_opens_nothing_from_the_next_request_on(stack: Stack):
    made = stack.grove("token", "create", "--person", "brief")
    token = made.stdout.strip()
    with Caller(stack.url, token) as brief:
        assert brief.get("/v1/grovekeeper/whoami")["principal"] == "person:brief"
        assert stack.grove("token", "revoke", token).returncode == 0
        with pytest.raises(Refused) as refusal:
            brief.get("/v1/grovekeeper/whoami")
    assert (refusal.value.status, refusal.value.code) == (401, "invalid_credential")


def test_a_record_is_recalled_the_moment_remember_answers(company: Company):
    bob, acme = company.bob, company.acme
    written: Json = {}
    for number in range(10):
        written = bob.remember(
            acme, f"The badge of visitor {number} opens door K{number}{number}.", attributes={"door": number}
        )
        asked = {
            "query": {"query": f"Which door does the badge of visitor {number} open?"},
            "text": {"text": f"K{number}{number}"},
            "filters": {"filters": {"field": "attributes.door", "op": "eq", "value": number}},
        }
        for signal, question in asked.items():
            answer = bob.post(f"/v1/memories/{acme}/recall", {**question, "limit": 1})
            assert answer["results"][0]["record"]["id"] == written["id"], signal
            assert answer["results"][0]["why"] == [signal]
            assert answer["degraded"] == []
    assert written["written_by"] == {
        "kind": "person",
        "id": bob.get("/v1/grovekeeper/whoami")["principal"][7:],
    }
    assert written["trust"] == "untrusted"


@pytest.mark.requirement("ME-6.1-02")
def test_a_recall_says_where_to_go_from_there(company: Company):
    company.alice.remember(company.root, "The desk is open from eight to six.")
    company.alice.remember(company.acme, "Acme pays by invoice.")
    seen = company.alice.recall(company.sales, "opening hours")
    assert seen["parent"]["name"] == "Company"
    assert seen["parent"]["records"]["count"] == 1
    assert seen["parent"]["description"] == "Prices, hours and who is who."
    (acme,) = seen["children"]
    assert acme == {
        "id": company.acme,
        "name": "Acme",
        "description": "One customer.",
        "records": {"count": 1},
    }
    assert seen["abstain"]
    assert "parent" not in company.bob.recall(company.sales, "opening hours")


@pytest.mark.requirement("ME-5.3-01", "ME-5.3-03", "ME-5.3-04")
def test_a_revised_fact_replaces_the_old_one_and_the_old_one_can_still_be_read(company: Company):
    bob, acme = company.bob, company.acme
    first = bob.remember(acme, "Acme's alarm limit is minus fifteen degrees.")
    second = bob.call(
        "PATCH",
        f"/v1/memories/{acme}/records/{first['id']}",
        {"content": "Acme's alarm limit is minus seventeen degrees."},
    )
    assert (second["id"], second["version"]) == (first["id"], 2)
    assert bob.found(acme, "What is the alarm limit?") == ["Acme's alarm limit is minus seventeen degrees."]
    before = bob.recall(acme, "What is the alarm limit?", as_of=first["time"]["written_at"])
    assert [one["record"]["content"] for one in before["results"]] == [
        "Acme's alarm limit is minus fifteen degrees."
    ]
    history = bob.get(f"/v1/memories/{acme}/records/{first['id']}/history")["data"]
    assert [one["status"] for one in history] == ["superseded", "active"]

    assert bob.delete(f"/v1/memories/{acme}/records/{first['id']}")["status"] == "forgotten"
    assert bob.found(acme, "What is the alarm limit?") == []


@pytest.mark.requirement("ME-5.1-01", "ME-5.1-02", "ME-5.1-03")
def test_an_observed_transcript_is_kept_word_for_word_and_becomes_facts(company: Company):
    bob, acme = company.bob, company.acme
    episodes = [
        {"content": text, "role": role, "attributes": {"speaker": speaker}}
        for role, speaker, text in TRANSCRIPT
    ]
    answer = bob.send("POST", f"/v1/memories/{acme}/observe", {"episodes": episodes})
    assert answer.status_code == 202
    assert answer.json()["records"] == []

    job = bob.finished(acme, answer.json()["job"]["id"])
    assert job["status"] == "completed"
    kept = {one["id"]: one["content"] for one in bob.records(acme, "types=episode")}
    assert sorted(kept.values()) == sorted(text for _, _, text in TRANSCRIPT)
    facts = [one for one in job["records"] if one["type"] == "fact"]
    assert facts
    assert {one["id"] for one in job["records"]} == kept.keys() | {one["id"] for one in facts}
    for fact in facts:
        (source,) = fact["references"]
        assert source["rel"] == "derived_from"
        assert fact["content"] in kept[source["record_id"]]
    found = bob.found(acme, "Who is called at night?", types=["fact"], limit=1)
    assert found == ["At night please call Jonas Lindqvist on extension 4417."]


@pytest.mark.requirement("ME-9.1-15", "ME-9.1-16")
def test_a_streamed_turn_uses_the_memories_and_is_observed(company: Company):
    bob, alice, acme = company.bob, company.alice, company.acme
    alice.remember(acme, "Acme renews its contract in March.")
    harness = alice.harness("Desk", {"memory_id": acme, "access": "write", "default": True})

    first = alice.stream("Recall: When does Acme renew its contract?", harness)
    assert [event["sequence_number"] for event in first.events] == list(range(len(first.events)))
    assert first.events[0]["type"] == "response.created"
    assert first.events[-1]["type"] == "response.completed"
    deltas = "".join(event["delta"] for event in first.of("response.output_text.delta"))
    assert "Acme renews its contract in March." in deltas
    assert deltas == text_of(first.response)
    calls = [item["name"] for item in first.response["output"] if item["type"] == "function_call"]
    assert calls == ["memory_recall"]
    assert alice.get(f"/v1/responses/{first.response['id']}") == first.response

    second = alice.stream("Remember: Acme's new buyer is Nadia Brandt.", harness, first.response["id"])
    assert second.response["metadata"]["session_id"] == first.response["metadata"]["session_id"]
    (record,) = [
        one
        for one in bob.records(acme, "types=fact")
        if one["content"] == "Acme's new buyer is Nadia Brandt."
    ]
    assert record["written_by"] == {"kind": "harness", "id": harness}

    def episodes() -> list[str]:
        return [one["content"] for one in bob.records(acme, "types=episode")]

    observed = bob.until(episodes, lambda seen: len(seen) >= 6)
    assert sorted(observed) == sorted(
        [
            "Recall: When does Acme renew its contract?",
            "Tools that ran: memory_recall.",
            text_of(first.response),
            "Remember: Acme's new buyer is Nadia Brandt.",
            "Tools that ran: memory_remember.",
            text_of(second.response),
        ]
    )


@pytest.mark.requirement("ME-9.1-14", "ME-13-03")
def test_a_turn_reaches_what_its_harness_was_granted_and_no_more(company: Company):
    company.hanna.remember(company.files, "Bob's review is on Friday.")
    company.alice.remember(company.root, "The desk is open from eight to six.")
    harness = company.alice.harness("Desk", {"memory_id": company.root, "access": "read"})
    open_memory = company.alice.run(f"Recall in {company.root}: When is the desk open?", harness)
    assert "eight to six" in text_of(open_memory)
    hidden = company.alice.run(f"Recall in {company.files}: When is Bob's review?", harness)
    unknown = company.alice.run(f"Recall in {NEVER_ISSUED}: When is Bob's review?", harness)
    assert "memory_not_found" in text_of(hidden)
    assert text_of(hidden) == text_of(unknown)
    writing = company.alice.run("Remember: The desk is closed.", harness)
    assert "The desk is closed." not in company.alice.found(company.root, "desk", limit=50)
    assert not [item for item in writing["output"] if item["type"] == "function_call"]


@pytest.mark.requirement("ME-9-05", "ME-9-03")
def test_a_memory_is_attached_only_by_whoever_may_grant_it(company: Company):
    harness = company.bob.harness("Mine")
    body = {"memories": [{"memory_id": company.sales, "access": "write"}]}
    with pytest.raises(Refused) as refusal:
        company.bob.put(f"/v1/harnesses/{harness}/memories", body)
    assert refusal.value.code == "memory_forbidden"
    company.alice.grant(company.sales, f"harness:{harness}", "read", "write")
    assert company.bob.put(f"/v1/harnesses/{harness}/memories", body) == body


@pytest.mark.requirement("ME-5.1-07", "SU-tasks-12")
def test_everything_sent_twice_with_one_key_happens_once(company: Company):
    alice, acme = company.alice, company.acme
    harness = alice.harness("Desk")
    once: list[tuple[str, Json]] = [
        ("/v1/memories", {"name": "Globex", "description": "Another.", "parent_id": company.sales}),
        (f"/v1/memories/{acme}/records", {"type": "fact", "content": "Acme pays by invoice."}),
        (f"/v1/memories/{acme}/observe", {"episodes": [{"content": "We pay within thirty days."}]}),
        ("/v1/harnesses", {"name": "Night desk", "base": "scripted"}),
        (
            "/v1/responses",
            {"input": "Reply with exactly: once", "metadata": {"harness_id": harness}},
        ),
    ]
    for number, (path, body) in enumerate(once):
        key = f"{acme}-{number}"
        first, again = alice.post(path, body, key), alice.post(path, body, key)
        if path.endswith("/observe"):
            assert again["job"]["id"] == first["job"]["id"]
        else:
            assert again == first
        changed = body | {"description": "no", "input": "Reply with exactly: twice"} | {"note": 1}
        with pytest.raises(Refused) as refusal:
            alice.post(path, changed, key)
        assert (refusal.value.status, refusal.value.code) == (422, "grovekeeper_idempotency_mismatch"), path
    assert names(alice.listing(f"parent={company.sales}")) == ["Acme", "Globex"]
    assert len(alice.records(acme, "types=fact,episode")) <= 3
    assert [one["content"] for one in alice.records(acme, "types=episode")] == ["We pay within thirty days."]


@pytest.mark.requirement("ME-2-16")
def test_deleting_a_memory_takes_what_is_below_it(company: Company):
    company.bob.remember(company.acme, "Acme pays by invoice.")
    assert company.alice.delete(f"/v1/memories/{company.sales}")["id"] == company.sales
    for gone in (company.sales, company.acme):
        with pytest.raises(Refused) as refusal:
            company.alice.get(f"/v1/memories/{gone}")
        assert refusal.value.code == "memory_not_found"
    assert company.alice.listing(f"parent={company.root}") == []


@pytest.mark.requirement("AR-3-04")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_restart_loses_nothing():
    with short_directory() as directory:
        home = directory / "home"
        with running(home) as stack:
            building = build(stack, "restart")
            company = next(building)
            company.bob.remember(company.acme, "Acme renews its contract in March.")
            company.hanna.remember(company.files, "Bob's review is on Friday.")
            harness = company.alice.harness(
                "Desk", {"memory_id": company.acme, "access": "write", "default": True}
            )
            first = company.alice.run("Recall: When does Acme renew?", harness)
            building.close()
            tokens = dict(stack.tokens)
            assert stack.stop() == 0
        with running(home) as stack:
            stack.tokens.update(tokens)
            alice = Caller(stack.url, company.alice.token)
            bob = Caller(stack.url, company.bob.token)
            with alice, bob:
                assert names(alice.listing(f"ancestor={company.root}")) == ["Acme", "Sales"]
                assert "Acme renews its contract in March." in bob.found(
                    company.acme, "When does Acme renew?"
                )
                assert alice.get(f"/v1/responses/{first['id']}") == first
                second = alice.run("Recall: When does Acme renew?", harness, first["id"])
                assert second["metadata"]["session_id"] == first["metadata"]["session_id"]
                assert "in March" in text_of(second)
                with pytest.raises(Refused):
                    alice.recall(company.files, "review")
