"""Layers, forbidden imports, who may see the contracts: the contracts of import-linter hold."""

import subprocess
import sys

from tests.architecture.source import ROOT


def test_every_import_contract_is_kept():
    lint = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(
        [*lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
