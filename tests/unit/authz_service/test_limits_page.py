"""The page on access tells the limits there are."""

from pathlib import Path

import pytest

from authz_service.domain import (
    add_grant,
    attach_harness,
    check,
    create_token,
    groups,
    hold_node,
    model,
    principals,
    refusals,
)
from memory_service.domain import memories
from service_kit.paging import clamp_limit

PAGE = Path(__file__).parents[3] / "docs" / "access.md"


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """What the table says, by what it says it of."""
    section = PAGE.read_text().partition("\n## Limits\n")[2].partition("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| ")]
    return {what: most for what, most in rows if most != "at most"}


LIMITS = {
    "id of a principal": f"{principals.MAX_ID} characters",
    "name of a memory": f"{memories.MAX_NAME} characters",
    "description of a memory": f"{memories.MAX_DESCRIPTION:,} characters",
    "levels of a tree": f"{model.MAX_DEPTH}",
    "grants that sit on one memory, the creator's implicit one aside": f"{add_grant.MOST:,};",
    "memories a harness is attached to": f"{attach_harness.MOST},",
    "memories in one question of a service to authz": f"{check.MOST:,}",
    "items on a page": f"{clamp_limit(10**9)}; {clamp_limit(0)} where",
    "groups a credential names": f"{principals.MOST_GROUPS}, with {principals.MOST_GROUP_CHARACTERS:,}",
    "live tokens of a principal": f"{create_token.MOST:,}",
    "life of a token that ends": "ten years",
    "kept groups": f"{groups.MOST_KEPT:,}",
    "members of a kept group": f"{groups.MOST_MEMBERS:,}",
    "kept groups a principal is in": f"{groups.MOST_MEMBERSHIPS}",
    "description of a group": f"{groups.MAX_DESCRIPTION:,} characters",
    "groups named to explain": f"{principals.MOST_GROUPS}",
    "mark of work under way": f"{hold_node.LONGEST:,} seconds",
    "recorded refusals of one actor in a minute": f"{refusals.MOST} for each",
}


def test_the_page_tells_every_limit_as_it_is(told: dict[str, str]):
    assert told.keys() == LIMITS.keys()
    for what, most in LIMITS.items():
        assert told[what].startswith(most), what
    assert create_token.LONGEST == 10 * 366 * 24 * 3600


def test_the_page_tells_the_bounds_of_what_is_recorded_of_refusals():
    page = PAGE.read_text()
    assert f"of one actor at most {refusals.MOST} refusals a minute" in page
    assert f"{refusals.MOST} for each address and {refusals.MOST_OF_STRANGERS:,} in all" in page


def test_the_page_names_every_action_there_is_a_record_of():
    root = Path(__file__).parents[3] / "authz_service"
    page = PAGE.read_text().partition("\n## Audit\n")[2].partition("\n## ")[0]
    text = "".join(file.read_text() for folder in ("api", "domain") for file in (root / folder).rglob("*.py"))
    named = {
        word for word in text.split('"') if "." in word and word.replace(".", "").replace("_", "").isalpha()
    }
    kinds = (
        "memory",
        "grant",
        "harness",
        "group",
        "member",
        "token",
        "access",
        "passport",
        "audit",
        "principal",
    )
    actions = {word for word in named if word.partition(".")[0] in kinds and word.count(".") == 1}
    assert {"grant.add", "access.check", "memory.hold", "token.revoke"} <= actions
    assert not {one for one in actions if f"`{one}`" not in page}
