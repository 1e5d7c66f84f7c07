"""Generated code is what its source generates."""

import subprocess
import sys

from tests.architecture.source import ROOT


def test_the_stubs_are_fresh():
    done = subprocess.run(
        [sys.executable, "protos/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
