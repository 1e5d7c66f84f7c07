"""The two revisions of the Memories chapter on the wire, as pure projections.

Inside, content is a list of parts and a recall names the memory of every result. A revision says what
of that a client sees, and what a recall without ``depth`` covers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from gateway.revisions import original, post3
from gateway.schemas.base import UNSET, Raw, UnsetType
from gateway.schemas.content import Part, WireContent, WirePart
from gateway.schemas.queries import Queried, QueryAnswer
from gateway.schemas.records import (
    Found,
    History,
    Holder,
    Job,
    JobAnswer,
    JobBrief,
    Observed,
    ObservedAnswer,
    RecallAnswer,
    Recalled,
    Record,
    RecordAnswer,
    RecordPage,
    Records,
    Result,
)
from service_kit.errors import GroveError

__all__ = ["REVISIONS", "Name", "Revision", "revision"]

Name: TypeAlias = Literal["original", "post3"]

_UNSAID: Final = b"{}"


@dataclass(frozen=True, slots=True)
class Revision:
    """How one revision reads.

    ``content`` gives the content and, where that does not say it all, the parts. ``depth`` is what a
    recall without ``depth`` asks for: None for the one memory, -1 for everything below too.
    ``always_names_memory`` is whether a result names its memory even where only one was asked.
    """

    name: Name
    content: Callable[[list[Part]], tuple[WireContent, list[WirePart] | UnsetType]]
    depth: int | None
    always_names_memory: bool

    def record(self, record: Record) -> RecordAnswer:
        """One record."""
        content, parts = self.content(record.content)
        return RecordAnswer(
            id=record.id,
            memory_id=record.memory_id,
            type=record.type,
            content=content,
            parts=parts,
            attributes=Raw(record.attributes or _UNSAID),
            version=record.version,
            status=record.status,
            supersedes=record.supersedes or UNSET,
            time=record.time,
            written_by=record.written_by,
            references=record.references,
        )

    def page(self, page: RecordPage) -> Records:
        """A page of records."""
        return Records(
            data=[self.record(one) for one in page.records],
            next_cursor=page.next_cursor,
            degraded=page.degraded or UNSET,
        )

    def history(self, versions: list[Record]) -> History:
        """Every version, oldest first."""
        return History(data=[self.record(one) for one in versions])

    def observed(self, observed: Observed) -> ObservedAnswer:
        """What an observe came to."""
        job = observed.job
        return ObservedAnswer(
            job=UNSET if job is None else JobBrief(id=job.id, status=job.status),
            records=[self.record(one) for one in observed.records],
        )

    def job(self, memory_id: str, job: Job) -> JobAnswer:
        """A job and what it wrote."""
        return JobAnswer(
            id=job.id,
            memory_id=memory_id,
            status=job.status,
            records=[self.record(one) for one in job.records],
            created_at=job.created_at or UNSET,
            finished_at=job.finished_at or UNSET,
            error=job.error or UNSET,
        )

    def recalled(self, recalled: Recalled, *, depth_asked: bool) -> RecallAnswer:
        """What a recall found; results name their memory where more than one may have been searched."""
        names = self.always_names_memory or depth_asked
        return RecallAnswer(
            results=[self._result(one, names=names) for one in recalled.results],
            parent=recalled.parent or UNSET,
            children=recalled.children,
            degraded=recalled.degraded,
            abstain=recalled.abstain,
            abstain_reason=recalled.abstain_reason or UNSET,
            evidence=recalled.evidence or UNSET,
        )

    def queried(self, queried: Queried) -> QueryAnswer:
        """What a query answered: results in its order, which no score says, or rows."""
        if queried.records is None:
            return QueryAnswer(columns=queried.columns, rows=queried.rows, degraded=queried.degraded)
        results = [Result(record=self.record(one), why=[]) for one in queried.records]
        return QueryAnswer(
            results=results,
            parent=queried.parent or UNSET,
            children=queried.children,
            degraded=queried.degraded,
            abstain=not results,
        )

    def _result(self, found: Found, *, names: bool) -> Result:
        holder = found.memory if names else None
        return Result(
            record=self.record(found.record),
            score=found.score,
            why=found.why,
            memory=UNSET if holder is None else Holder(id=holder.id, name=holder.name),
            signals=found.signals or UNSET,
        )


REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        "original": Revision("original", original.content, None, always_names_memory=False),
        "post3": Revision("post3", post3.content, -1, always_names_memory=True),
    }
)


def revision(asked: str | None, default: Name) -> Revision:
    """The revision a request asks for. Raises ``invalid_input`` for one we do not speak."""
    found = REVISIONS.get(default if asked is None else asked)
    if found is None:
        raise GroveError(
            "invalid_input",
            "This server does not speak that revision of the Memories chapter.",
            param="UHP-Memories-Revision",
            detail={"supported": list(REVISIONS)},
        )
    return found
