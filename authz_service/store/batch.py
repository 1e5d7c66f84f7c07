"""Questions that arrive together are answered by one statement.

A statement costs far more than one more question in it, so while some are being answered the next ones
gather. Answers stay strict: which questions a batch holds is settled before its statement is sent, so
every question arrived before the statement that answers it began, and nothing is kept afterwards. A question
may also be something to write: it is answered once its transaction has ended.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from opentelemetry import trace

from service_kit.db.pool import Database, Tx

_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")

LARGEST: Final = 64
"""Most questions in one statement."""
WORKERS: Final = 2
"""Statements under way at once: one is being answered while the next one's rows are read."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[_Question, _Answer]):
    question: _Question
    answer: asyncio.Future[_Answer]
    context: contextvars.Context
    traced: bool


class Batcher(Generic[_Question, _Answer]):
    """Asks ``together`` for many at once; it answers each question, in order, on the connection it is handed."""

    def __init__(
        self,
        database: Database,
        together: Callable[[Tx, Sequence[_Question]], Awaitable[Sequence[_Answer]]],
        *,
        writes: bool = False,
    ) -> None:
        self._connection: Callable[[], AbstractAsyncContextManager[Tx]] = (
            database.begin if writes else database.read
        )
        self._together: Callable[[Tx, Sequence[_Question]], Awaitable[Sequence[_Answer]]] = together
        self._waiting: deque[_Waiting[_Question, _Answer]] = deque()
        self._workers: set[asyncio.Task[None]] = set()

    async def ask(self, question: _Question) -> _Answer:
        """The answer as of a moment after this call. Raises what the statement raises."""
        waiting: _Waiting[_Question, _Answer] = _Waiting(
            question,
            asyncio.get_running_loop().create_future(),
            contextvars.copy_context(),
            trace.get_current_span().is_recording(),
        )
        self._waiting.append(waiting)
        if len(self._workers) < WORKERS:
            # An empty context: a worker outlives the call that began it and must act for none.
            self._workers.add(asyncio.create_task(self._work(), context=contextvars.Context()))
        return await waiting.answer

    async def _work(self) -> None:
        try:
            await self._work_off()
        finally:
            # In the same breath as nothing was left: a question that finds a worker counted must be seen by it.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _work_off(self) -> None:
        while self._waiting:
            batch: list[_Waiting[_Question, _Answer]] = []
            try:
                answers: Sequence[_Answer] = ()
                async with self._connection() as tx:
                    batch = self._take()
                    if batch:
                        # The statement is seen in the trace of one of those who asked.
                        context = next((one.context for one in batch if one.traced), batch[0].context)
                        answers = await asyncio.create_task(self._answer(tx, batch), context=context)
                for one, answer in zip(batch, answers, strict=True):
                    if not one.answer.done():
                        one.answer.set_result(answer)
            except Exception as error:  # noqa: BLE001 - every question gets an answer, whatever happened
                for one in batch or self._take():
                    if not one.answer.done():
                        one.answer.set_exception(error)

    def _take(self) -> list[_Waiting[_Question, _Answer]]:
        """The next questions that somebody still waits for."""
        batch: list[_Waiting[_Question, _Answer]] = []
        while self._waiting and len(batch) < LARGEST:
            one = self._waiting.popleft()
            if not one.answer.done():
                batch.append(one)
        return batch

    async def _answer(self, tx: Tx, batch: Sequence[_Waiting[_Question, _Answer]]) -> Sequence[_Answer]:
        return await self._together(tx, [one.question for one in batch])
