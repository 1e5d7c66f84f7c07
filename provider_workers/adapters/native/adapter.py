"""The native provider: records in Postgres, searched by vector and full text, facts derived in the background."""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from provider_workers.adapters.native.builtin import TYPES
from provider_workers.adapters.native.capabilities import document
from provider_workers.adapters.native.chat import ChatModel
from provider_workers.adapters.native.consolidation.keeper import Consolidation, Tidy
from provider_workers.adapters.native.derivation import ATTEMPTS, Derivation, Derive, derive
from provider_workers.adapters.native.embedding.embedder import Embedder
from provider_workers.adapters.native.erasing import Erasing
from provider_workers.adapters.native.extraction import Extraction
from provider_workers.adapters.native.files import Files
from provider_workers.adapters.native.generations import GIVEN_UP_S, Generation, Generations
from provider_workers.adapters.native.languages import DETECT, Languages, Setting
from provider_workers.adapters.native.lateness import Lateness
from provider_workers.adapters.native.model_derivation import ModelDerivation
from provider_workers.adapters.native.moments import Snapshots
from provider_workers.adapters.native.operating import Operating
from provider_workers.adapters.native.reading import Reading
from provider_workers.adapters.native.recall import Recall
from provider_workers.adapters.native.tidying import Tidying
from provider_workers.adapters.native.vectors import Sweeper, Vectors
from provider_workers.adapters.native.work import Work
from provider_workers.adapters.native.writing import DERIVE, Writing
from provider_workers.domain.model import (
    Capabilities,
    Changes,
    Counts,
    Draft,
    Erased,
    File,
    Found,
    Job,
    Observed,
    Operate,
    Operated,
    Page,
    Place,
    Question,
    Record,
    RecordAddress,
    RecordPage,
    RecordType,
    Selection,
    Stamp,
)
from service_kit.db.pool import Database
from service_kit.jobs import Jobs
from service_kit.objects.store import Objects

__all__ = ["NativeProvider", "Options"]

