"""What the native provider declares (Memories, section 10.2)."""

from typing import Final

from provider_workers.adapters.native.extraction import HAVE_WORDS
from provider_workers.domain.model import Capabilities

NAME: Final = "native"
SQL: Final = "sql"
"""The language of its queries: SQLite's."""
_TABLES: Final = (
    "SQLite, one select. Tables: records (active ones: id, type, content, attributes as JSON text, version, status,"
    " supersedes, valid_from, valid_to, written_at, writer_kind, writer_id), versions (every version; the same columns"
    ' and invalidated_at), "references" (record_id, version, rel, memory_id, target_record_id). Attributes by'
    " json_extract(attributes, '$.name'). Times are ISO 8601 texts. Params as :name. select * from records answers records."
)


def document(*, derives: bool, files: bool) -> Capabilities:
    """The capability document; ``derives`` is whether facts are derived here at all, ``files`` whether there is an
    object store.
    """
    return Capabilities(
        id=NAME,
        # Every statement names the memories it may touch, and every key leads with the memory's id.
        isolation="enforced_filter",
        derivation="background" if derives else "none",
        observe_keeps_episodes=True,
        observe_answers="job",
        recall_signals=("query", "text", "filters"),
        recall_abstain=True,
        # Memories to search arrive as a list; how deep they lie is no concern of this provider.
        recall_max_depth=64,
        history_content="versions",
        history_structure="none",
        revise="native",
        forget="native",
        erase_unreachable="reported",
        prime=True,
        consolidate="runs",
        types=True,
        files=files,
        # The bytes of any file are kept; these are those whose words are found.
        content_media=HAVE_WORDS if files else (),
        content_bytes="kept" if files else "",
        snapshots=True,
        named_query_languages=(SQL,),
        free_query_languages=(SQL,),
        query_schema=_TABLES,
    )
