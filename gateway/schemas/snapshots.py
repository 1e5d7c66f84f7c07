"""Snapshots: names for instants of a memory (Memories, section 5.3)."""

from datetime import datetime
from typing import Literal

from gateway.schemas.base import Answer, Ask, Text, Whole
from gateway.schemas.records import Writer

__all__ = ["CreateSnapshot", "ListSnapshots", "Snapshot", "Snapshots"]


class CreateSnapshot(Ask, kw_only=True, frozen=True):
    """Body of ``POST …/snapshots``."""

    name: Text
    message: str | None = None


class ListSnapshots(Ask, kw_only=True, frozen=True):
    """Query of ``GET …/snapshots``."""

    limit: Whole = 0
    cursor: str = ""


class Snapshot(Answer, kw_only=True, frozen=True):
    """A name for the instant ``at``: reading ``as_of`` it is reading the snapshot."""

    id: str
    object: Literal["memory.snapshot"] = "memory.snapshot"
    memory_id: str
    name: str
    message: str
    at: datetime
    written_by: Writer


class Snapshots(Answer, kw_only=True, frozen=True):
    """A page of snapshots."""

    data: list[Snapshot]
    next_cursor: str | None
