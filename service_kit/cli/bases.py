"""``grove base``: install agents that are programs of their own, from npm, exactly the versions that are locked."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from service_kit.agents.catalogue import AGENTS, Agent
from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.home import Home
from service_kit.embedded.settings import UpSettings, environment
from service_kit.settings import AgentSettings

__all__ = ["install", "installed", "listed"]

_NPM: Final = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--loglevel=error")
_RUN_S: Final = 30.0
_WORDS: Final = 600


def install(settings: UpSettings, name: str, timeout_s: float) -> Iterator[str]:
    """Install one, in place of whatever version was there; answers what is to be said, as it happens.

    Raises :class:`LaunchError`: an unknown name, no npm, a registry that does not answer, a package that is not what was
    locked, a program that does not run here.
    """
    agent = _agent(name)
    if agent.program is None:
        raise LaunchError(f"there is no {name} for this machine", code=REFUSED)
    npm = shutil.which("npm")
    if npm is None:
        raise LaunchError(
            "npm is not there", "install Node.js with npm; it is not needed afterwards", REFUSED
        )
    yield f"{agent.package} {agent.version}, licence: {agent.licence}"
    yield "its install scripts are not run"
    target = _directory(settings) / name
    home = Home(settings.directory())
    if target.is_relative_to(home.path) and home.judge() is None:
        with home.claim():
            pass  # laid out and marked as ours: else the first start refuses it
    target.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
    try:
        for file in ("package.json", "package-lock.json"):
            shutil.copyfile(agent.lock / file, fresh / file)
        _run_npm(npm, fresh, timeout_s)
        said = _version(fresh / agent.program)
        fresh.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    yield f"installed in {target}: {said}; it is offered when the runner starts again"


def listed(settings: UpSettings) -> list[Sequence[str]]:
    """Every agent there is, with a heading."""
    return [
        ("NAME", "VERSION", "INSTALLED", "LICENCE"),
        *((one.name, one.version, installed(settings, one), one.licence) for one in AGENTS.values()),
    ]


def installed(settings: UpSettings, agent: Agent) -> str:
    """What the installed program says of its version, ``does not run``, or ``no``."""
    program = None if agent.program is None else _directory(settings) / agent.name / agent.program
    if program is None or not program.exists():
        return "no"
    try:
        return _version(program)
    except LaunchError:
        return "does not run"


def _agent(name: str) -> Agent:
    found = AGENTS.get(name)
    if found is None:
        raise LaunchError(f"there is no agent {name}", f"one of {', '.join(AGENTS)}", REFUSED)
    return found


def _directory(settings: UpSettings) -> Path:
    told = AgentSettings.load().model_copy(update={"home": settings.directory()})
    return told.agents() or settings.directory() / "bases"


def _run_npm(npm: str, where: Path, timeout_s: float) -> None:
    try:
        ran = subprocess.run(
            [npm, *_NPM],
            cwd=where,
            env=environment({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"npm was not done after {timeout_s:g} s", "look at the network, or give it more with --timeout"
        ) from None
    if ran.returncode == 0:
        return
    words = " ".join(ran.stderr.split())[:_WORDS] or f"exit code {ran.returncode}"
    if "EINTEGRITY" in words:
        raise LaunchError(f"a package is not the one that was locked: {words}", "do not use this registry")
    raise LaunchError(f"npm failed: {words}", "look whether the registry of npm can be reached from here")


def _version(program: Path) -> str:
    try:
        ran = subprocess.run(
            [str(program), "--version"],
            env={"PATH": "/usr/bin:/bin", "HOME": str(program.parent), "DISABLE_AUTOUPDATER": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchError(f"{program.name} does not run here: {type(error).__name__}") from error
    return ran.stdout.strip()[:80]
