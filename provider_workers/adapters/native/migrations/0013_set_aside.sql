-- What a memory's derivations set aside: few among all the episodes whose jobs are still kept.
create index job_episode_quarantined on job_episode (memory_id) where state = 'quarantined';
