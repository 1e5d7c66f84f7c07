-- What the native provider keeps. Every key leads with the memory, so that the tables can later be spread
-- by memory without changing a query. Deleting a row of `record` deletes everything that was kept of it.

-- One row for each record: what a writer locks.
create table record (
    memory_id text not null,
    record_id text not null,
    created_at timestamptz not null,
    primary key (memory_id, record_id)
);

-- Every version, appended and never changed but for the moment and the way it was closed.
create table version (
    memory_id text not null,
    record_id text not null,
    version integer not null,
    type text not null,
    content bytea not null,          -- JSON list of parts
    attributes bytea not null,       -- as written; empty means {}
    attributes_json jsonb,           -- for filters; null where Postgres cannot hold them
    refs bytea not null,             -- JSON list of references
    prefix text not null,            -- date and speaker, indexed with the text
    text text not null,              -- the words of the content
    words tsvector not null,         -- text with weight A, prefix with weight D
    digest bytea not null,           -- of speaker and text: tells the same said twice
    valid_from timestamptz,
    valid_to timestamptz,
    created_at timestamptz not null, -- when the record was first written
    written_at timestamptz not null,
    invalidated_at timestamptz,
    status text not null check (status in ('active', 'superseded', 'forgotten')),
    supersedes text not null,
    writer_kind text not null,
    writer_id text not null,
    derived boolean not null,        -- written by derivation, not stated
    size integer not null,           -- bytes of content and attributes
    primary key (memory_id, record_id, version),
    foreign key (memory_id, record_id) references record on delete cascade,
    check ((invalidated_at is null) = (status = 'active'))
);

-- Never two latest versions of a record.
create unique index version_latest on version (memory_id, record_id) where invalidated_at is null;
-- Never the same derived twice in a memory.
create unique index version_derived on version (memory_id, digest) where derived and invalidated_at is null;
create index version_digest on version (memory_id, digest) where invalidated_at is null;
create index version_current on version (memory_id, created_at desc, record_id desc)
    where invalidated_at is null;
create index version_listed on version (memory_id, created_at desc, record_id desc, version desc);
create index version_primed on version (memory_id, (type = 'fact'), written_at desc, record_id desc)
    include (size)
    where invalidated_at is null and (type in ('procedure', 'note') or (type = 'fact' and not derived));

-- With btree_gin one memory's words are an index of their own; without it the memory is looked at after.
do $$
begin
    if exists (select 1 from pg_extension where extname = 'btree_gin') then
        create index version_words on version using gin (memory_id, words) where invalidated_at is null;
    else
        create index version_words on version using gin (words) where invalidated_at is null;
    end if;
end
$$;

-- Vectors, in a narrow table that is searched exactly. `generation` names model and preprocessing; vectors
-- of two generations are never compared.
create table embedding (
    memory_id text not null,
    record_id text not null,
    version integer not null,
    generation text not null,
    dimension integer not null,
    invalidated_at timestamptz,      -- as in `version`
    vector halfvec not null,
    primary key (memory_id, record_id, version, generation),
    foreign key (memory_id, record_id, version) references version on delete cascade
);

-- A search of the present reads this index alone. Longer vectors do not fit a btree page.
create index embedding_current on embedding (memory_id)
    include (record_id, version, generation, dimension, vector)
    where invalidated_at is null and dimension <= 1024;

-- Versions that still wait for their vector.
create table unembedded (
    memory_id text not null,
    record_id text not null,
    version integer not null,
    attempts integer not null default 0,
    primary key (memory_id, record_id, version),
    foreign key (memory_id, record_id, version) references version on delete cascade
);

create index unembedded_next on unembedded (attempts, memory_id, record_id, version);

-- The generation all vectors are of, or are becoming.
create table embedding_generation (
    only_row boolean primary key default true check (only_row),
    generation text not null
);

-- Which record was derived from which, for erasing; the source may be of another memory or gone.
create table derivation (
    memory_id text not null,
    record_id text not null,
    source_memory_id text not null,
    source_record_id text not null,
    primary key (memory_id, record_id, source_memory_id, source_record_id),
    foreign key (memory_id, record_id) references record on delete cascade
);

create index derivation_source on derivation (source_memory_id, source_record_id);

-- An observe's background work, its episodes, and the facts it derived.
create table job (
    memory_id text not null,
    job_id text not null,
    status text not null check (status in ('pending', 'completed', 'failed')),
    created_at timestamptz not null,
    finished_at timestamptz,
    error text not null default '',
    runs integer not null default 0,
    primary key (memory_id, job_id)
);

create index job_finished on job (finished_at);

create table job_episode (
    memory_id text not null,
    job_id text not null,
    position integer not null,
    record_id text not null,
    state text not null default 'waiting' check (state in ('waiting', 'done', 'quarantined')),
    attempts integer not null default 0,
    primary key (memory_id, job_id, position),
    foreign key (memory_id, job_id) references job on delete cascade,
    foreign key (memory_id, record_id) references record on delete cascade
);

create index job_episode_record on job_episode (memory_id, record_id);

create table job_fact (
    memory_id text not null,
    job_id text not null,
    position integer not null,       -- of the episode
    sentence integer not null,
    record_id text not null,
    primary key (memory_id, job_id, position, sentence),
    foreign key (memory_id, job_id) references job on delete cascade,
    foreign key (memory_id, record_id) references record on delete cascade
);

create index job_fact_record on job_fact (memory_id, record_id);

-- Which record or job a keyed write made, so that a repeat is answered and nothing is written. It holds no
-- content. After an erase the hash of the request is null: the key is spent and answers nothing any more.
create table idempotency (
    principal text not null,
    operation text not null,
    key text not null,
    fingerprint bytea,
    memory_id text not null,
    record_id text,
    version integer,
    job_id text,
    created_at timestamptz not null default now(),
    primary key (principal, operation, key)
);

create index idempotency_record on idempotency (memory_id, record_id);
create index idempotency_job on idempotency (memory_id, job_id);
create index idempotency_age on idempotency (created_at);

-- A jsonb of attributes, or null for what Postgres refuses: \u0000, a lone surrogate, an enormous number,
-- very deep nesting.
create function jsonb_or_null(written text) returns jsonb
    language plpgsql immutable parallel safe
as $$
begin
    return written::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

-- The words of a version: what it says weighs A, when and by whom it was said weighs D.
create function words_of(said text, around text) returns tsvector
    language sql immutable parallel safe
    return setweight(to_tsvector('pg_catalog.english', said), 'A')
        || setweight(to_tsvector('pg_catalog.english', around), 'D');
