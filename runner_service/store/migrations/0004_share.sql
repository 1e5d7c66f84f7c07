-- The links of shared sessions. A link is known by its hash; who knows the runner's token too can make it anew from
-- the nonce. Every link ever made opens until all of them are taken back, or the session goes.
create table share (
    link_sha256 bytea primary key,
    nonce bytea not null,
    session_id text not null references session (id) on delete cascade,
    created_at timestamptz not null default clock_timestamp()
);

create index share_session on share (session_id, created_at);
