"""Observe (Memories §9.1): a turn that ended is sent to the session's default memory as episodes.

What was asked, what was answered, and the names of the tools that ran. What the tools returned is
never sent back: a memory does not learn from its own recall.
"""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from runner_service.domain.errors import GroveError
from runner_service.domain.inputs import asked_text, read_input
from runner_service.domain.memory_seam import narrowing
from runner_service.domain.model import Episode, Item, Response
from runner_service.domain.ports import Access, HarnessStore, Memory, ObservedTurns, ResponseStore
from runner_service.domain.transcript import said

__all__ = ["Observe", "episodes"]

_log: Final = logging.getLogger(__name__)
_MAX_TEXT: Final = 200_000
_GONE: Final = frozenset({"memory_not_found", "memory_forbidden", "memory_unsupported"})


class _Final(msgspec.Struct):
    output: list[Item]


_decoder: Final = msgspec.json.Decoder(_Final)


class Observe:
    """The job. It acts as the harness; it may run twice, and the memory keeps one."""

    def __init__(
        self,
        turns: ObservedTurns,
        stores: tuple[HarnessStore, ResponseStore],
        access: Access,
        memory: Memory,
    ) -> None:
        self._turns: ObservedTurns = turns
        self._harnesses: HarnessStore = stores[0]
        self._responses: ResponseStore = stores[1]
        self._access: Access = access
        self._memory: Memory = memory

    async def run(self, payload: dict[str, object]) -> None:
        """``{"response_id", "memory_id"}``. Raises what may pass; a memory that is gone or not the
        harness's to write any more ends the job.
        """
        response = await self._turns.finished(str(payload["response_id"]))
        if response is None:
            return
        found = episodes(response)
        session = await self._responses.session(response.owner, response.session_id)
        if not found or session is None:
            return
        caps = narrowing(session, await self._harnesses.attachments(response.harness_id))
        try:
            async with self._access.as_harness(response.harness_id, response.session_id, caps):
                await self._memory.observe(str(payload["memory_id"]), response, found)
        except GroveError as error:
            if error.code not in _GONE:
                raise
            _log.info("a turn is not observed: %s", error.code, extra={"response_id": response.id})


def episodes(response: Response) -> Sequence[Episode]:
    """The turn as episodes, in order."""
    output = _decoder.decode(response.final).output
    spoken = [("user", asked_text(read_input(response.asked.input)))]
    tools = dict.fromkeys(str(item["name"]) for item in output if item["type"] == "function_call")
    if tools:
        spoken.append(("tool", f"Tools that ran: {', '.join(tools)}."))
    spoken.append(("assistant", said(output)))
    return [Episode(role, text[:_MAX_TEXT]) for role, text in spoken if text.strip()]
