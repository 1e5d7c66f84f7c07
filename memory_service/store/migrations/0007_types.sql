-- Types of records that were registered through the API. Schemas are kept byte for byte.
create table record_type (
    type text primary key,
    description text not null,
    schema bytea not null,
    text text not null,
    projection text[] not null,
    operations bytea not null,       -- JSON
    updated_at timestamptz not null default now()
);
