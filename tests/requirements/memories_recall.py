"""Memories, sections 6 to 8: recall, queries, files and types."""

from tests.requirements.model import defined, may, must, must_not

__all__ = ["RECALL"]

RECALL = (
    # --- 6.1 Reading is a walk
    defined(
        "ME-6.1-01",
        "recall, list and get read the memory in the path, neither what is above nor what is below it.",
    ),
    defined(
        "ME-6.1-02", "A recall names the parent and the direct children with name, description and counts."
    ),
    defined("ME-6.1-03", "Of parent and children a recall names only those the caller may read."),
    defined("ME-6.1-04", "depth reads that many levels below at once."),
    may("ME-6.1-05", "A depth may be capped."),
    must("ME-6.1-06", "A cap on depth that was applied is named in degraded."),
    # --- 6.2 The request
    defined("ME-6.2-01", "query finds by meaning."),
    defined("ME-6.2-02", "text finds by words."),
    defined(
        "ME-6.2-03",
        "filters find by equality, range and membership over type, attributes and time, joined by and, or, not.",
    ),
    defined("ME-6.2-04", "Each signal may be given alone; none at all is refused."),
    defined("ME-6.2-05", "Signals given together are fused into one ranking."),
    defined("ME-6.2-06", "types, as_of, include and limit narrow what a recall looks at and answers."),
    # --- 6.3 The response
    defined("ME-6.3-01", "Each result has a record, a score and the signals that produced it (why)."),
    defined("ME-6.3-02", "degraded names what was asked for and not done."),
    must_not("ME-6.3-03", "No part of a request is ignored silently."),
    defined(
        "ME-6.3-04", "parent is absent on a root and where the caller may not read it; the two look the same."
    ),
    defined(
        "ME-6.3-05", "abstain is true when the provider judges that nothing returned answers the question."
    ),
    # --- 6.4 Named queries
    defined("ME-6.4-01", "A named query has a name, description, params, requires, language and body."),
    defined("ME-6.4-02", "The named queries of a memory are listed."),
    defined("ME-6.4-03", "A named query is defined or replaced by PUT."),
    defined("ME-6.4-04", "Defining a named query needs write."),
    defined("ME-6.4-05", "A named query runs with params and answers in the shape of a recall."),
    defined("ME-6.4-06", "Running a named query needs the privilege it requires."),
    defined("ME-6.4-07", "params that do not fit the query's schema are refused."),
    defined("ME-6.4-08", "language and body are opaque to the protocol and come back as they were written."),
    defined("ME-6.4-09", "A named query is offered to an agent, with its params as the input."),
    must("ME-6.4-10", "A named query runs within what the caller may read."),
    # --- 6.5 Free queries
    may("ME-6.5-01", "A caller writes a query itself and runs it where the provider declares queries.free."),
    defined(
        "ME-6.5-02",
        "The provider declares the languages it accepts; another language, or a provider without, is refused.",
    ),
    defined(
        "ME-6.5-03",
        "An agent is offered memory_query with the language and the schema in its description where free queries exist.",
    ),
    defined(
        "ME-6.5-04", "A result that is records has the shape of a recall, another is the provider's own rows."
    ),
    must(
        "ME-6.5-05",
        "A free query runs within what the caller may read, by a means its statement cannot undo.",
    ),
    must_not("ME-6.5-06", "A provider that cannot confine a statement does not declare queries.free."),
    defined(
        "ME-6.5-07",
        "A free query reads; a statement that writes is refused where queries.free.write is not declared.",
    ),
    defined(
        "ME-6.5-08",
        "A free query that writes needs write and stamps the writer.",
        not_offered="No provider declares queries.free.write; a statement that writes is refused.",
    ),
    may(
        "ME-6.5-09",
        "Time and size of a free query are bounded, and a bound that was applied is named in degraded.",
    ),
    # --- 7 Files
    defined("ME-7-01", "A record's content may be a file, answered as a reference with an opaque version."),
    defined("ME-7-02", "A revision with new bytes is a new version of the record."),
    defined("ME-7-03", "Earlier bytes stay readable through history and as_of as long as history is kept."),
    defined(
        "ME-7-04", "The bytes are read at the record's content address, of one version where it is named."
    ),
    defined("ME-7-05", "Bytes are uploaded with POST /v1/files and a record names the file's id."),
    # --- 8 Types
    defined(
        "ME-8-01", "The types are listed, each with its description, schema, text projection and operations."
    ),
    defined(
        "ME-8-02",
        "A record of an extension type is under its memory's access, is versioned and can be referenced.",
    ),
    defined("ME-8-03", "A record of an extension type is found by recall through its text projection."),
    defined("ME-8-04", "An operation of a type is run on a record at its address."),
    defined("ME-8-05", "An operation needs the privilege it states."),
    defined("ME-8-06", "The operations of types are offered to an agent."),
    defined(
        "ME-8-07", "A type that the protocol does not define begins with x. and is otherwise named freely."
    ),
    defined(
        "ME-8-08",
        "A provider that registers no types reports types: false, and the listing has the core types.",
    ),
    defined("ME-8-09", "The attributes of a record of a registered type have to fit the type's schema."),
)
