-- Who may reach what. Adjacency is the only truth: every decision walks up from a node to its cutoff.
-- Privileges are one bit mask: read 1, write 2, create 4, delete 8.

create table node (
    id text collate "C" primary key,
    parent_id text collate "C" references node (id),
    restricted boolean not null default false,
    -- Who created it holds all four privileges on it, until that is revoked (Memories, section 3.1).
    creator text collate "C" not null,
    creator_revoked boolean not null default false,
    created_at timestamptz not null,
    constraint node_is_not_its_own_parent check (parent_id <> id)
);

create index node_parent on node (parent_id, id);
-- Children in two kinds, because those that inherit need no look at a grant and those that do not are
-- reached from the few grants the caller holds.
create index node_open_child on node (parent_id, id) where not restricted;
create index node_restricted_child on node (parent_id, id) where restricted;
create index node_creator on node (creator, id) where not creator_revoked;

create table grants (
    id text collate "C" primary key,
    node text collate "C" not null references node (id) on delete cascade,
    principal text collate "C" not null,
    privs smallint not null check (privs between 1 and 15),
    created_at timestamptz not null
);

-- One grant for a principal on a node; a check reads nothing but this index.
create unique index grants_node_principal on grants (node, principal) include (privs);
create index grants_principal_node on grants (principal, node);

-- Bearer tokens, kept only as their SHA-256.
create table token (
    id text collate "C" primary key,
    sha256 bytea not null unique check (octet_length(sha256) = 32),
    principal text not null,
    groups text[] not null,
    scopes text[] not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    -- Set on the tokens the operator's bootstrap file names, to what it calls them.
    bootstrap text
);

create index token_bootstrap on token (bootstrap) where bootstrap is not null;

-- Every statement here reaches its rows by index whatever the values are, so one plan serves all of them,
-- and planning anew costs more than most of them take.
do $$
begin
    execute format(
        'alter role grove_authz in database %I set plan_cache_mode = force_generic_plan', current_database()
    );
end
$$;
