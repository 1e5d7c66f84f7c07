"""`grove base`: what is installed is what was locked, or a clear word why not."""

import json
from pathlib import Path

import pytest

from service_kit.agents.catalogue import AGENTS
from service_kit.cli import bases
from service_kit.embedded.errors import LaunchError
from service_kit.embedded.home import Home
from service_kit.embedded.settings import UpSettings

PROGRAM = "#!/bin/sh\\necho 9.9 stand-in\\n"


def npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> UpSettings:
    """An npm that does what a test says, and a home to install into."""
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("GROVE_AGENTS_DIR", raising=False)
    return UpSettings(home=folder / "home")


def left(settings: UpSettings) -> list[str]:
    return sorted(one.name for one in (settings.directory() / "bases").iterdir())


@pytest.mark.parametrize("name", AGENTS)
def test_every_package_of_a_lock_has_its_digest_and_the_version_is_exact(name: str):
    agent = AGENTS[name]
    locked = json.loads((agent.lock / "package-lock.json").read_text())
    assert locked["packages"][""]["dependencies"] == {agent.package: agent.version}
    assert agent.version[0].isdigit()
    assert all(one["integrity"].startswith("sha512-") for path, one in locked["packages"].items() if path)


def test_an_agent_is_installed_without_scripts_and_listed_as_what_it_says_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    agent = AGENTS["claude-code"]
    assert agent.program is not None
    script = f"""echo "$@" > {tmp_path}/asked; cat package-lock.json > {tmp_path}/lock
mkdir -p {agent.program.parent}; printf '{PROGRAM}' > {agent.program}; chmod +x {agent.program}"""
    settings = npm(tmp_path, script, monkeypatch)
    said = list(bases.install(settings, "claude-code", 30))
    assert "proprietary" in said[0]
    assert "9.9 stand-in" in said[-1]
    assert {"ci", "--ignore-scripts"} <= set((tmp_path / "asked").read_text().split())
    assert (tmp_path / "lock").read_text() == (agent.lock / "package-lock.json").read_text()
    assert left(settings) == ["claude-code"]
    with Home(settings.directory()).claim() as first:
        assert not first
    assert bases.listed(settings)[1][2] == "9.9 stand-in"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo npm ERR! ENOTFOUND >&2; exit 1", "npm failed: npm ERR! ENOTFOUND"),
        ("echo code EINTEGRITY >&2; exit 1", "not the one that was locked"),
        ("sleep 20", "not done after"),
        ("true", "does not run here"),
    ],
)
def test_what_went_wrong_is_said_and_nothing_half_done_is_left(
    script: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = npm(tmp_path, script, monkeypatch)
    with pytest.raises(LaunchError, match=told):
        list(bases.install(settings, "claude-code", 1))
    assert left(settings) == []
    assert bases.listed(settings)[1][2] == "no"


def test_without_npm_or_for_an_unknown_agent_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, told in (("claude-code", "npm is not there"), ("nobody", "there is no agent nobody")):
        with pytest.raises(LaunchError, match=told):
            list(bases.install(UpSettings(home=tmp_path / "home"), name, 1))
    assert not (tmp_path / "home").exists()
