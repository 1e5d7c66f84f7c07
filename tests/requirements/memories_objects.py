"""Memories, sections 2 to 5: the tree, access, records and the operations on them."""

from tests.requirements.model import defined, may, must, must_not, should

__all__ = ["OBJECTS"]

OBJECTS = (
    # --- 2 The memory object
    defined(
        "ME-2-01",
        "A memory reads with its id, name, description, place, provider, privileges, counts and times.",
    ),
    defined("ME-2-02", "The id of a memory is the server's and begins with hmem_."),
    defined(
        "ME-2-03",
        "A client writes name, description, parent_id and restricted; what the server writes cannot be supplied.",
    ),
    defined(
        "ME-2-04", "parent_id is null on a root, and is null too where the caller may not see the parent."
    ),
    defined("ME-2-05", "ancestors goes from the root down to the parent, as far up as the caller may see."),
    defined("ME-2-06", "Reading a memory never reads the records of an ancestor."),
    defined(
        "ME-2-07",
        "The provider is chosen when a memory is made and inherited from the parent when none is named.",
    ),
    may("ME-2-08", "A change of a memory's provider is refused."),
    defined("ME-2-09", "privileges are the caller's effective ones on that node."),
    defined("ME-2-10", "records and children count what is there, and only what the caller may see of it."),
    defined(
        "ME-2-11",
        "A memory is created with a name, and a description, parent, restriction and provider where they are given.",
    ),
    defined("ME-2-12", "A listing with parent answers its direct children, one level only, page by page."),
    defined(
        "ME-2-13",
        "A listing without parent answers every memory the caller holds something on and whose parent it cannot see.",
    ),
    defined(
        "ME-2-14",
        "A listing with ancestor answers every descendant the caller may read, and none that it holds nothing on.",
    ),
    defined(
        "ME-2-15", "A memory is renamed, described anew, restricted and moved by PUT; what is absent stays."
    ),
    defined("ME-2-16", "Deleting a memory deletes its records and all its descendants."),
    must_not("ME-2-17", "A memory on which the caller holds no effective privilege is never returned."),
    must_not(
        "ME-2-18",
        "That a memory exists is not revealed to somebody who holds nothing on it: the answer is that of an unknown id.",
    ),
    # --- 3.1 Grants and inheritance
    defined("ME-3.1-01", "A grant gives one principal a set of privileges on one memory."),
    defined(
        "ME-3.1-02",
        "Effective privileges are the union of the principal's grants on the memory and on its ancestors.",
    ),
    defined(
        "ME-3.1-03",
        "Access only adds up: nothing takes away what another grant gives, and no grant is no access.",
    ),
    defined(
        "ME-3.1-04",
        "Whoever creates a memory holds all four privileges on it, and they flow down like any grant.",
    ),
    defined(
        "ME-3.1-05", "read permits recall, get, list, history and running a named query that requires read."
    ),
    defined("ME-3.1-06", "write permits observe, remember, revise, forget and defining a named query."),
    defined("ME-3.1-07", "create permits making a child memory."),
    defined("ME-3.1-08", "delete permits erase, deleting the memory and changing its grants."),
    defined("ME-3.1-09", "The list of grants says who holds what and on which node each grant sits."),
    defined(
        "ME-3.1-10",
        "A grant is made with a principal and privileges, and revoked by its id; both hold for the next request.",
    ),
    defined(
        "ME-3.1-11",
        "A principal is a kind and an id; the kinds accepted are documented and others are refused.",
    ),
    # --- 3.2 The cutoff
    defined(
        "ME-3.2-01", "Grants on the ancestors of a restricted memory reach neither it nor anything below it."
    ),
    defined("ME-3.2-02", "The grants of a restricted memory itself flow down as usual."),
    should(
        "ME-3.2-03",
        "A memory for one person's private records is created restricted.",
        not_ours="The server creates no person's memory: creating one is the caller's act (section 9), who states restricted.",
    ),
    # --- 3.3 Enforcement
    defined("ME-3.3-01", "The server decides on access on every operation."),
    defined("ME-3.3-02", "Nothing a model says can choose, widen or bypass access."),
    defined(
        "ME-3.3-03",
        "A provider keeps memories apart by a container each or by a condition the server adds, and declares which.",
    ),
    defined(
        "ME-3.3-04", "No condition that confines a read is left to the agent or to a query the agent wrote."
    ),
    # --- 4 Records
    defined(
        "ME-4-01",
        "A record reads with its memory, type, content, attributes, version, status, times, writer, references and trust.",
    ),
    defined("ME-4-02", "The id of a record is the provider's and opaque."),
    defined(
        "ME-4-03", "content is a text or a reference to a file with id, name, bytes, media type and version."
    ),
    defined(
        "ME-4-04", "attributes of the core types are free-form, and come back exactly as they were written."
    ),
    defined(
        "ME-4-05", "status is active, superseded or forgotten, and version rises by one with each change."
    ),
    defined("ME-4-06", "supersedes names the record that this one replaces."),
    defined(
        "ME-4-07",
        "valid_from and valid_to say when it was true in the world; written_at and invalidated_at when the memory held it.",
    ),
    defined(
        "ME-4-08",
        "A provider without validity leaves the world's times null.",
        not_ours="Every provider of this release keeps validity.",
    ),
    defined(
        "ME-4-09", "written_by is stamped from the authenticated caller; what a client supplies is not used."
    ),
    defined("ME-4-10", "trust reads untrusted, always."),
    # --- 4.1 Types
    defined("ME-4.1-01", "episode, fact, note, procedure and link are understood."),
    defined("ME-4.1-02", "An episode is append-only: it is not revised."),
    defined("ME-4.1-03", "A link is an address and a description and needs no content of its own."),
    defined("ME-4.1-04", "A type that is neither core nor an extension (x.) is refused when it is written."),
    must("ME-4.1-05", "A record of a type the server does not understand is carried unchanged."),
    must_not("ME-4.1-06", "No read is refused because of a record's type."),
    # --- 4.2 References
    defined(
        "ME-4.2-01",
        "A reference names a record by its memory and its id; both ends may lie in different memories and providers.",
    ),
    defined("ME-4.2-02", "A reference is resolved when it is read, with the privileges of the reader."),
    defined(
        "ME-4.2-03",
        "A reader without read on the target gets memory_id, record_id and available: false, and nothing else.",
    ),
    defined("ME-4.2-04", "Writing a reference needs no read on its target."),
    # --- 5 Operations
    defined("ME-5-01", "The ten operations answer at their addresses below a memory."),
    defined("ME-5-02", "A listing of records is paginated and takes filters, types and as_of."),
    # --- 5.1 Two ways to write
    defined("ME-5.1-01", "observe appends episodes; what is derived from them is the provider's business."),
    defined(
        "ME-5.1-02",
        "An observe whose provider derives later answers 202 with a job (id, status) and no records.",
    ),
    defined(
        "ME-5.1-03", "A job read at its route says pending, completed or failed, and the records it wrote."
    ),
    defined("ME-5.1-04", "A provider says whether it keeps episodes as records."),
    defined("ME-5.1-05", "remember writes the record as the caller states it."),
    defined("ME-5.1-06", "A provider declares when it derives: write_time, background, agent or none."),
    defined(
        "ME-5.1-07",
        "Every write takes an Idempotency-Key: repeated, it answers as before and changes nothing.",
    ),
    # --- 5.2 Two ways to remove
    defined("ME-5.2-01", "forget sets the status to forgotten and keeps the place in the version chain."),
    defined("ME-5.2-02", "A forgotten record leaves every read that does not ask for history."),
    defined("ME-5.2-03", "forget needs write."),
    defined("ME-5.2-04", "An erased record cannot be read again: not by id, list, recall, history or as_of."),
    defined("ME-5.2-05", "erase reaches what was derived from the record."),
    defined("ME-5.2-06", "erase needs delete."),
    defined("ME-5.2-07", "erase is never offered to an agent as a tool."),
    defined(
        "ME-5.2-08",
        "erase answers the ids erased and, in unreachable, the derived copies that could not be removed.",
    ),
    defined("ME-5.2-09", "A provider that cannot guarantee an empty unreachable says so."),
    # --- 5.3 Nothing is overwritten
    defined("ME-5.3-01", "A change appends a version and closes the one before it."),
    defined("ME-5.3-02", "history answers the chain, each version with its writer and time."),
    defined("ME-5.3-03", "as_of on recall reads the memory as it stood at that instant."),
    defined("ME-5.3-04", "as_of on get and list reads the memory as it stood at that instant."),
    defined("ME-5.3-05", "A snapshot is a name and a message for an instant and copies nothing."),
    defined("ME-5.3-06", "Reading as_of a snapshot's time is reading as_of that instant."),
    defined(
        "ME-5.3-07",
        "A provider declares how much history it keeps, of content and of structure: versions, snapshots or none.",
    ),
)
