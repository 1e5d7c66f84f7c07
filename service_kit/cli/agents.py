"""What ``grove doctor`` says of agents that are programs of their own."""

import tempfile
from pathlib import Path

from service_kit.cli.finding import Finding
from service_kit.embedded.settings import UpSettings
from service_kit.isolation.probe import probe
from service_kit.settings import AgentSettings

__all__ = ["walls"]


def walls(settings: UpSettings) -> Finding:
    """Whether this platform lets a turn be kept apart, tried here and now by this account."""
    told = AgentSettings.load().model_copy(update={"home": settings.directory()})
    sessions = told.sessions()
    if sessions is None or not sessions.is_dir():
        sessions = Path(tempfile.gettempdir())
    found = probe(sessions, told.agent_cgroup)
    if not found.missing:
        return Finding("ok", "sandbox", "turns of agents run behind every wall")
    said = f"turns of agents run without {'; without '.join(found.missing)}"
    remedy = "docs/operating.md, Agents, says what a platform must allow"
    if found.private:
        return Finding("note", "sandbox", said, remedy)
    verdict = "note" if told.agent_unwalled else "FAIL"
    return Finding(verdict, "sandbox", f"{said}: agents could read the server's own files", remedy)
