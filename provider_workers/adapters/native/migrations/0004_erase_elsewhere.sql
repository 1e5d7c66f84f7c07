-- In which memories the copies are that a keyed erase did not reach, in the order of `unreachable`.
alter table idempotency add column unreachable_in text[];
