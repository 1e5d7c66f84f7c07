-- Files as they were uploaded, until a record has taken them over or their time is up. The row is written before the
-- bytes: the object store holds nothing that no row knows of.
create table upload (
    id text primary key,
    principal text not null,
    name text not null,
    media_type text not null default '',
    bytes bigint not null default 0,
    sha256 text not null default '',
    purpose text not null default '',
    operation text,                  -- with `key`: the row of `answered` that goes with it
    key text,
    complete boolean not null default false,
    created_at timestamptz not null
);

create index upload_age on upload (complete, created_at);

-- Where records may name an upload, so that it goes when they are erased.
create table upload_kept (
    file_id text not null references upload on delete cascade,
    memory_id text not null,
    created_at timestamptz not null default now(),
    primary key (memory_id, file_id)
);

create index upload_kept_file on upload_kept (file_id);
