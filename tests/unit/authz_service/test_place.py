"""The rule itself: what a lineage means for a caller."""

from datetime import UTC, datetime

import pytest

from authz_service.domain.caller import Caller, place
from authz_service.domain.model import ALL, Privilege, Step, privileges
from service_kit.identity import Narrowing, Passport

READ, WRITE, CREATE, DELETE = (int(one) for one in Privilege)


def step(name: str, own: int = 0, *, restricted: bool = False) -> Step:
    return Step(name, restricted, own)


def caller(*narrowing: Narrowing) -> Caller:
    never = datetime.max.replace(tzinfo=UTC)
    return Caller.of(Passport("person:a", ("group:g", "person:a"), frozenset(), None, narrowing, "", never))


def test_what_is_held_above_flows_down_and_is_united():
    found = place(caller(), (step("leaf", READ), step("mid", WRITE), step("root", CREATE)))
    assert found.mask == READ | WRITE | CREATE
    assert [one.mask for one in found.above] == [WRITE | CREATE, CREATE]
    assert found.ancestors == ("root", "mid")
    assert found.parent_id == "mid"
    assert found.depth == 3


def test_a_restricted_node_keeps_its_own_grants_and_loses_those_above():
    found = place(caller(), (step("leaf"), step("mid", WRITE, restricted=True), step("root", ALL)))
    assert found.mask == WRITE
    assert [(one.id, one.mask, one.reaches) for one in found.above] == [
        ("mid", WRITE, True),
        ("root", ALL, False),
    ]
    assert found.ancestors == ("root", "mid")


def test_a_restricted_node_itself_is_reached_by_nothing_above():
    found = place(caller(), (step("leaf", restricted=True), step("root", ALL)))
    assert not found.visible
    assert not found.above[0].reaches


def test_ancestors_end_at_the_first_that_is_hidden():
    line = (step("leaf", READ, restricted=True), step("mid", restricted=True), step("root", READ))
    found = place(caller(), line)
    assert (found.parent_id, found.ancestors) == ("", ())
    assert found.is_entry_point


def test_a_root_that_is_seen_is_an_entry_point_and_one_that_is_not_is_none():
    assert place(caller(), (step("root", READ),)).is_entry_point
    assert not place(caller(), (step("root"),)).is_entry_point


def test_the_nearest_entry_caps_whatever_lies_below_it():
    narrowed = caller(Narrowing("root", "read"), Narrowing("mid", "write"))
    line = (step("leaf", ALL), step("mid"), step("root", ALL))
    assert place(narrowed, line).mask == READ | WRITE
    assert place(narrowed, line[1:]).mask == READ | WRITE
    assert place(narrowed, line[2:]).mask == READ


def test_an_entry_covers_what_lies_below_a_cutoff():
    narrowed = caller(Narrowing("root", "read"), Narrowing("other", "write"))
    assert place(narrowed, (step("leaf", ALL, restricted=True), step("root", ALL))).mask == READ


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        (("read",), READ),
        (("write",), READ | WRITE),
        (("write", "read"), READ),
        (("write", "write"), READ | WRITE),
    ],
)
def test_under_no_entry_the_weakest_of_all_decides(entries: tuple[str, ...], left: int):
    narrowed = caller(
        *(
            Narrowing(f"else{number}", "read" if access == "read" else "write")
            for number, access in enumerate(entries)
        )
    )
    assert place(narrowed, (step("root", ALL),)).mask == left


def test_of_two_entries_for_one_memory_the_weaker_counts():
    narrowed = caller(Narrowing("root", "write"), Narrowing("root", "read"))
    assert place(narrowed, (step("root", ALL),)).mask == READ


def test_a_narrowing_gives_nothing_that_is_not_held():
    narrowed = caller(Narrowing("root", "write"))
    assert place(narrowed, (step("root", READ),)).mask == READ
    assert not place(narrowed, (step("root", CREATE | DELETE),)).visible


def test_a_caller_is_itself_first_and_each_principal_once():
    assert caller().principals == ("person:a", "group:g")
    assert not caller().narrowed
    assert caller(Narrowing("x", "write")).narrowed


def test_privileges_come_in_one_order():
    assert list(privileges(ALL)) == list(Privilege)
    assert list(privileges(READ | DELETE)) == [Privilege.READ, Privilege.DELETE]
