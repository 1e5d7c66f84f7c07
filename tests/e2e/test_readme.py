"""The first steps of the README, run as they are written there."""

import re
import subprocess

import pytest

from tests.architecture.source import ROOT
from tests.fixtures.stack import GROVE, Stack

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OWN = re.compile(r'[0-9a-f]{32}|(?<=_)[0-9a-f]+…|(?<="written_at":")[^"]*')
"""What is new in every run, and how the README shortens it."""


def masked(text: str) -> str:
    return OWN.sub("·", text.replace("\n", ""))


@pytest.mark.slow
def test_the_first_steps_print_what_the_readme_shows(stack: Stack):
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## First steps")[1].split("\n## ")[0]
    blocks = BLOCK.findall(section)
    script = "".join(text for language, text in blocks if language == "sh")
    script = script.replace(".venv/bin/grove", str(GROVE))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607 - whichever a reader has
        env={**stack.env, "GROVE_PORT": stack.url.rpartition(":")[2]},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recalled, refused, explained, queried, streamed = [text for language, text in blocks if not language]
    for shown in (recalled, refused, explained, queried):
        assert masked(shown) in masked(done.stdout)
    # What is found besides depends on how far the deriving has come.
    assert streamed.splitlines()[0] in done.stdout
    said = "".join(re.findall(r'^"delta":"(.*)"\}$', done.stdout, re.MULTILINE))
    assert "Nadia Brandt is the new buyer at Acme." in said
