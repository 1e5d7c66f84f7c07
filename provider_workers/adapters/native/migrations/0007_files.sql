-- The files that records of a memory name. The row is written before the bytes, so that no object of the store is
-- ever unknown here; `text` are the words found in them.
create table kept_file (
    memory_id text not null,
    object text not null,            -- of the store, below the memory
    file_id text not null,
    name text not null,
    media_type text not null,
    bytes bigint not null,
    version text not null default '',
    text text not null default '',
    kept boolean not null default false,   -- the bytes are there, whole
    named boolean not null default false,  -- a version names it
    created_at timestamptz not null default now(),
    primary key (memory_id, object)
);

create unique index kept_file_id on kept_file (memory_id, file_id) where kept;
-- What is dropped when no version names it in time.
create index kept_file_unnamed on kept_file (created_at) where not named;

-- Which version names which file.
create table version_file (
    memory_id text not null,
    record_id text not null,
    version integer not null,
    file_id text not null,
    primary key (memory_id, record_id, version, file_id),
    foreign key (memory_id, record_id, version) references version on delete cascade
);

create index version_file_id on version_file (memory_id, file_id);

-- What a keyed erase answered of files.
alter table idempotency add column file_ids text[];
