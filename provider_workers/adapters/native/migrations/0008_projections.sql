-- The words a record of a registered type is found by, beside its content; indexed with it.
alter table version add column projection text not null default '';

-- The events of one memory, for what is computed of them.
create index version_of_type on version (memory_id, type, created_at desc)
    where invalidated_at is null and type like 'x.%';
