"""An example of every body that is read or answered, for the OpenAPI document.

They belong together: one memory, one record, one harness. A test reads each as what it is an example of.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from gateway.schemas import (
    access,
    audit,
    consolidations,
    discovery,
    files,
    groups,
    harnesses,
    jobs,
    memories,
    queries,
    records,
    responses,
    snapshots,
    tokens,
    types,
)

__all__ = ["EXAMPLES"]

Json: TypeAlias = dict[str, Any]

_TIME: Final = "2026-10-01T17:02:11Z"
_MEMORY_ID: Final = "hmem_7c1e4b9a2d3f4e5a8b6c7d8e9f0a1b2c"
_PARENT_ID: Final = "hmem_0a1b2c3d4e5f60718293a4b5c6d7e8f9"
_RECORD_ID: Final = "hrec_3b9f2a71c4d84e0f9a6b5c4d3e2f1a0b"
_ALL: Final = ["read", "write", "create", "delete"]
_NONE_MORE: Final[Json] = {"next_cursor": None}

_MEMORY: Final[Json] = {
    "id": _MEMORY_ID,
    "object": "memory",
    "name": "Sales",
    "description": "What the sales team knows.",
    "parent_id": _PARENT_ID,
    "ancestors": [_PARENT_ID],
    "restricted": False,
    "provider": "native",
    "privileges": _ALL,
    "records": {"count": 412},
    "children": {"count": 3},
    "createdAt": 1790560000000,
    "updatedAt": 1790570094000,
}
_PLACE: Final[Json] = {
    "id": _PARENT_ID,
    "name": "Company",
    "description": "What everybody knows.",
    "records": {"count": 97},
}
_GRANT: Final[Json] = {
    "id": "hgrt_5d2e",
    "memory_id": _MEMORY_ID,
    "principal": "group:support",
    "privileges": ["read", "write"],
    "inherited": False,
    "creator": False,
}
_RECORD: Final[Json] = {
    "id": _RECORD_ID,
    "object": "memory.record",
    "memory_id": _MEMORY_ID,
    "type": "fact",
    "content": "Acme renews in March.",
    "attributes": {"account": "acme"},
    "version": 1,
    "status": "active",
    "time": {"valid_from": None, "valid_to": None, "written_at": _TIME, "invalidated_at": None},
    "written_by": {"kind": "person", "id": "ruth"},
    "references": [],
    "trust": "untrusted",
}
_HARNESS: Final[Json] = {
    "id": "chrn_41c0",
    "object": "harness",
    "name": "Desk",
    "base": "scripted",
    "baseLabel": "Scripted (no model)",
    "systemPrompt": "",
    "mcpServers": [],
    "skills": [],
    "plugins": [],
    "disabledTools": [],
    "maxStep": None,
    "timeoutSeconds": None,
    "createdAt": 1790560000000,
}
_MODEL: Final[Json] = {
    "id": "scripted",
    "label": "Scripted",
    "backend": "scripted",
    "available": True,
    "default": True,
}
_RESPONSE: Final[Json] = {
    "id": "resp_9f0a",
    "object": "response",
    "created_at": 1790560000,
    "status": "completed",
    "background": False,
    "error": None,
    "incomplete_details": None,
    "previous_response_id": None,
    "model": "scripted",
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
        }
    ],
    "store": True,
    "usage": None,
    "metadata": {"session_id": "hsess5d2e", "harness_id": "chrn_41c0"},
}
_TOKEN: Final[Json] = {
    "id": "tok_1",
    "object": "grovekeeper.token",
    "principal": "person:tom",
    "groups": ["group:support"],
    "scopes": ["user"],
    "created_at": _TIME,
}
_GROUP: Final[Json] = {
    "name": "group:support",
    "object": "grovekeeper.group",
    "description": "Answers customers.",
    "members": {"count": 1},
    "created_at": _TIME,
}
_MEMBER: Final[Json] = {
    "group": "group:support",
    "object": "grovekeeper.member",
    "principal": "person:tom",
    "added_at": _TIME,
    "added_by": "person:ruth",
}
_JOB: Final[Json] = {
    "id": "hjob_1",
    "object": "grovekeeper.job",
    "memory_id": _MEMORY_ID,
    "status": "failed",
    "created_at": _TIME,
    "pending_since": None,
    "finished_at": _TIME,
    "runs": 3,
    "quarantined_episodes": 0,
    "reason": "The model did not answer.",
}
_DISCOVERY: Final[Json] = msgspec.to_builtins(discovery.discovery())
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

_TYPE: Final[Json] = {
    "type": "x.deal",
    "description": "A deal.",
    "schema": {"type": "object", "required": ["title"]},
    "text": "title and stage as one line",
    "projection": ["attributes.title", "attributes.stage"],
    "operations": [
        {
            "name": "win",
            "description": "Mark the deal as won.",
            "input": {"type": "object"},
            "requires": "write",
            "definition": {"set": {"attributes.stage": {"const": "won"}}},
        }
    ],
    "source": "api",
}
_SNAPSHOT: Final[Json] = {
    "id": "hsnap_7c1e",
    "object": "memory.snapshot",
    "memory_id": _MEMORY_ID,
    "name": "Before the call",
    "message": "Ruth asked.",
    "at": _TIME,
    "written_by": {"kind": "person", "id": "ruth"},
}
_RUN: Final[Json] = {
    "id": "hcon_5d2e",
    "object": "memory.consolidation",
    "memory_id": _MEMORY_ID,
    "status": "completed",
    "trigger": "api",
    "started_at": 1790570000,
    "finished_at": 1790570004,
    "read": {"episodes": 240, "through": _TIME},
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
    "record": {**_RECORD, "status": "superseded", "version": 2},
    "replaced_by": "hrec_11aa22bb33cc44dd55ee66ff77889900",
    "reverted": False,
    "left": None,
}
_PUT_QUERY: Final[Json] = {
    "description": "Facts about one account.",
    "params": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
    "requires": "read",
    "language": "sql",
    "body": "select * from records where json_extract(attributes, '$.account') = :account",
}
_QUERY: Final[Json] = {
    "name": "facts_about",
    "object": "memory.query",
    "memory_id": _MEMORY_ID,
    **_PUT_QUERY,
    "updated_at": _TIME,
    "written_by": {"kind": "person", "id": "ruth"},
}

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    queries.PutQuery: _PUT_QUERY,
    queries.FreeQuery: {
        "language": "sql",
        "statement": "select type, count(*) as held from records group by type",
    },
    queries.NamedQuery: _QUERY,
    queries.NamedQueries: {"data": [_QUERY], **_NONE_MORE},
    queries.QueryAnswer: {"columns": ["type", "held"], "rows": [["fact", 12]], "degraded": []},
    discovery.Discovery: _DISCOVERY,
    files.UploadedFile: {
        "id": "file_5d2e8c1f0a9b4c3d8e7f6a5b4c3d2e1f",
        "object": "file",
        "filename": "minutes.pdf",
        "bytes": 48213,
        "created_at": 1790560000,
        "media_type": "application/pdf",
        "purpose": "user_data",
    },
    files.UploadForm: {"file": "bWludXRlcw==", "purpose": "user_data"},
    # Memories and grants
    memories.CreateMemory: {
        "name": "Sales",
        "description": "What the sales team knows.",
        "parent_id": _PARENT_ID,
    },
    memories.UpdateMemory: {"restricted": True},
    memories.Memory: _MEMORY,
    memories.Memories: {"data": [_MEMORY], **_NONE_MORE},
    memories.NewGrant: {"principal": "group:support", "privileges": ["read", "write"]},
    memories.Grant: _GRANT,
    memories.Grants: {"data": [_GRANT], **_NONE_MORE},
    memories.Providers: {"data": [_PROVIDER]},
    # Records
    records.Remember: {"type": "fact", "content": "Acme renews in March.", "attributes": {"account": "acme"}},
    records.Revise: {"content": "Acme renews in May.", "expected_version": 1},
    records.Observe: {"episodes": [{"role": "user", "content": "We close at six on Fridays."}]},
    records.Erase: {"record_ids": [_RECORD_ID]},
    records.Recall: {"query": "what did Acme say about renewal?", "limit": 3},
    records.RecordAnswer: _RECORD,
    records.Records: {"data": [_RECORD], **_NONE_MORE},
    records.History: {"data": [_RECORD]},
    records.ObservedAnswer: {"job": {"id": "hjob_1", "status": "pending"}, "records": []},
    records.JobAnswer: {
        "id": "hjob_1",
        "object": "memory.job",
        "memory_id": _MEMORY_ID,
        "status": "completed",
        "records": [_RECORD],
        "created_at": _TIME,
        "finished_at": _TIME,
    },
    types.RegisterType: {
        "description": "A deal.",
        "schema": {"type": "object", "required": ["title"]},
        "text": "title and stage as one line",
        "projection": ["attributes.title", "attributes.stage"],
        "operations": [
            {"name": "win", "definition": {"set": {"attributes.stage": {"const": "won"}}}},
        ],
    },
    types.Type: _TYPE,
    types.Types: {"data": [_TYPE]},
    types.Operated: {"record": {**_RECORD, "type": "x.deal"}},
    snapshots.CreateSnapshot: {"name": "Before the call", "message": "Ruth asked."},
    snapshots.Snapshot: _SNAPSHOT,
    snapshots.Snapshots: {"data": [_SNAPSHOT], **_NONE_MORE},
    consolidations.StartRun: {"budget": {"limit": 60, "unit": "seconds"}},
    consolidations.Run: _RUN,
    consolidations.Runs: {"data": [_RUN], **_NONE_MORE},
    consolidations.RunChanges: {"data": [_CHANGE], **_NONE_MORE},
    records.Erased: {"erased": [_RECORD_ID], "unreachable": []},
    records.RecallAnswer: {
        "results": [
            {
                "record": _RECORD,
                "score": 0.91,
                "why": ["query"],
                "signals": {"words": 5.2, "meaning": 0.61, "session": 4.4, "subject": 1.0, "time": 0.0},
            }
        ],
        "parent": _PLACE,
        "children": [],
        "degraded": [],
        "abstain": False,
        "evidence": {"score": 0.83, "threshold": 0.15},
    },
    # Harnesses and tasks
    harnesses.PutHarness: {"name": "Desk", "base": "scripted"},
    harnesses.Harness: _HARNESS,
    harnesses.Harnesses: {"harnesses": [_HARNESS]},
    harnesses.DeletedHarness: {"id": "chrn_41c0", "object": "harness", "deleted": True},
    harnesses.PutMemories: {"memories": [{"memory_id": _MEMORY_ID, "access": "write", "default": True}]},
    harnesses.Attachments: {"memories": [{"memory_id": _MEMORY_ID, "access": "write", "default": True}]},
    harnesses.Backends: {"backends": {"scripted": {"default": "scripted", "models": [_MODEL]}}},
    harnesses.HarnessModels: {"harness_id": "chrn_41c0", "backend": "scripted", "models": [_MODEL]},
    responses.CreateResponse: {"input": "Reply with exactly: ok", "metadata": {"harness_id": "chrn_41c0"}},
    responses.ResponseObject: _RESPONSE,
    responses.CancelledSession: {"id": "hsess5d2e", "object": "session", "status": "cancelled"},
    # Our own
    tokens.CreateToken: {"person": "tom", "groups": ["support"], "ttl_seconds": 86400},
    tokens.IssuedToken: {**_TOKEN, "token": "gk_…"},
    tokens.Tokens: {"data": [_TOKEN], **_NONE_MORE},
    tokens.RevokeToken: {"id": "tok_1"},
    tokens.RevokedToken: {"id": "tok_1", "object": "grovekeeper.token", "revoked": True},
    groups.CreateGroup: {"name": "support", "description": "Answers customers."},
    groups.Group: _GROUP,
    groups.Groups: {"data": [_GROUP], **_NONE_MORE},
    groups.Member: _MEMBER,
    groups.Members: {"data": [_MEMBER], **_NONE_MORE},
    jobs.BackgroundJob: _JOB,
    jobs.Jobs: {"data": [_JOB], **_NONE_MORE},
    access.WhoAmI: {
        "object": "grovekeeper.principal",
        "principal": "person:tom",
        "groups": ["group:support"],
        "managed_groups": ["group:support"],
        "scopes": ["user"],
        "token_id": "tok_1",
    },
    access.Explanation: {
        "object": "grovekeeper.access",
        "memory_id": _MEMORY_ID,
        "principal": "person:tom",
        "privileges": ["read", "write"],
        "reasons": [{"grant": _GRANT, "via_group": "group:support", "stopped_at": None}],
        "groups": ["group:support"],
        "complete": True,
    },
    audit.Audit: {
        "data": [
            {
                "id": "aud_1",
                "object": "grovekeeper.audit_record",
                "at": _TIME,
                "actor": "person:ruth",
                "token_id": "tok_1",
                "action": "grant.create",
                "outcome": "allowed",
                "code": None,
                "memory_id": _MEMORY_ID,
                "principal": "group:support",
                "source": "203.0.113.7",
                "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
                "detail": {},
            }
        ],
        **_NONE_MORE,
    },
}
"""By what each is an example of."""
