from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from provider_workers.adapters.native.capabilities import document
from provider_workers.domain import checks, limits
from provider_workers.domain.filters import condition
from provider_workers.domain.model import Changes, Draft, File, Part, Question, Reference, Selection
from service_kit.errors import GroveError

NATIVE = document(derives=True, files=False)
WORDS = (Part("text", "Words."),)
EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (lambda: checks.changes(Changes(), NATIVE), "invalid_input"),
        (lambda: checks.changes(Changes(clear=frozenset({"type"})), NATIVE), "invalid_input"),
        (lambda: checks.changes(Changes(attributes=b"7"), NATIVE), "invalid_input"),
        (
            lambda: checks.changes(Changes(references=(Reference("r" * 65, "m", "r"),)), NATIVE),
            "invalid_input",
        ),
        (lambda: checks.changes(Changes(content=(Part("text"),)), NATIVE), "memory_invalid"),
        (lambda: checks.revised(Draft("fact")), "memory_invalid"),
        (lambda: checks.revised(Draft("fact", WORDS, valid_from=LATE, valid_to=EARLY)), "invalid_input"),
        (lambda: checks.draft(Draft("fact", WORDS * 1_001), NATIVE), "grovekeeper_too_large"),
        (lambda: checks.draft(Draft("fact", (Part("file", file=File()),)), NATIVE), "memory_unsupported"),
        (lambda: checks.selection(Selection(types=("x",) * 101)), "invalid_input"),
        (lambda: checks.selection(Selection(types=("",))), "invalid_input"),
        (lambda: checks.question(Question(Selection())), "memory_invalid"),
        (lambda: checks.question(Question(Selection(), text="x" * 10_001)), "grovekeeper_too_large"),
        (lambda: checks.identifier("", "record_id"), "invalid_input"),
        (lambda: checks.identifier("a\0", "record_id"), "invalid_input"),
        (lambda: checks.identifier("a" * (limits.MAX_ID + 1), "record_id"), "invalid_input"),
        (lambda: checks.many([], 3, "record_ids", least=1), "invalid_input"),
        (lambda: checks.many([1] * 4, 3, "record_ids"), "invalid_input"),
    ],
)
def test_what_no_provider_takes_is_refused_with_its_code(check: Callable[[], None], code: str):
    with pytest.raises(GroveError) as refused:
        check()
    assert refused.value.code == code
    assert refused.value.message[0].isupper()


@pytest.mark.parametrize(
    "attributes", [b"", b"{}", b'{"url":""}', b'{"url":5}', b'{"address":null}', b'{"at":"x"}']
)
def test_a_link_without_an_address_is_refused(attributes: bytes):
    link = Draft("link", (Part("text", "A handbook."),), attributes)
    with pytest.raises(GroveError) as refused:
        checks.draft(link, NATIVE)
    assert (refused.value.code, refused.value.param) == ("memory_invalid", "attributes")
    with pytest.raises(GroveError):
        checks.revised(link)


def test_what_every_provider_takes_passes():
    checks.draft(Draft("link", attributes=b'{"url":"https://a"}'), NATIVE)
    checks.draft(Draft("link", (Part("text", "A handbook."),), b'{"address": "desk 4" }'), NATIVE)
    checks.draft(Draft("x.board.card"), NATIVE)
    checks.revised(Draft("link", attributes=b'{"url":"https://a"}'))
    checks.changes(Changes(clear=frozenset({"valid_to"})), NATIVE)
    checks.question(Question(Selection(filter=condition("type", "exists", b""))))
    assert checks.content_bytes((Part("text", "é"), Part("x.a", raw=b"{}"))) == 4
