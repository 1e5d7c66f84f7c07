"""Memories, sections 9 to 14: harnesses, consolidation, providers, errors and security."""

from tests.requirements.model import defined, may, must, should

__all__ = ["SEAM"]

SEAM = (
    # --- 9 Attaching memories to a harness
    defined("ME-9-01", "PUT replaces the list of attached memories; an empty list detaches all."),
    defined("ME-9-02", "GET answers the attached memories with access and default."),
    defined("ME-9-03", "What the harness holds already is attached as it is."),
    defined(
        "ME-9-04",
        "What the harness does not hold is granted by the same call when the caller holds delete on that memory.",
    ),
    defined(
        "ME-9-05",
        "An entry that can be neither attached nor granted is refused when the harness is written, and nothing changes.",
    ),
    defined("ME-9-06", "Detaching leaves the grant."),
    defined("ME-9-07", "access narrows and never widens."),
    defined("ME-9-08", "access read gives read tools only, on that memory and on what is walked to from it."),
    may("ME-9-09", "One entry is the default: observe and an unaddressed remember go there."),
    may("ME-9-10", "A task names one more memory in metadata.memory for its session."),
    defined(
        "ME-9-11", "The task's memory is where the session writes by default when the harness may write it."
    ),
    defined(
        "ME-9-12",
        "The task's memory is checked against the harness's privileges: one it holds nothing on is memory_not_found before the task starts.",
    ),
    defined("ME-9-13", "A memory is named by its id; nothing else in a request is turned into one."),
    # --- 9.1 What a session does
    defined(
        "ME-9.1-01",
        "At the start of a session what is always relevant in each attached memory is placed in the instructions.",
    ),
    defined("ME-9.1-02", "Priming places each memory's name, description and children."),
    defined("ME-9.1-03", "Priming happens again after the conversation was compacted."),
    defined("ME-9.1-04", "Priming is not repeated every turn."),
    defined("ME-9.1-05", "How much is returned for priming is the provider's decision."),
    defined("ME-9.1-06", "What was placed is recorded with the turn, per memory, in tokens."),
    defined(
        "ME-9.1-07", "An agent lists, recalls and gets through memory_list, memory_recall and memory_get."
    ),
    defined("ME-9.1-08", "An agent writes through memory_remember, memory_revise and memory_forget."),
    defined("ME-9.1-09", "memory_run_query runs the named queries of a memory."),
    defined("ME-9.1-10", "memory_operate runs the operations of types."),
    defined("ME-9.1-11", "memory_query is offered where a provider offers free queries."),
    defined("ME-9.1-12", "Write tools are offered only to a harness that is attached somewhere to write."),
    defined(
        "ME-9.1-13",
        "From an attached memory an agent walks to parents and children, as far as the harness's privileges reach.",
    ),
    defined("ME-9.1-14", "The server checks every step of an agent."),
    defined(
        "ME-9.1-15",
        "When a turn ends, what was asked, answered and which tools ran goes to the default memory as episodes.",
    ),
    defined("ME-9.1-16", "Observing a turn involves no model on the server's side."),
    defined(
        "ME-9.1-17",
        "The server asks the provider for its background work on a schedule or when idle.",
    ),
    must(
        "ME-9.1-18",
        "Whoever attaches a memory whose provider is outside the server is told that every turn will be sent to it.",
    ),
    defined("ME-9.1-19", "The attached memories are where an agent starts, and it is told which they are."),
    defined(
        "ME-9.1-20",
        "memory_list of a memory names its parent and its children with name, description and counts.",
    ),
    # --- 9.2 Consolidation runs
    defined(
        "ME-9.2-01",
        "Runs are started, listed newest first and read, each with its status, trigger, budget, usage and changes.",
    ),
    defined("ME-9.2-02", "The records a run wrote, superseded or forgot are listed."),
    defined("ME-9.2-03", "Every record a run writes carries the run's writer."),
    defined(
        "ME-9.2-04",
        "revert appends: what was superseded or forgotten is current again, what was created is forgotten, history keeps both.",
    ),
    defined("ME-9.2-05", "A provider declares consolidate as runs, trigger or false."),
    defined(
        "ME-9.2-06",
        "A run whose budget ran out is stopped: what was done stays done, and the next run goes on from there.",
    ),
    # --- 10.1 The contract
    defined(
        "ME-10.1-01",
        "A provider carries out the operations of sections 5 and 6 for the memories bound to it.",
    ),
    defined(
        "ME-10.1-02", "Tree, grants, cutoff and references are the same whichever provider keeps the records."
    ),
    defined(
        "ME-10.1-03",
        "A provider's credential is held by the server as every other credential is.",
        not_ours="No provider of this release takes a credential.",
    ),
    # --- 10.2 The capability document
    defined("ME-10.2-01", "The capability document of every provider is answered in the chapter's words."),
    defined("ME-10.2-02", "isolation, derivation, observe, history, revise, forget and erase are declared."),
    defined("ME-10.2-03", "recall.signals, recall.abstain and recall.max_depth say what a recall can do."),
    defined("ME-10.2-04", "prime, consolidate, queries, types and files are declared."),
    defined(
        "ME-10.2-05", "An operation that the adapter supplies itself is declared emulated, never native."
    ),
    defined("ME-10.2-06", "A signal that is not declared is answered with degraded when it is asked for."),
    defined("ME-10.2-07", "What is declared works."),
    # --- 10.3 What an adapter owes
    defined(
        "ME-10.3-01",
        "A memory is one unit that is kept apart from every other, also for a record fetched by its id.",
    ),
    defined(
        "ME-10.3-02",
        "What a provider cannot do is memory_unsupported or, for part of a request, degraded; never approximated in silence.",
    ),
    defined(
        "ME-10.3-03",
        "A removed record that the provider still serves, or whose copies it cannot reach, is in unreachable.",
    ),
    # --- 11 Discovery
    defined("ME-11-01", "capabilities.memories is true, and sections 2 to 6.3 and 9 are there."),
    defined("ME-11-02", "Queries, types, files, snapshots, runs and erase are reported by provider."),
    defined(
        "ME-11-03",
        "A server without the chapter reports false and answers its addresses with 404.",
        not_ours="This server implements the chapter.",
    ),
    # --- 12 Errors
    defined("ME-12-01", "memory_not_found, 404: no such memory, or one the caller may not see."),
    defined("ME-12-02", "memory_forbidden, 403: the caller sees the memory and lacks the privilege."),
    defined(
        "ME-12-03",
        "memory_record_not_found, 404: no such record in this memory, one of another memory included.",
    ),
    defined("ME-12-04", "memories_not_attached, 404: the harness has no memories."),
    defined("ME-12-05", "memory_invalid, 422: a parent that makes a cycle."),
    defined("ME-12-06", "memory_invalid, 422: a default on two entries."),
    defined("ME-12-07", "memory_invalid, 422: params that do not match the query."),
    defined("ME-12-08", "memory_unsupported, 422: an operation that the provider does not implement."),
    defined("ME-12-09", "memory_busy, 409: a move or a delete while a consolidation runs."),
    defined("ME-12-10", "memory_unavailable, 502 or 503: the provider did not answer."),
    # --- 13 Security
    must("ME-13-01", "Recalled content is presented to the agent as data, fenced from instructions."),
    must("ME-13-02", "written_by is carried with what is presented to an agent."),
    defined(
        "ME-13-03",
        "An agent reaches every memory its harness holds a privilege on, and no other, checked on every call.",
    ),
    defined(
        "ME-13-04", "written_by and written_at come from the authenticated caller and the server's clock."
    ),
    defined(
        "ME-13-05", "Unknown and forbidden look the same on reads of memories and of targets of references."
    ),
    defined(
        "ME-13-06",
        "An agent never holds a provider's credential.",
        not_ours="No provider of this release takes a credential; what an agent's process is given is checked under SU-tasks.",
    ),
    # --- 14 Conformance
    defined(
        "ME-14-01",
        "The public surface passes what the suite drives: tree, stamp, recall, signals, history, isolation, forget, erase, move, delete.",
    ),
    should(
        "ME-14-02",
        "A published measure of quality reports the questions to decline beside those to answer, and their cost.",
        not_ours="It is outside the interface; `make eval` reports both.",
    ),
)
