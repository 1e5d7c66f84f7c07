"""Sizes: modules one can hold in mind, functions one can see at once. Statements, branches and arguments
are ruff's; what ruff does not count is counted here.
"""

import re

from tests.architecture.source import checks, modules

MODULE_LINES = 400
TEST_LINES = 600


def test_a_module_is_not_longer_than_one_can_hold_in_mind():
    found = {module.path: lines for module in modules() if (lines := module.text.count("\n")) > MODULE_LINES}
    assert not found


def test_a_test_module_tells_of_one_thing():
    found = {module.path: lines for module in checks() if (lines := module.text.count("\n")) > TEST_LINES}
    assert not found


def test_nothing_is_left_for_later():
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{module.path}:{number}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if later.search(line)
    ]
    assert not found


def test_a_test_is_named_by_a_sentence():
    short = [
        f"{module.path}:{name}"
        for module in checks()
        for name, _ in module.functions()
        if name.rpartition(".")[2].startswith("test_") and name.count("_") < 3
    ]
    assert not short
