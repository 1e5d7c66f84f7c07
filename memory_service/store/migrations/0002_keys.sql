-- A key is claimed before the memory is made, so that two requests with one key never both make it. Those there
-- are were written afterwards.
alter table idempotency add column finished boolean not null default true;
