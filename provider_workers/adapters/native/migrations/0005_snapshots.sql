-- The latest instant of a memory that was given out as a snapshot: every later write is after it.
create table snapshot_floor (
    memory_id text primary key,
    at timestamptz not null
);

-- A superseded record that was forgotten afterwards read as superseded until then.
alter table version add column forgotten_at timestamptz;

-- The moment of a write to a memory. The memory is held, together with other writers, until the write is
-- committed, so that a snapshot waits for it; and it is after every snapshot that was given out.
create function write_moment(memory text) returns timestamptz
    language plpgsql
as $$
begin
    perform pg_advisory_xact_lock_shared(1936617840, hashtext(memory));
    return greatest(
        clock_timestamp(),
        (select at + interval '1 microsecond' from snapshot_floor where memory_id = memory)
    );
end
$$;

-- An instant that no write of the memory is across: those before it are committed, those after it come later.
-- Versions may be dated up to a millisecond ahead of the clock (their order within one write), and further when
-- the clock was set back.
create function snapshot_moment(memory text) returns timestamptz
    language plpgsql
as $$
declare
    moment timestamptz;
begin
    perform pg_advisory_xact_lock(1936617840, hashtext(memory));
    moment := greatest(
        clock_timestamp() + interval '1 millisecond',
        (select greatest(max(written_at), max(invalidated_at), max(forgotten_at))
            from version where memory_id = memory),
        (select at + interval '1 microsecond' from snapshot_floor where memory_id = memory)
    );
    insert into snapshot_floor (memory_id, at) values (memory, moment)
        on conflict (memory_id) do update set at = excluded.at;
    return moment;
end
$$;