_TIDY_S: Final = 3600.0
_SWEEP_FILES_S: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator may set; see ``settings``. ``answer_bytes`` bounds the content of one answer; ``objects``
    is where files are kept, None for nowhere.
    """

    derivation: Literal["none", "rules", "model"] = "rules"
    derivation_tokens_per_day: int = 200_000
    language: Setting = DETECT
    embed_timeout_s: float = 3.0
    sweep_s: float = 30.0
    model_given_up_s: float = GIVEN_UP_S
    prime_tokens: int = 1200
    abstain_below: float = 0.15
    without_signals: frozenset[str] = frozenset()
    keep_jobs_days: int = 30
    keep_keys_hours: int = 48
    answer_bytes: int = 8 * 1024 * 1024
    objects: Objects | None = None
    file_limit_bytes: int = 64 * 1024 * 1024
    extract_max_bytes: int = 8 * 1024 * 1024
    extract_timeout_s: float = 5.0
    tidy: Tidy = field(default_factory=Tidy)


class NativeProvider:
    """The verbs of :class:`~provider_workers.domain.ports.ProviderAdapter`.

    Registers its tasks on ``jobs``. ``derived_by`` is how facts are found in an episode: by rules, or by a model.
    """

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        jobs: Jobs,
        options: Options,
        derived_by: Derive | ChatModel = derive,
    ) -> None:
        self.generations: Generations = Generations(
            database, Generation(embedder.generation, embedder.dimension), options.model_given_up_s
        )
        vectors = Vectors(embedder, options.embed_timeout_s, self.generations)
        extraction = Extraction(max_bytes=options.extract_max_bytes, timeout_s=options.extract_timeout_s)
        self.capabilities: Capabilities = document(
            derives=options.derivation != "none", files=options.objects is not None
        )
        self._files = Files(database, options.objects, extraction, options.file_limit_bytes)
        languages = Languages(options.language)
        self._writing = Writing(database, vectors, jobs, self._files, languages)
        self._reading = Reading(
            database, answer_bytes=options.answer_bytes, prime_tokens=options.prime_tokens
        )
        self._recall = Recall(
            database,
            vectors,
            abstain_below=options.abstain_below,
            answer_bytes=options.answer_bytes,
            without=options.without_signals,
        )
        self._erasing = Erasing(database, self._files)
        self.work: Work = Work(database, jobs)
        self.lateness: Lateness = Lateness(database)
        self._snapshots = Snapshots(database)
        self.types: Sequence[RecordType] = TYPES
        self._operating = Operating(database, self._reading, self._writing)
        how = (
            ModelDerivation(database, vectors, derived_by, options.derivation_tokens_per_day, languages)
            if isinstance(derived_by, ChatModel)
            else derived_by
        )
        derivation = Derivation(
            database, vectors, jobs, None if options.derivation == "none" else how, languages
        )
        jobs.task(DERIVE, derivation.run, attempts=ATTEMPTS)
        jobs.periodic("embed", Sweeper(database, vectors).run, every_s=options.sweep_s)
        self.consolidation: Consolidation = Consolidation(
            database, vectors, jobs, options.tidy, options.answer_bytes, languages
        )
        tidying = Tidying(database, options.keep_jobs_days, options.keep_keys_hours)
        jobs.periodic("tidy", tidying.run, every_s=_TIDY_S)
        jobs.periodic("files", self._files.sweep, every_s=_SWEEP_FILES_S)

    async def observe(self, memory_id: str, episodes: Sequence[Draft], stamp: Stamp) -> Observed:
        return await self._writing.observe(memory_id, episodes, stamp)

    async def job(self, memory_id: str, job_id: str) -> Job:
        return await self._reading.job(memory_id, job_id)

    async def remember(self, memory_id: str, draft: Draft, stamp: Stamp) -> Record:
        return await self._writing.remember(memory_id, draft, stamp)

    async def get(self, memory_id: str, record_id: str, as_of: datetime | None) -> Record:
        return await self._reading.get(memory_id, record_id, as_of)

    async def list(self, memory_id: str, selection: Selection, page: Page) -> RecordPage:
        return await self._reading.list(memory_id, selection, page)

    async def revise(
        self, memory_id: str, record_id: str, changes: Changes, expected_version: int, stamp: Stamp
    ) -> Record:
        return await self._writing.revise(memory_id, record_id, changes, expected_version, stamp)

    async def forget(self, memory_id: str, record_id: str, expected_version: int, stamp: Stamp) -> Record:
        return await self._writing.forget(memory_id, record_id, expected_version, stamp)

    async def erase(self, memory_id: str, record_ids: Sequence[str], stamp: Stamp) -> Erased:
        return await self._erasing.erase(memory_id, record_ids, stamp)

    async def keep(self, memory_id: str, file: File, chunks: AsyncIterable[bytes]) -> File:
        return await self._files.keep(memory_id, file, chunks)

    async def read(self, memory_id: str, record_id: str, place: Place) -> tuple[File, AsyncGenerator[bytes]]:
        return await self._files.read(memory_id, record_id, place)

    async def kept(self, memory_id: str, file_ids: Sequence[str]) -> frozenset[str]:
        return await self._files.kept(memory_id, file_ids)

    async def history(
        self, memory_id: str, record_id: str, as_of: datetime | None = None
    ) -> tuple[Record, ...]:
        return await self._reading.history(memory_id, record_id, as_of)

    async def snapshot(self, memory_id: str) -> datetime:
        return await self._snapshots.snapshot(memory_id)

    async def operate(self, memory_id: str, record_id: str, asked: Operate, stamp: Stamp) -> Operated:
        return await self._operating.operate(memory_id, record_id, asked, stamp)

    async def recall(self, memory_ids: Sequence[str], question: Question) -> Found:
        return await self._recall.recall(memory_ids, question)

    async def count(self, memory_ids: Sequence[str]) -> Counts:
        return await self._reading.count(memory_ids)

    async def exist(self, records: Sequence[RecordAddress]) -> frozenset[RecordAddress]:
        return await self._reading.exist(records)

    async def prime(self, memory_id: str) -> tuple[Record, ...]:
        return await self._reading.prime(memory_id)

    async def purge(self, memory_id: str) -> None:
        await self._erasing.purge(memory_id)
