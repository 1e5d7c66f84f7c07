"""Recall on one memory, or on it and what the caller may read below (Memories, section 6)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from memory_service.domain import errors
from memory_service.domain.describe import Describer
from memory_service.domain.model import (
    Found,
    Hit,
    Privilege,
    Question,
    Recalled,
)
from memory_service.domain.ports import AccessTree, Descriptions, Provider
from memory_service.domain.references import References
from memory_service.domain.walk import Walk

MAX_MEMORIES: Final = 100_000
"""Most memories one recall covers; more is said in ``degraded``."""
STRUCTURE_NOT_KEPT: Final = "as_of:structure_not_kept"
"""The records are those of an instant, the memories below are those of now."""

EVERYTHING: Final = -1
"""The depth that means every level below."""


_NOTHING: Final = "nothing_stored"


class Recall:
    """The use case of section 6."""

    def __init__(self, access: AccessTree, descriptions: Descriptions, provider: Provider) -> None:
        self._access = access
        self._descriptions = descriptions
        self._provider = provider
        self._describer = Describer(access, descriptions, provider)
        self._walk = Walk(access, self._describer)
        self._references = References(access, descriptions, provider)

    async def recall(self, memory_id: str, question: Question, depth: int | None) -> Recalled:
        """Asks one memory, with ``depth`` levels below it too (None or 0: none; -1: all of them).

        Which memories the caller may read is settled first, and exactly those are searched, so nothing
        it may not read takes part in any ranking or count. Where memories lie is as it is now, whatever
        instant is looked at; ``degraded`` says so where that decides what is searched.
        """
        node = await self._access.check(memory_id, Privilege.READ)
        if not question.asks_something:
            raise errors.asks_nothing()
        searched, walk = await asyncio.gather(
            self._search(memory_id, question, depth or 0), self._walk.from_here(node)
        )
        found, degraded = searched
        parent, children, more = walk
        records = await self._references.resolve([hit.record for hit in found.hits])
        hits = tuple(replace(hit, record=record) for hit, record in zip(found.hits, records, strict=True))
        memories = await self._describer.named({hit.record.memory_id for hit in hits})
        return Recalled(
            hits,
            memories,
            parent,
            children,
            (*found.degraded, *degraded, *more),
            abstain=found.abstain,
            reason=found.reason or (_NOTHING if found.abstain else ""),
            evidence=found.evidence,
        )

    async def _search(self, memory_id: str, question: Question, depth: int) -> tuple[Found, list[str]]:
        memory_ids, degraded = await self._reach(memory_id, depth, past=question.past)
        by_provider = await self._descriptions.by_provider(memory_ids)
        if not by_provider:
            raise errors.memory_not_found()
        answers = await asyncio.gather(
            *(self._provider.recall(provider, ids, question) for provider, ids in by_provider.items())
        )
        return _merge(answers, question.limit), degraded

    async def _reach(self, memory_id: str, depth: int, *, past: bool) -> tuple[list[str], list[str]]:
        """The memories to search, nearest first, and what was capped on the way."""
        degraded = list[str]()
        if depth == 0:
            return [memory_id], degraded
        documents = await self._provider.describe()
        deepest = min(one.max_depth for one in documents)
        if past and not all(one.structure for one in documents):
            degraded.append(STRUCTURE_NOT_KEPT)
        if depth > deepest:
            degraded.append(f"depth:capped_at_{deepest}")
        levels = 0 if depth == EVERYTHING else min(depth, deepest)
        below, more = await self._access.reach(memory_id, Privilege.READ, levels, MAX_MEMORIES - 1)
        if more:
            degraded.append(f"memories:capped_at_{MAX_MEMORIES}")
        return [memory_id, *below], degraded


def _merge(answers: Sequence[Found], limit: int) -> Found:
    """One ranking from several providers' answers; each scores 0 to 1 on its own scale."""
    if len(answers) == 1:
        return answers[0]
    hits: list[Hit] = sorted((hit for one in answers for hit in one.hits), key=lambda hit: -hit.score)
    degraded = tuple(dict.fromkeys(gap for one in answers for gap in one.degraded))
    abstain = all(one.abstain for one in answers)
    # Something that did not convince tells more than nothing at all.
    reasons = [one.reason for one in answers if one.reason not in ("", _NOTHING)] or [_NOTHING]
    return Found(tuple(hits[:limit]), degraded, abstain=abstain, reason=reasons[0] if abstain else "")
