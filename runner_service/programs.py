"""The bases that are programs of their own: which of them are installed and run here."""

import logging
from typing import Final

from runner_service.bases.claude_code.base import ClaudeCodeBase
from runner_service.domain.ports import Base, Relay
from runner_service.sandbox.sandbox import Limits, Sandbox
from service_kit.agents.catalogue import AGENTS
from service_kit.settings import AgentSettings

__all__ = ["programs"]

_log: Final = logging.getLogger(__name__)


async def programs(settings: AgentSettings, relay: Relay) -> dict[str, Base]:
    """Those that can be offered now: installed, with a model at the relay, behind walls, and seen to run."""
    agents, sessions = settings.agents(), settings.sessions()
    agent = AGENTS["claude-code"]
    if agents is None or sessions is None or agent.program is None:
        return {}
    if not (agents / agent.name / agent.program).exists() or not relay.models("anthropic"):
        return {}
    limits = Limits(
        memory_bytes=settings.agent_memory_bytes,
        processes=settings.agent_processes,
        file_bytes=settings.agent_file_bytes,
    )
    sandbox = Sandbox(limits, sessions, settings.agent_cgroup)
    if not (await sandbox.walls()).private and not settings.agent_unwalled:
        _log.warning(
            "no agent that is a program is offered: nothing would keep it from the server's own files"
        )
        return {}
    base = ClaudeCodeBase(sandbox, relay, agents / agent.name, agent.program)
    return {base.name: base} if await base.runs() else {}
