-- Jobs of all memories, as an operator lists them; and when one that had failed was begun again.
alter table job add column retried_at timestamptz;
create index job_listed on job (created_at desc, job_id desc);
create index job_by_id on job (job_id);
