-- Names for instants of a memory, which go with it.
create table snapshot (
    memory_id text not null references memory on delete cascade,
    id text not null,
    name text not null,
    message text not null,
    at timestamptz not null,
    writer_kind text not null,
    writer_id text not null,
    primary key (memory_id, id),
    unique (memory_id, name)
);

create index snapshot_listed on snapshot (memory_id, at desc, id desc);
