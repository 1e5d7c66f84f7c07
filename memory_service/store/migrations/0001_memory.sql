-- What a memory is called and which provider keeps its records. The tree's shape is authz_service's.
create table memory (
    id text primary key,
    name text not null,
    description text not null,
    provider text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);

-- Which memory a keyed create made, so that a repeat answers the same one.
create table idempotency (
    principal text not null,
    operation text not null,
    key text not null,
    request_sha256 bytea not null,
    memory_id text not null,
    created_at timestamptz not null default now(),
    primary key (principal, operation, key)
);

create index idempotency_age on idempotency (created_at);
