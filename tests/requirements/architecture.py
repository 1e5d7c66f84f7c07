"""The Architecture chapter."""

from tests.requirements.model import defined, may, must, must_not, should

__all__ = ["ARCHITECTURE"]

_NO_CONTAINERS = "Artifacts are not offered: files_output reads false, and the addresses answer 404."

ARCHITECTURE = (
    # --- 1 Roles
    must_not("AR-1-01", "A client need not know which harness runs behind the server, nor how."),
    must_not("AR-1-02", "How work is run (processes, hosts, queues) does not show in the wire format."),
    defined(
        "AR-1-03",
        "A harness is addressed by an id the server assigns and is made from a base, a stable string.",
    ),
    # --- 2 Conformance classes
    must(
        "AR-2-01",
        "The server declares its class and implements all that belongs to it: discovery, harnesses, tasks, sessions, cancelling, errors.",
    ),
    must_not("AR-2-02", "A capability that is not implemented is not advertised."),
    defined(
        "AR-2-03",
        "What belongs to the classes above core is not there.",
        not_offered="The class declared is core: sharing and session listing read false, and their addresses answer 404.",
    ),
    may(
        "AR-2-04",
        "The word conformant is used only of a class that passed.",
        not_ours="It binds what is said of the server, not the server.",
    ),
    # --- 3 Object model
    defined("AR-3-01", "Objects carry object, naming their type."),
    defined("AR-3-02", "An id says by its prefix what it names: chrn_, resp_, hsess, file_, hmem_."),
    defined("AR-3-03", "A session is made by its first task and extended by previous_response_id."),
    defined("AR-3-04", "A memory outlasts every session and is part of none."),
    defined("AR-3-05", "A container is the file namespace of a session.", not_offered=_NO_CONTAINERS),
    defined("AR-3-06", "An environment is optional.", not_offered="environments reads false."),
    # --- 4 Transport
    must(
        "AR-4-01",
        "Requests are HTTP/1.1 or later over TLS, except on loopback.",
        not_ours="The gateway listens in plaintext on loopback by default; TLS is ended by the operator's proxy.",
    ),
    defined("AR-4-02", "Bodies are application/json; charset=utf-8, except uploads, downloads and streams."),
    defined("AR-4-03", "Streams are text/event-stream."),
    must("AR-4-04", "A request without Accept is answered in JSON."),
    # --- 5 Authentication
    must("AR-5-01", "An absent, malformed or unknown token is 401 in the error envelope."),
    must_not(
        "AR-5-02", "An answer does not tell a token that does not exist from one that is not permitted."
    ),
    must("AR-5-03", "Every object is in the scope of the principal that created it."),
    must_not(
        "AR-5-04",
        "Nobody reads, continues, cancels or deletes another principal's response, session or file, a guessed id included.",
    ),
    must("AR-5-05", "An object outside the caller's scope is 404, not 403."),
    # --- 6 Design principles
    defined("AR-6-01", "A client cannot tell which harness did the work unless it asks."),
    defined("AR-6-02", "Events say what happened and never how to show it."),
    must_not(
        "AR-6-03", "A value that is not known is left out; no placeholder, estimate or zero is invented."
    ),
    defined("AR-6-04", "Every failure has the envelope and a code a machine can read."),
    should(
        "AR-6-05",
        "Every sentence of the specification has a test.",
        not_ours="It is a principle of the specification; this table is how it is kept here.",
    ),
)
