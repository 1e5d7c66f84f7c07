"""What documents say of files, settings and output that can be looked up."""

import re

from tests.architecture.source import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
VARIABLE = re.compile(r"\b(?:GROVE|OTEL)_[A-Z0-9_]*[A-Z0-9]\b(?!_)")
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_link_leads_to_a_file():
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in DOCUMENTS
        for target in LINK.findall(document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert not broken


def test_every_setting_that_is_named_exists():
    known = set(VARIABLE.findall((ROOT / "docs/settings.md").read_text(encoding="utf-8")))
    unknown = {
        f"{document.relative_to(ROOT)}: {name}"
        for document in DOCUMENTS
        for name in VARIABLE.findall(document.read_text(encoding="utf-8"))
        if name not in known
    }
    assert not unknown


def test_the_readme_shows_what_the_example_really_prints():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## An example")[1].split("\n## ")[0]
    printed = (ROOT / "examples/support_desk/OUTPUT.txt").read_text(encoding="utf-8").splitlines()
    _, *excerpts = BLOCK.findall(section)
    assert excerpts
    missing = [line for excerpt in excerpts for line in excerpt.splitlines() if line not in printed]
    assert not missing


def test_the_decisions_are_all_listed():
    room = ROOT / "docs/decisions"
    listed = set(LINK.findall((room / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in room.glob("0*.md")}


def test_the_rules_find_what_they_look_for():
    assert LINK.findall("[a](b.md#c), [d](https://e), [f](#g)") == ["b.md"]
    assert VARIABLE.findall("`GROVE_HOME`, GROVE_…_ADDRESS, OTEL_*, GROVE_MODEL_NAME") == [
        "GROVE_HOME",
        "GROVE_MODEL_NAME",
    ]
