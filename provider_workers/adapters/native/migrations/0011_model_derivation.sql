-- What derivation with a model took, for each memory and UTC day. `tokens` is what counts against the budget: calls
-- under way are in it as they were estimated, ended ones as they were.
create table derivation_usage (
    memory_id text not null,
    day date not null,
    tokens bigint not null,
    calls integer not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    facts integer not null default 0,
    ungrounded integer not null default 0, -- facts of the model that were dropped
    primary key (memory_id, day)
);

create index derivation_usage_day on derivation_usage (day);

-- What the memory holds of one subject, to be shown with an episode about it.
create index version_subject on version (memory_id, left(lower(attributes_json ->> 'subject'), 200))
    where derived and type = 'fact' and invalidated_at is null and attributes_json ? 'subject';

-- How long what is left has waited.
create index job_waiting on job (memory_id, (coalesce(retried_at, created_at))) where status = 'pending';
