"""What several examples name: one memory, one record, one grant."""

from typing import Any, Final, TypeAlias

__all__ = ["GRANT", "MEMORY_ID", "NONE_MORE", "PARENT_ID", "RECORD", "RECORD_ID", "TIME", "Json"]

Json: TypeAlias = dict[str, Any]

TIME: Final = "2026-10-01T17:02:11Z"
MEMORY_ID: Final = "hmem_7c1e4b9a2d3f4e5a8b6c7d8e9f0a1b2c"
PARENT_ID: Final = "hmem_0a1b2c3d4e5f60718293a4b5c6d7e8f9"
RECORD_ID: Final = "hrec_3b9f2a71c4d84e0f9a6b5c4d3e2f1a0b"
NONE_MORE: Final[Json] = {"next_cursor": None}
RECORD: Final[Json] = {
    "id": RECORD_ID,
    "object": "memory.record",
    "memory_id": MEMORY_ID,
    "type": "fact",
    "content": "Acme renews in March.",
    "attributes": {"account": "acme"},
    "version": 1,
    "status": "active",
    "time": {"valid_from": None, "valid_to": None, "written_at": TIME, "invalidated_at": None},
    "written_by": {"kind": "person", "id": "ruth"},
    "references": [],
    "trust": "untrusted",
}
GRANT: Final[Json] = {
    "id": "hgrt_5d2e",
    "memory_id": MEMORY_ID,
    "principal": "group:support",
    "privileges": ["read", "write"],
    "inherited": False,
    "creator": False,
}
