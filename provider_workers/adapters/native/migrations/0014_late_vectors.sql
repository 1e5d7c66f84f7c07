-- A run that finds vectors missing does the rest, says so, and leaves what it could not do to a later one.
alter table consolidation add column degraded text[] not null default '{}';

-- Derived facts that a run has read and could not compare, because they or others of the memory waited for a vector.
create table consolidation_late (
    memory_id text not null,
    record_id text not null,
    primary key (memory_id, record_id),
    foreign key (memory_id, record_id) references record on delete cascade
);

-- How often no vectors could be had for it: what was tried least comes first.
alter table summary_group add column attempts integer not null default 0;
