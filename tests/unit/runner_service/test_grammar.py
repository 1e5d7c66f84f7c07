import pytest
from msgspec import Raw

from runner_service.bases.scripted.answers import say
from runner_service.bases.scripted.grammar import MAX_COUNT, Call, Count, Reply, Unknown, read_command
from runner_service.domain.fence import fenced


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Reply with exactly: ok", Reply("ok")),
        ("  reply WITH exactly:  two words \n", Reply("two words")),
        ("Reply with exactly: a\nb", Reply("a\nb")),
        ("Count slowly from 1 to 200, one number per line.", Count(1, 200)),
        ("count slowly from 3 to -1 one number per line", Count(3, -1)),
        ("Count slowly from 1 to 5", Count(1, 5)),
        ("Recall: Who is called at night?", Call("memory_recall", {"query": "Who is called at night?"})),
        ("recall in Support team: keys", Call("memory_recall", {"query": "keys"}, "Support team")),
        ('Recall in "Sales: EU": keys', Call("memory_recall", {"query": "keys"}, "Sales: EU")),
        ("What do you know about Acme?", Call("memory_recall", {"query": "Acme"})),
        ("remember: Bertie has the key.", Call("memory_remember", {"content": "Bertie has the key."})),
        ("Remember in Notes: a: b", Call("memory_remember", {"content": "a: b"}, "Notes")),
        ("Revise hrec_1: new", Call("memory_revise", {"record": "hrec_1", "content": "new"})),
        (
            "Revise hrec_1 in Notes: new",
            Call("memory_revise", {"record": "hrec_1", "content": "new"}, "Notes"),
        ),
        ("Forget hrec_1.", Call("memory_forget", {"record": "hrec_1"})),
        ("Forget hrec_1 in Notes", Call("memory_forget", {"record": "hrec_1"}, "Notes")),
        ("List memories", Call("memory_list", {})),
        ("Run open_deals", Call("memory_run_query", {"name": "open_deals"})),
        (
            'run open_deals in Sales with {"least": 1.10, "id": 12345678901234567890}',
            Call(
                "memory_run_query",
                {"name": "open_deals", "params": Raw(b'{"least": 1.10, "id": 12345678901234567890}')},
                "Sales",
            ),
        ),
        (
            "Query sql in Sales: select ':a' from records",
            Call("memory_query", {"language": "sql", "statement": "select ':a' from records"}, "Sales"),
        ),
        ("Do complete on hrec_1", Call("memory_operate", {"record": "hrec_1", "operation": "complete"})),
        (
            'do note on hrec_1 with {"a": {"b": "c"}}.',
            Call(
                "memory_operate",
                {"record": "hrec_1", "operation": "note", "input": Raw(b'{"a": {"b": "c"}}')},
            ),
        ),
    ],
)
def test_the_grammar_means_what_it_says(text: str, meant: object) -> None:
    assert read_command(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello there",
        "Reply with exactly:",
        "Please reply with exactly: ok",
        f"Count slowly from 0 to {MAX_COUNT}, one number per line.",
        "Recall:",
        "Forget it all please",
        "Run open_deals with {not json}",
        "Do complete",
    ],
)
def test_anything_else_is_not_understood(text: str) -> None:
    assert read_command(text) == Unknown()


@pytest.mark.requirement("ME-13-02")
def test_what_was_recalled_is_said_with_its_writer() -> None:
    hit = {"content": "Renews in March.", "type": "fact", "written_by": "person:ana", "memory_name": "Sales"}
    said = say("memory_recall", fenced({"results": [hit], "abstain": False}), failed=False)
    assert said == "In Sales:\n- Renews in March. (fact, written by person:ana)"


def test_what_a_query_answered_is_said_as_it_stands() -> None:
    output = fenced({"columns": ["n"], "rows": [Raw(b"[1.10]")]})
    assert say("memory_run_query", output, failed=False) == 'It answered: {"columns":["n"],"rows":[[1.10]]}'


def test_a_memory_that_abstains_is_not_quoted() -> None:
    hit = {"content": "noise", "type": "fact", "written_by": "person:ana", "memory_name": "Sales"}
    said = say("memory_recall", fenced({"results": [hit], "abstain": True}), failed=False)
    assert said == "This memory has no answer to that."


def test_a_refusal_is_passed_on_with_its_code() -> None:
    said = say("memory_remember", "memory_forbidden: You may not write here.", failed=True)
    assert said == "The memory refused: memory_forbidden: You may not write here."
