-- What of a harness runs or ended lately, for those who follow it.
create index response_harness_running on response (harness_id) where finished_at is null;
create index response_harness_ended on response (harness_id, finished_at) where finished_at is not null;
