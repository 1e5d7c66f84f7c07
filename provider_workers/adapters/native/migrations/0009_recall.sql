-- In what an episode was said: a conversation its writer named, or else its observe. Its neighbours there help to
-- find it.
alter table version add column session text not null default '';

update version v set session = coalesce(
    nullif(left(v.attributes_json ->> 'session', 200), ''),
    nullif(left(v.attributes_json ->> 'session_id', 200), ''),
    (select e.job_id from job_episode e where e.memory_id = v.memory_id and e.record_id = v.record_id limit 1),
    ''
) where type = 'episode';

create index version_session on version (memory_id, session, created_at, record_id) where session <> '';

-- The signs of a vector: what a large memory is looked through by before vectors are compared.
alter table embedding
    add column signs bit varying generated always as (binary_quantize(vector)::bit varying) stored;

create index embedding_signs on embedding (memory_id) include (record_id, version, generation, signs)
    where invalidated_at is null;
