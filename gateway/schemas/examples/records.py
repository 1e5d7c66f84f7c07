"""Records, and what finds, shapes and carries them: queries, types, files."""

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.schemas import files, queries, records, types
from gateway.schemas.examples.shared import MEMORY_ID, NONE_MORE, PARENT_ID, RECORD, RECORD_ID, TIME, Json

__all__ = ["EXAMPLES"]

_PLACE: Final[Json] = {
    "id": PARENT_ID,
    "name": "Company",
    "description": "What everybody knows.",
    "records": {"count": 97},
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
    "memory_id": MEMORY_ID,
    **_PUT_QUERY,
    "updated_at": TIME,
    "written_by": {"kind": "person", "id": "ruth"},
}

EXAMPLES: Final[Mapping[type[msgspec.Struct], Json]] = {
    queries.PutQuery: _PUT_QUERY,
    queries.FreeQuery: {
        "language": "sql",
        "statement": "select type, count(*) as held from records group by type",
    },
    queries.NamedQuery: _QUERY,
    queries.NamedQueries: {"data": [_QUERY], **NONE_MORE},
    queries.QueryAnswer: {"columns": ["type", "held"], "rows": [["fact", 12]], "degraded": []},
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
    records.Remember: {"type": "fact", "content": "Acme renews in March.", "attributes": {"account": "acme"}},
    records.Revise: {"content": "Acme renews in May.", "expected_version": 1},
    records.Observe: {"episodes": [{"role": "user", "content": "We close at six on Fridays."}]},
    records.Erase: {"record_ids": [RECORD_ID]},
    records.Recall: {"query": "what did Acme say about renewal?", "limit": 3},
    records.RecordAnswer: RECORD,
    records.Records: {"data": [RECORD], **NONE_MORE},
    records.History: {"data": [RECORD]},
    records.ObservedAnswer: {"job": {"id": "hjob_1", "status": "pending"}, "records": []},
    records.JobAnswer: {
        "id": "hjob_1",
        "object": "memory.job",
        "memory_id": MEMORY_ID,
        "status": "completed",
        "records": [RECORD],
        "created_at": TIME,
        "finished_at": TIME,
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
    types.Operated: {"record": {**RECORD, "type": "x.deal"}},
    records.Erased: {"erased": [RECORD_ID], "unreachable": []},
    records.RecallAnswer: {
        "results": [
            {
                "record": RECORD,
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
}
"""By what each is an example of."""
