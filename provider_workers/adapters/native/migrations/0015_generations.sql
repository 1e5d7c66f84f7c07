-- The models that vectors are or may be of. A worker tells of its own before it keeps a vector; the highest place is
-- the one all vectors are becoming. (`embedding_generation` is read by the release before this one alone.)
create table vector_generation (
    name text primary key,
    place bigint not null unique,
    placed_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(), -- when a worker with this model last said so
    emptied boolean not null default false                  -- its vectors were dropped, for a higher place
);

insert into vector_generation (name, place)
    select name, row_number() over (order by at, name)
    from (
        select name, min(at) as at
        from (
            select generation as name, 0 as at from embedding_generation where generation <> ''
            union all
            select distinct generation, 1 from embedding
        ) known
        group by name
    ) each_once;
