-- Idempotency keys with what they answered (service_kit/db/keys.py).
create table answered (
    principal text not null,
    operation text not null,
    key text not null,
    request_sha256 bytea,            -- null: spent, what it was about is gone
    memory_id text,                  -- what the answer tells of
    answer bytea,                    -- null: the write is under way
    created_at timestamptz not null default now(),
    primary key (principal, operation, key)
);

create index answered_memory on answered (memory_id) where memory_id is not null;
create index answered_age on answered (created_at);
