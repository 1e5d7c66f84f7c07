-- Responses whose session was kept as long as idle sessions are, so that who continues one is told that.
create table expired_response (
    id text primary key,
    owner text not null,
    expired_at timestamptz not null default now()
);

create index expired_response_age on expired_response (expired_at);
create index session_idle on session (updated_at) where lease_owner is null;
