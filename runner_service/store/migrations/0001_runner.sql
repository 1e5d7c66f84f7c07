-- Configured harnesses. A deleted one stays for the sessions and responses that name it.
create table harness (
    id text primary key,
    owner text not null,
    base text not null,
    name text not null,
    default_model text not null,
    system_prompt text not null,
    disabled_tools text[] not null,
    max_step integer not null check (max_step >= 0),
    timeout_seconds integer not null check (timeout_seconds >= 0),
    is_default boolean not null default false,
    created_at timestamptz not null,
    deleted_at timestamptz
);

create index harness_owner on harness (owner, created_at, id) where deleted_at is null;

-- What a task without a harness runs on: one for each owner and base.
create unique index harness_default on harness (owner, base) where is_default and deleted_at is null;

create table attachment (
    harness_id text not null references harness (id) on delete cascade,
    position integer not null,
    memory_id text not null,
    access text not null check (access in ('read', 'write')),
    is_default boolean not null,
    primary key (harness_id, memory_id)
);

-- A chain of responses. The lease says which runner may write its running turn: an older epoch may not.
create table session (
    id text primary key,
    owner text not null,
    harness_id text not null references harness (id),
    memory_id text not null,
    priming jsonb,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    lease_owner text,
    lease_epoch bigint not null default 0,
    lease_until timestamptz
);

create index session_leased on session (lease_until) where lease_owner is not null;

create table response (
    id text primary key,
    owner text not null,
    session_id text not null references session (id),
    harness_id text not null references harness (id),
    status text not null check (status in ('queued', 'in_progress', 'completed', 'failed', 'incomplete', 'cancelled')),
    model text not null,
    input bytea not null,
    instructions text not null,
    memory_id text not null,
    previous_response_id text not null,
    store boolean not null,
    background boolean not null,
    max_output_tokens integer not null,
    max_step integer not null,
    timeout_seconds integer not null,
    ignored_fields text[] not null,
    trace jsonb not null,
    cancel_requested boolean not null default false,
    failure_code text,
    failure_message text,
    reason text not null default '',
    input_tokens bigint,
    output_tokens bigint,
    -- The UHP object as it was when it ended, byte for byte.
    final bytea,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz
);

-- One task at a time in a session.
create unique index response_running on response (session_id) where status in ('queued', 'in_progress');
create index response_queue on response (created_at, id) where status = 'queued';
create index response_unstored on response (finished_at) where not store and finished_at is not null;

-- The event log: what a follower may have seen is here first.
create table event (
    response_id text not null references response (id) on delete cascade,
    sequence_number bigint not null,
    type text not null,
    terminal boolean not null,
    json bytea not null,
    primary key (response_id, sequence_number)
);

-- Which object a keyed create made, so that a repeat answers the same one.
create table idempotency (
    owner text not null,
    operation text not null,
    key text not null,
    request_sha256 bytea not null,
    object_id text not null,
    created_at timestamptz not null default now(),
    primary key (owner, operation, key)
);

create index idempotency_age on idempotency (created_at);
