-- Named queries (Memories, section 6.4). They go with their memory.
create table named_query (
    memory_id text not null references memory (id) on delete cascade,
    name text not null,
    description text not null,
    params bytea not null,           -- JSON Schema, as written
    requires text not null check (requires in ('read', 'write')),
    language text not null,
    body text not null,
    updated_at timestamptz not null,
    writer_kind text not null,
    writer_id text not null,
    primary key (memory_id, name)
);
