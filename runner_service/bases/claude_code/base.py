"""The base ``claude-code``: the program of that name, one run for each turn, in a sandbox, behind the relay."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from runner_service.bases.claude_code.conversation import Kept, keep, kept, spoken, turns
from runner_service.bases.claude_code.events import MCP_NAME, Result, Teller
from runner_service.domain.errors import BaseFailureError
from runner_service.domain.model import Model, RelayAccess, TurnRequest
from runner_service.domain.ports import Relay
from runner_service.domain.turn_events import Stopped, TurnEvent, Used
from runner_service.sandbox.running import CommandLostError, Running
from runner_service.sandbox.sandbox import Command, Places, Sandbox, SpawnError

__all__ = ["ClaudeCodeBase"]

_log: Final = logging.getLogger(__name__)
_KIND: Final = "anthropic"
_RUNS_S: Final = 30.0
_SETTLES_S: Final = 5.0
_CONFIG: Final = "config"
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class _Turn:
    """One run of the program. ``before``: the conversation that goes on, None for one that is told anew."""

    request: TurnRequest
    places: Places
    inside: Places
    access: RelayAccess
    conversation: str
    before: Kept | None


class ClaudeCodeBase:
    """The verbs of ``domain.ports.Base``. ``package`` is where it is installed, ``program`` lies below it."""

    name: str = "claude-code"
    label: str = "Claude Code"
    provider: str = "anthropic"

    def __init__(self, sandbox: Sandbox, relay: Relay, package: Path, program: Path) -> None:
        self._sandbox: Sandbox = sandbox
        self._relay: Relay = relay
        self._package: Path = package
        self._program: Path = program

    @property
    def default_model(self) -> str:
        return next(iter(self._relay.models(_KIND)), "")

    async def models(self) -> tuple[Model, ...]:
        return tuple(
            Model(one, one, self.name, available=True, is_default=one == self.default_model)
            for one in self._relay.models(_KIND)
        )

    async def serves(self, model: str) -> bool:
        return model in self._relay.models(_KIND)

    async def runs(self) -> bool:
        """Whether there is a model for it here and the program says its version in the sandbox. Takes up to 30 seconds."""
        if not self._relay.models(_KIND) or not (self._package / self._program).exists():
            return False
        places = self._sandbox.places("version", self._package)
        program = (await self._sandbox.inside(places)).package / self._program
        command = Command(whose="version", argv=[str(program), "--version"], environment={}, places=places)
        try:
            async with asyncio.timeout(_RUNS_S), self._sandbox.running(command) as running:
                running.close_input()
                said = [line async for line in running.lines()]
                return bool(said) and await running.code() == 0
        except (SpawnError, CommandLostError, TimeoutError) as error:
            _log.warning("claude-code is installed and does not run: %s", error)
            return False

    async def run(self, request: TurnRequest) -> AsyncGenerator[TurnEvent]:
        places = self._sandbox.places(request.session_id, self._package)
        marker = places.home.parent / "conversation"
        before = await asyncio.to_thread(kept, marker, places.home / _CONFIG, request)
        async with self._relay.open(request.session_id, request.response_id, request.model) as access:
            # Steps are counted by the program; its calls beside them, for a title perhaps, are none.
            access.limit(replace(request.budgets, max_step=0))
            inside = await self._sandbox.inside(places)
            conversation = before.id if before else str(uuid4())
            turn = _Turn(request, places, inside, access, conversation, before)
            teller = Teller(turns(request.history))
            async with aclosing(self._told(turn, teller)) as told:
                async for event in told:
                    yield event
            if (usage := access.usage()) is not None:
                yield Used(usage.input_tokens, usage.output_tokens)
            reason = _judged(teller, access)
            await asyncio.to_thread(keep, marker, conversation, request)
            if reason:
                yield Stopped(reason)

    async def _told(self, turn: _Turn, teller: Teller) -> AsyncGenerator[TurnEvent]:
        try:
            async with self._sandbox.running(self._command(turn)) as running:
                await running.send(spoken(turn.request, whole=turn.before is None))
                async with aclosing(running.lines()) as lines:
                    async for line in lines:
                        for event in teller.tell(line):
                            yield event
                        if teller.result is not None:
                            break
                    await _settled(running, lines)
                if teller.result is None:
                    await _ended_early(running, turn.access)
        except SpawnError as error:
            _log.warning("claude-code was not started: %s", error)
            raise BaseFailureError("harness_error", "The agent's program could not be started.") from error
        except CommandLostError as error:
            _log.warning("claude-code was lost: %s", error)
            raise BaseFailureError("harness_error", "The agent's program broke off.") from error

    def _command(self, turn: _Turn) -> Command:
        request, home = turn.request, turn.inside.home
        private = {"mcp.json": _mcp(request), "system.md": request.instructions.encode(errors="replace")}
        options = [
            *("-p", "--verbose", "--output-format", "stream-json", "--input-format", "stream-json"),
            *("--include-partial-messages", "--permission-mode", "bypassPermissions"),
            *("--mcp-config", str(home / "mcp.json"), "--strict-mcp-config", "--model", request.model),
            *("--resume" if turn.before else "--session-id", turn.conversation),
        ]
        if request.instructions.strip():
            options += ["--append-system-prompt-file", str(home / "system.md")]
        if request.budgets.max_step:
            options += ["--max-turns", str(request.budgets.max_step)]
        if request.disabled:
            options.append(f"--disallowedTools={','.join(request.disabled)}")
        return Command(
            whose=request.session_id,
            argv=[str(turn.inside.package / self._program), *options],
            environment=_environment(turn),
            places=turn.places,
            private=private,
        )


def _environment(turn: _Turn) -> dict[str, str]:
    model = turn.request.model
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": turn.access.url(_KIND),
        "ANTHROPIC_AUTH_TOKEN": turn.access.token,
        # Whatever it calls a model for, it is this one.
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
        "ANTHROPIC_SMALL_FAST_MODEL": model,
        "CLAUDE_CONFIG_DIR": str(turn.inside.home / _CONFIG),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # Else it tries for minutes what will not be accepted.
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
        # The tools of memories are few, and are there from the start.
        "ENABLE_TOOL_SEARCH": "false",
        "IS_SANDBOX": "1",
        "MCP_TIMEOUT": "10000",
        "MCP_TOOL_TIMEOUT": "120000",
        "NO_PROXY": "127.0.0.1,localhost",
    }


def _mcp(request: TurnRequest) -> bytes:
    servers: dict[str, object] = {}
    if request.tools is not None:
        headers = {"Authorization": f"Bearer {request.tools.token}"}
        servers[MCP_NAME] = {"type": "http", "url": request.tools.url, "headers": headers}
    return _encoder.encode({"mcpServers": servers})


async def _settled(running: Running, lines: AsyncGenerator[bytes]) -> None:
    """Let it write down its conversation, and end."""
    running.close_input()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SETTLES_S):
            async for _ in lines:
                pass


async def _ended_early(running: Running, access: RelayAccess) -> None:
    """Raises ``BaseFailureError``: the program ended and said no result."""
    code = await running.code()
    _log.warning("claude-code ended without a result, exit code %d: %s", code, await running.complaint())
    if (failure := access.failure()) is not None:
        raise BaseFailureError(failure.code, failure.message)
    raise BaseFailureError("harness_error", f"The agent's program ended before its time (exit code {code}).")


def _judged(teller: Teller, access: RelayAccess) -> str:
    """The budget that stopped it, or nothing. Its exit code says nothing: a failed turn ends with 0.

    Raises ``BaseFailureError``.
    """
    result = teller.result or Result()
    if stopped := access.stopped():
        return stopped
    if result.subtype == "error_max_turns":
        return "max_step"
    if result.is_error or result.subtype != "success":
        if (failure := access.failure()) is not None:
            raise BaseFailureError(failure.code, failure.message)
        raise BaseFailureError("harness_error", f"The agent ended with an error ({result.subtype[:60]}).")
    if not teller.answered:
        raise BaseFailureError("harness_error", "The agent ended without an answer.")
    return ""
