"""What the other chapters of UHP ask of a server, section by section of the page that restates them."""

from tests.requirements.model import defined, may, must, must_not

__all__ = ["SURFACE"]

_ARTIFACTS = "files_output reads false; the address answers 404."
_PARTS = "Anything but an empty list is 400 invalid_input."

SURFACE = (
    # --- Every request
    must("SU-requests-01", "A request without a token is 401 missing_credential; discovery needs none."),
    must(
        "SU-requests-02",
        "A malformed, unknown or revoked token is 401 invalid_credential, one answer for all three.",
    ),
    must(
        "SU-requests-03",
        "UHP-Version is honoured or refused: 400 unsupported_protocol_version with detail.supported.",
    ),
    must("SU-requests-04", "Every response, errors included, carries UHP-Version with the version used."),
    must("SU-requests-05", "2026-10-04 is the default, and its three additive predecessors are accepted."),
    must(
        "SU-requests-06",
        "Unknown request fields are ignored, and on a task named in metadata.ignored_fields.",
    ),
    defined("SU-requests-07", "tools and include are accepted, never acted on, and named in ignored_fields."),
    must(
        "SU-requests-08",
        "Every body that is not 2xx is the envelope: type, code, message, param and detail, all present.",
    ),
    must("SU-requests-09", "A message is one sentence without credential, host name, path or stack trace."),
    defined("SU-requests-10", "detail carries the trace id."),
    must("SU-requests-11", "What is outside the caller's scope is 404."),
    # --- Errors
    defined(
        "SU-errors-01", "Each type of error has its statuses: 400, 404, 409, 413, 422; 401; 403; 429; 5xx."
    ),
    defined("SU-errors-02", "rate_limited is 429 with Retry-After."),
    defined("SU-errors-03", "harness_not_found, response_not_found and session_not_found are 404."),
    defined("SU-errors-04", "invalid_input is 400."),
    defined("SU-errors-05", "harness_mismatch is 409."),
    defined("SU-errors-06", "session_busy is 409."),
    defined("SU-errors-07", "model_unavailable is 422."),
    defined("SU-errors-08", "unsupported_base is 422 with the bases in detail.supported."),
    defined("SU-errors-09", "insufficient_scope is 403."),
    defined("SU-errors-10", "harness_unavailable is 503."),
    defined(
        "SU-errors-11",
        "harness_error, provider_error and timeout appear in failed responses only, under 200.",
    ),
    defined("SU-errors-12", "file_not_found is 404."),
    defined("SU-errors-13", "A code of our own begins with the product's name and an underscore."),
    defined("SU-errors-14", "quota_exhausted is 429."),
    # --- Discovery
    defined(
        "SU-discovery-01",
        "GET /v1/uhp answers without a token: protocol, versions, default version, class, capabilities, implementation.",
    ),
    defined("SU-discovery-02", "Every capability is a boolean, false spelled out."),
    defined(
        "SU-discovery-03", "The default version is one of the versions, and the class fits the capabilities."
    ),
    must_not("SU-discovery-04", "Nothing in discovery depends on who asks."),
    # --- Tasks
    defined("SU-tasks-01", "POST /v1/responses takes a text or items, and answers a response object."),
    defined(
        "SU-tasks-02",
        "A response has id, created_at, status, model, output, store, usage and metadata with session_id and harness.",
    ),
    defined(
        "SU-tasks-03",
        "A status is in_progress and then one terminal: completed, failed, incomplete or cancelled.",
    ),
    defined("SU-tasks-04", "error is there only when a response failed."),
    defined("SU-tasks-05", "usage is counted or null, never an invented zero."),
    must("SU-tasks-06", "Without a harness a default one is used and named."),
    must("SU-tasks-07", "A harness that does not exist is 404; another than the chain's is 409."),
    must("SU-tasks-08", "A model that cannot be served is refused or substituted visibly, never silently."),
    must("SU-tasks-09", "A budget that stops the work ends it incomplete."),
    must_not("SU-tasks-10", "A terminal state never changes, and output from before it is kept."),
    defined("SU-tasks-11", "A response is read back by its id as it stands."),
    must(
        "SU-tasks-12",
        "A repeated Idempotency-Key gets the first response, waits for it if it runs, and starts nothing.",
    ),
    must("SU-tasks-13", "Keys are kept for at least 24 hours."),
    defined("SU-tasks-14", "background: true answers at once with in_progress."),
    defined("SU-tasks-15", "store: false keeps nothing of the response."),
    defined("SU-tasks-16", "instructions, max_output_tokens, max_step and timeout_seconds are heeded."),
    defined(
        "SU-tasks-17",
        "A task may carry a file, inline or by file_id.",
        not_offered="files_input reads false; a task that brings a file is 400 invalid_input.",
    ),
    defined("SU-tasks-18", "input_items lists what a task was asked."),
    defined("SU-tasks-19", "DELETE of a response deletes it, and never cancels one that runs."),
    # --- Streaming
    defined(
        "SU-streaming-01", "A stream is text/event-stream, not cached, one JSON object for each data line."
    ),
    must("SU-streaming-02", "sequence_number starts at 0 and rises by exactly one."),
    must(
        "SU-streaming-03",
        "response.created is first, and exactly one terminal event last, with the whole response.",
    ),
    must("SU-streaming-04", "A cancelled task's stream ends with response.failed and the status cancelled."),
    must("SU-streaming-05", "A comment comes at least every 30 seconds."),
    must_not("SU-streaming-06", "Events are not held back."),
    must("SU-streaming-07", "For an item, added comes before and done after every event about it."),
    defined("SU-streaming-08", "Only the vocabulary's events are sent."),
    must_not("SU-streaming-09", "A dropped connection never stops the work."),
    may(
        "SU-streaming-10",
        "Last-Event-ID takes a stream up after that number, replaying nothing already seen.",
    ),
    must("SU-streaming-11", "Streaming and not streaming produce the same output."),
    may("SU-streaming-12", "An error that is not fatal is an event of its own, followed by a terminal one."),
    defined("SU-streaming-13", "A harness has a live feed of events."),
    # --- Sessions
    defined(
        "SU-sessions-01",
        "previous_response_id continues the session: same harness, same conversation, same session_id.",
    ),
    defined("SU-sessions-02", "An unknown previous response is 404 response_not_found."),
    must(
        "SU-sessions-03",
        "One task at a time runs in a session, another is 409 session_busy; sessions run beside one another.",
    ),
    defined(
        "SU-sessions-04",
        "Sessions are listed page by page, by harness too, and read with their turns in order.",
    ),
    must(
        "SU-sessions-05",
        "A response and a session are cancelled within a second, end cancelled and keep their output.",
    ),
    must("SU-sessions-06", "Cancelling a terminal task succeeds and changes nothing."),
    must("SU-sessions-07", "A session stays continuable after a cancel."),
    must(
        "SU-sessions-09",
        "Deleting a session cancels what runs in it and deletes all of it; then it is 404. /v1/traces is an alias.",
    ),
    defined("SU-sessions-10", "Continuing a session that is no longer kept is 404 session_expired."),
    defined("SU-sessions-08", "A session is shared by a link, which opens without a credential."),
    must(
        "SU-sessions-11",
        "Every link stops with DELETE and with the session, opens nothing else, and shows no credential and nothing of others.",
    ),
    # --- Files
    defined(
        "SU-files-01",
        "POST /v1/files (multipart: purpose, file) answers a file object with id, filename, bytes and created_at.",
    ),
    must(
        "SU-files-02",
        "A file above the documented limit is 413 file_too_large with detail.max_bytes, never cut.",
    ),
    defined("SU-files-03", "Files an agent writes become artifacts.", not_offered=_ARTIFACTS),
    must("SU-files-04", "Bytes are answered raw with their media type, nosniff and their name."),
    must_not("SU-files-05", "No pair of ids reaches outside its container.", not_offered=_ARTIFACTS),
    defined(
        "SU-files-06",
        "A preview is 501 preview_unavailable unless it is implemented.",
        not_offered=_ARTIFACTS,
    ),
    # --- Harnesses and models
    defined("SU-harnesses-01", "Harnesses are listed and read in the caller's scope only."),
    defined("SU-harnesses-02", "A harness is made from a base; an unknown one is 422 unsupported_base."),
    defined("SU-harnesses-03", "PUT replaces what can change; id, base and createdAt never do."),
    defined("SU-harnesses-04", "DELETE keeps sessions and responses."),
    defined("SU-harnesses-05", "Reads are camelCase; a write takes both spellings."),
    defined("SU-harnesses-06", "MCP servers of a harness.", not_offered=_PARTS),
    defined("SU-harnesses-07", "Skills of a harness.", not_offered=_PARTS),
    defined(
        "SU-harnesses-08",
        "Plugins of a harness.",
        not_offered="plugins reads false; anything but an empty list is 400 invalid_input.",
    ),
    must("SU-harnesses-09", "disabledTools are withheld from the agent and never dropped."),
    defined(
        "SU-harnesses-10", "Models are listed, for all bases and for a harness, and available is computed."
    ),
    # --- Memories: facts the chapter leaves to the wire
    defined("SU-memories-01", "Creates, updates, deletes and writes answer 200 with the object."),
    defined("SU-memories-02", "Listings answer data and next_cursor."),
    defined("SU-memories-03", "History is data, oldest first."),
    defined(
        "SU-memories-04",
        "A revision keeps the record's id and raises version by one; what it closes reads superseded.",
    ),
    defined(
        "SU-memories-05", "A forgotten record still reads by its id and leaves every listing and recall."
    ),
    defined(
        "SU-memories-06",
        "erase takes record_ids and answers erased and unreachable; an erased record is 404.",
    ),
    defined("SU-memories-07", "A recall with none of query, text and filters is 422."),
    defined("SU-memories-08", "A signal the provider lacks reads <signal>:not_supported in degraded."),
    defined(
        "SU-memories-09",
        "A filter is field, op and value, or a tree of and, or, not; the ops are eq ne in nin gt gte lt lte exists.",
    ),
    defined("SU-memories-10", "A delete of a record answers the record as it was closed."),
    # --- Two revisions of the Memories chapter
    defined(
        "SU-revisions-01",
        "The setting chooses the revision, UHP-Memories-Revision another for one request, and every memories answer echoes it.",
    ),
    defined(
        "SU-revisions-02",
        "content reads as a text or a file in original, and as a list of parts in post3, on every route that answers records.",
    ),
    defined("SU-revisions-03", "Both revisions' contents are accepted under both."),
    defined(
        "SU-revisions-04",
        "An unknown part, a text part without text, a file part without a file and an unknown role are 422.",
    ),
    defined(
        "SU-revisions-05",
        "A recall without depth looks at one memory in original, and below it too in post3; depth 0 is the memory alone.",
    ),
    defined("SU-revisions-06", "In post3 every result names the memory that holds the record."),
    defined(
        "SU-revisions-07", "A record's bytes have an address with and without an index, under both revisions."
    ),
    defined("SU-revisions-08", "The capability document has both revisions' fields, under both."),
    defined(
        "SU-revisions-09",
        "Several parts read in original as their text, joined, with parts beside it, so that nothing is lost.",
    ),
    defined("SU-revisions-10", "A part of an x. type is carried unchanged."),
)
