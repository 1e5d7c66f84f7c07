-- What a keyed erase answered: ids of records that are gone, so that a repeat is told the same.
alter table idempotency
    add column erased text[],
    add column unreachable text[];
