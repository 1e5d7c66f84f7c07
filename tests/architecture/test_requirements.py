"""Every requirement has a test that says it shows it, and no test says so of one that there is not."""

import re
from collections import Counter

from tests.architecture.source import ROOT
from tests.requirements import REQUIREMENTS, SECTIONS
from tests.requirements.marks import marks
from tests.requirements.page import main


def test_every_requirement_that_can_have_a_test_has_one():
    shown = marks()
    orphans = [
        f"{one.id}: {one.sentence}" for one in REQUIREMENTS if not one.not_ours and one.id not in shown
    ]
    assert not orphans, "\n".join(["no test is marked with these:", *orphans])


def test_every_mark_names_a_requirement_and_marks_a_test():
    known = {one.id for one in REQUIREMENTS if not one.not_ours}
    astray = {
        f"{test}: {ident}"
        for ident, tests in marks().items()
        for test in tests
        if ident not in known or not test.rpartition("::")[2].startswith("test_")
    }
    assert not astray


def test_the_table_is_in_order():
    counted = Counter(one.id for one in REQUIREMENTS)
    assert [ident for ident, times in counted.items() if times > 1] == []
    for one in REQUIREMENTS:
        assert re.fullmatch(r"(ME|AR|SU)-[0-9a-z.]+-\d\d", one.id), one.id
        assert one.section in SECTIONS[one.chapter], one.id
        assert one.sentence.endswith("."), one.id
        assert not (one.not_offered and one.not_ours), one.id


def test_the_page_of_conformance_says_what_the_table_and_the_marks_say():
    assert main(["--out", str(ROOT / "docs" / "conformance.md"), "--check"]) == 0, "run `make gen`"
