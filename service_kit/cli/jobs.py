"""``grove jobs``: the background work of every memory, from the command line."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from service_kit.cli.gateway import connected, segment, text
from service_kit.embedded.settings import UpSettings

__all__ = ["listed", "retry"]

_ROUTE: Final = "/v1/grovekeeper/jobs"


def listed(settings: UpSettings, status: str | None, most: int) -> Iterator[list[str]]:
    """The rows of a table of jobs, newest first. Raises :class:`LaunchError`."""
    yield ["ID", "KIND", "MEMORY", "STATUS", "CREATED", "PENDING SINCE", "RUNS", "SET ASIDE", "REASON"]
    with connected(settings) as gateway:
        for job in islice(gateway.pages(_ROUTE, {"status": status}), most):
            yield [
                text(job, "id"),
                text(job, "kind"),
                text(job, "memory_id"),
                text(job, "status"),
                _minute(text(job, "created_at")),
                _minute(text(job, "pending_since")) or "-",
                str(job.get("runs", 0)),
                str(job.get("quarantined_episodes", 0)),
                text(job, "reason") or "-",
            ]


def retry(settings: UpSettings, job: str) -> str:
    """Begin a failed job again; its status. Raises :class:`LaunchError`."""
    with connected(settings) as gateway:
        return text(gateway.post(f"{_ROUTE}/{segment(job)}/retry", {}), "status")


def _minute(moment: str) -> str:
    """RFC 3339 as people read it: UTC, to the minute."""
    return moment[:16].replace("T", " ")
