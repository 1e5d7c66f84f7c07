-- Consolidation runs (section 9.2). A run's row is locked by whoever writes for it: `epoch` tells the latest
-- taker of a run that was given to another process.
create table consolidation (
    memory_id text not null,
    run_id text not null,
    status text not null check (status in ('queued', 'running', 'completed', 'stopped', 'failed')),
    trigger text not null,
    created_at timestamptz not null default clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    epoch integer not null default 0,
    ceiling timestamptz,             -- it reads what was written up to then
    through timestamptz,             -- and has read this far
    episodes integer not null default 0,
    records integer not null default 0,    -- read, episodes among them
    worked_s double precision not null default 0,
    created integer not null default 0,
    superseded integer not null default 0,
    forgotten integer not null default 0,
    budget_limit bigint not null,
    budget_unit text not null check (budget_unit in ('tokens', 'records', 'seconds')),
    exhausted boolean not null default false,
    error text not null default '',
    reverted_at timestamptz,
    reverted_by_kind text,
    reverted_by_id text,
    primary key (memory_id, run_id)
);

create index consolidation_listed on consolidation (memory_id, created_at desc, run_id desc);
create index consolidation_open on consolidation (created_at) where status in ('queued', 'running');

-- What a run did to a record, once for each. `version` is the one it left as the latest, `before` the one to
-- restore; `other_id` is the record it was merged into or replaced by. All of it goes with the record.
create table consolidation_change (
    memory_id text not null,
    run_id text not null,
    record_id text not null,
    change text not null check (change in ('created', 'superseded', 'forgotten')),
    reason text not null,
    version integer not null,
    before integer not null,
    other_id text,
    at timestamptz not null,
    undone text,                     -- null: not reverted; '': done; else why it was left
    primary key (memory_id, run_id, record_id),
    foreign key (memory_id, run_id) references consolidation on delete cascade,
    foreign key (memory_id, record_id) references record on delete cascade,
    foreign key (memory_id, other_id) references record (memory_id, record_id) on delete set null (other_id)
);

create index consolidation_change_record on consolidation_change (memory_id, record_id);
create index consolidation_change_other on consolidation_change (memory_id, other_id) where other_id is not null;

-- Sessions and days of episodes, and the note that sums each up. `pending`: it grew since.
create table summary_group (
    memory_id text not null,
    group_key text not null,
    first_at timestamptz not null,   -- between these its episodes were written
    last_at timestamptz not null,
    note_id text,
    pending boolean not null default true,
    primary key (memory_id, group_key),
    foreign key (memory_id, note_id) references record (memory_id, record_id) on delete set null (note_id)
);

create index summary_group_note on summary_group (memory_id, note_id) where note_id is not null;
create index summary_group_pending on summary_group (memory_id, last_at) where pending;

-- Memories with something that no run has read. Found by a sweep, so that no writer waits for another here.
create table consolidation_due (
    memory_id text primary key,
    since timestamptz not null,      -- when the first of it was found
    changed_at timestamptz not null, -- when the last of it was written
    checked_at timestamptz not null default '-infinity'
);

create index consolidation_due_since on consolidation_due (since);
create index consolidation_due_quiet on consolidation_due (changed_at) where changed_at > checked_at;

create table consolidation_sweep (
    only_row boolean primary key default true check (only_row),
    at timestamptz not null
);

insert into consolidation_sweep (at) values (clock_timestamp());

-- Rows lie in the order they were written in: what is new is found in the last blocks.
create index version_created on version using brin (created_at) with (pages_per_range = 16, autosummarize = on);
create index version_expiring on version (memory_id, valid_to) where invalidated_at is null and valid_to is not null;
