-- Runs of all memories, as an operator lists them beside the derivations.
create index consolidation_of_all on consolidation (created_at desc, run_id desc);
