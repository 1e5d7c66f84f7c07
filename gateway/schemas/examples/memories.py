"""Memories, their grants and providers, snapshots, consolidation runs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.schemas import consolidations, memories, snapshots
from gateway.schemas.examples.shared import GRANT, MEMORY_ID, NONE_MORE, PARENT_ID, RECORD, TIME, Json

__all__ = ["EXAMPLES"]

_ALL: Final = ["read", "write", "create", "delete"]
_MEMORY: Final[Json] = {
    "id": MEMORY_ID,
    "object": "memory",
    "name": "Sales",
    "description": "What the sales team knows.",
    "parent_id": PARENT_ID,
    "ancestors": [PARENT_ID],
    "restricted": False,
    "provider": "native",
    "privileges": _ALL,
    "records": {"count": 412},
    "children": {"count": 3},
    "createdAt": 1790560000000,
    "updatedAt": 1790570094000,
}
_PROVIDER: Final[Json] = {
    "id": "native",
    "isolation": "enforced_filter",
    "derivation": "background",
    "observe": {"keeps_episodes": True, "answers": "job"},
    "recall": {"signals": ["query", "text", "filters"], "abstain": True, "max_depth": 64},
    "history": {"content": "versions", "structure": "none"},
    "revise": "native",
    "forget": "native",
    "erase": {"unreachable": "reported"},
    "prime": True,
    "consolidate": "runs",
    "queries": {"named": False, "languages": [], "free": False},
    "types": False,
    "files": False,
    "snapshots": False,
    "content": {"media": [], "describes": False},
    "outside": False,
}
_SNAPSHOT: Final[Json] = {
    "id": "hsnap_7c1e",
    "object": "memory.snapshot",
    "memory_id": MEMORY_ID,
    "name": "Before the call",
    "message": "Ruth asked.",
    "at": TIME,
    "written_by": {"kind": "person", "id": "ruth"},
}
_RUN: Final[Json] = {
    "id": "hcon_5d2e",
    "object": "memory.consolidation",
    "memory_id": MEMORY_ID,
    "status": "completed",
    "trigger": "api",
    "started_at": 1790570000,
    "finished_at": 1790570004,
    "read": {"episodes": 240, "through": TIME},
    "changes": {"created": 1, "superseded": 6, "forgotten": 2},
    "usage": {"input_tokens": 0, "output_tokens": 0},
    "budget": {"limit": 600, "unit": "seconds", "exhausted": False},
    "written_by": {"kind": "consolidator", "id": "native"},
    "error": "",
}
_CHANGE: Final[Json] = {
    "object": "memory.consolidation.change",
    "change": "superseded",
    "reason": "duplicate",
    "record": {**RECORD, "status": "superseded", "version": 2},
    "replaced_by": "hrec_11aa22bb33cc44dd55ee66ff77889900",
    "reverted": False,
    "left": None,
}

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    memories.CreateMemory: {
        "name": "Sales",
        "description": "What the sales team knows.",
        "parent_id": PARENT_ID,
    },
    memories.UpdateMemory: {"restricted": True},
    memories.Memory: _MEMORY,
    memories.Memories: {"data": [_MEMORY], **NONE_MORE},
    memories.NewGrant: {"principal": "group:support", "privileges": ["read", "write"]},
    memories.Grant: GRANT,
    memories.Grants: {"data": [GRANT], **NONE_MORE},
    memories.Providers: {"data": [_PROVIDER]},
    snapshots.CreateSnapshot: {"name": "Before the call", "message": "Ruth asked."},
    snapshots.Snapshot: _SNAPSHOT,
    snapshots.Snapshots: {"data": [_SNAPSHOT], **NONE_MORE},
    consolidations.StartRun: {"budget": {"limit": 60, "unit": "seconds"}},
    consolidations.Run: _RUN,
    consolidations.Runs: {"data": [_RUN], **NONE_MORE},
    consolidations.RunChanges: {"data": [_CHANGE], **NONE_MORE},
}
"""By what each is an example of."""
