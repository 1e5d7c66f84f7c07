"""``python -m tests.requirements.page``: write docs/conformance.md from the table and the marks."""

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.requirements import REQUIREMENTS, SECTIONS, Requirement
from tests.requirements.marks import marks

__all__ = ["document", "main"]

_CHAPTERS: Final = {
    "ME": "Harness Memories",
    "AR": "Architecture",
    "SU": "The surface around them",
}
_INTRO: Final = """\
# What of the specification is kept, and what shows it

Each sentence of the Unified Harness Protocol `2026-10-04` that asks something of a server, in our words, with its
level and the tests that would fail if it were broken. *Not offered* names what this release leaves out and how it
answers instead; a test shows that answer too. *Not ours* names what binds somebody else.

This page is written by `make gen` from `tests/requirements` and the marks of the tests; a test fails when a sentence
has no test, or a mark no sentence.
"""


def document() -> str:
    """The page."""
    shown = marks()
    parts = [_INTRO, _count()]
    for chapter, ones in groupby(REQUIREMENTS, lambda one: one.chapter):
        parts.append(f"## {_CHAPTERS[chapter]}\n")
        for section, rows in groupby(ones, lambda one: one.section):
            title = SECTIONS[chapter][section]
            heading = f"{section} {title}" if section[0].isdigit() else title
            lines = [f"### {heading}\n", "| | | requirement | shown by |", "|---|---|---|---|"]
            lines += [_row(one, shown.get(one.id, [])) for one in rows]
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _count() -> str:
    left_out = sum(bool(one.not_offered) for one in REQUIREMENTS)
    others = sum(bool(one.not_ours) for one in REQUIREMENTS)
    kept = len(REQUIREMENTS) - left_out - others
    return f"{kept} requirements are ours; {left_out} are not offered, {others} not ours to keep.\n"


def _row(one: Requirement, tests: list[str]) -> str:
    said = one.sentence
    if one.not_offered:
        said += f" **Not offered.** {one.not_offered}"
    if one.not_ours:
        said += f" **Not ours.** {one.not_ours}"
    return f"| {one.id} | {one.level} | {_cell(said)} | {'<br>'.join(f'`{test}`' for test in tests)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` answer 1 when it is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    told = parser.parse_args(arguments)
    made = document()
    if told.check:
        return int(not told.out.exists() or told.out.read_text(encoding="utf-8") != made)
    told.out.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
