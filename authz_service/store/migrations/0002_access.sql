-- Groups, the audit, marks of work under way, and a log of changes for those who hold a copy of the tree.

-- A deleted subtree is cut loose by one row, its root's: parent_id null and deleted_at set. Nothing in it is
-- seen from then on; its rows go later.
alter table node add column deleted_at timestamptz;
create index node_deleted on node (deleted_at) where deleted_at is not null;

-- Whoever created both a node and its parent enters the tree further up, so that among the millions one program
-- may have created only few need a look: those whose parent is another's, those that are cut off, and those
-- below a node on which the creator's right was revoked.
alter table node add column follows boolean not null default false;

create function node_follows() returns trigger language plpgsql as $$
begin
    new.follows := exists (
        select from node p where p.id = new.parent_id and p.creator = new.creator
    );
    return new;
end
$$;

create trigger node_follows before insert or update of parent_id on node
    for each row execute function node_follows();

update node set follows = true from node p where p.id = node.parent_id and p.creator = node.creator;

drop index node_creator;
create index node_head on node (creator, id) where not creator_revoked and not follows;
create index node_cut_off on node (creator, id) where not creator_revoked and restricted;
create index node_creator_revoked on node (creator, id) where creator_revoked;
create index node_child_of_creator on node (parent_id, creator, id) where not creator_revoked;

-- Keeps the grants on these nodes, and all that reach them, as they are: others may read and grant elsewhere. Rows
-- are locked in the order of their ids whoever comes, so that nobody waits in a ring.
create function hold_line(targets text[]) returns void language plpgsql as $$
declare
    one record;
begin
    for one in
        with recursive line as (
            select id, parent_id from node where id = any (targets)
          union
            select k.id, k.parent_id
            from line l cross join lateral (select * from node where node.id = l.parent_id offset 0) k
        )
        select id, id = any (targets) as is_target from line order by id
    loop
        if one.is_target then
            perform from node where id = one.id for no key update;
        else
            perform from node where id = one.id for share;
        end if;
    end loop;
end
$$;

create table principal_group (
    name text collate "C" primary key,
    description text not null,
    created_at timestamptz not null
);

create table member (
    principal text collate "C" not null,
    group_name text collate "C" not null references principal_group (name) on delete cascade,
    added_at timestamptz not null,
    added_by text not null,
    primary key (principal, group_name)
);

create index member_of_group on member (group_name, principal);

alter table token add column created_by text not null default '';
alter table token add column last_used_at timestamptz;
create index token_age on token (created_at desc, id desc);
create index token_principal on token (principal, created_at desc, id desc);
-- Those of a principal that are live at a moment, which are counted whenever it is issued one.
create index token_live on token (principal, (coalesce(expires_at, 'infinity'::timestamptz))) where revoked_at is null;

-- JWTs an administrator took back before their time, by the SHA-256 of what is signed in them, until they would
-- have expired anyway.
create table revoked_jwt (
    sha256 bytea primary key check (octet_length(sha256) = 32),
    expires_at timestamptz not null,
    revoked_at timestamptz not null
);

create index revoked_jwt_age on revoked_jwt (expires_at);

-- Work under way in a memory: it and what is above it keep their place until the mark is taken off or lapses.
create table hold (
    node text collate "C" not null references node (id) on delete cascade,
    holder text not null,
    until timestamptz not null,
    primary key (node, holder)
);

-- Only ever added to: see the triggers below, and the rights of this service's role.
create table audit (
    seq bigint generated always as identity primary key,
    -- What was committed by whom: lets a reader who goes from old to new wait for those still under way.
    xid xid8 not null default pg_current_xact_id(),
    id text collate "C" not null,
    at timestamptz not null,
    actor text not null,
    token_id text not null,
    action text not null,
    outcome text not null check (outcome in ('allowed', 'refused')),
    code text not null,
    node text collate "C" not null,
    principal text not null,
    source text not null,
    trace_id text not null,
    detail text not null
);

create index audit_at on audit (at);
-- From old to new, complete: by transaction, then in the order it wrote.
create index audit_xid on audit (xid, seq);
-- Few among many refusals.
create index audit_allowed on audit (seq) where outcome = 'allowed';
create index audit_actor on audit (actor, seq);
create index audit_node on audit (node, seq);
create index audit_action on audit (action, seq);

create function audit_is_final() returns trigger language plpgsql as $$
begin
    raise exception 'the audit is only ever added to';
end
$$;

create trigger audit_is_final before update or delete or truncate on audit
    for each statement execute function audit_is_final();

-- What a transaction touched: nodes (kind 'n': the node and the grants on it), principals ('p': the groups they
-- were put in), or everything ('a'). A holder of a copy asks for what its snapshot did not see. Written by
-- triggers, so that nothing can change the tree and forget to say so. Kept until an hour after its
-- transaction ended, which a snapshot that was written down ('s') an hour ago can tell.
create table change (
    xid xid8 not null default pg_current_xact_id(),
    at timestamptz not null default now(),
    kind "char" not null,
    key text collate "C" not null
);

create index change_xid on change (xid);
create index change_snapshot on change (at) where kind = 's';

create function note_new_nodes() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select 'n', id from fresh;
    return null;
end
$$;

create function note_old_nodes() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select 'n', id from stale;
    return null;
end
$$;

create function note_new_grants() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select distinct 'n'::"char", node from fresh;
    return null;
end
$$;

create function note_old_grants() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select distinct 'n'::"char", node from stale;
    return null;
end
$$;

create function note_new_members() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select distinct 'p'::"char", principal from fresh;
    return null;
end
$$;

create function note_old_members() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) select distinct 'p'::"char", principal from stale;
    return null;
end
$$;

create function note_all() returns trigger language plpgsql set search_path from current as $$
begin
    insert into change (kind, key) values ('a', '');
    return null;
end
$$;

create trigger note_insert after insert on node
    referencing new table as fresh for each statement execute function note_new_nodes();
create trigger note_update after update on node
    referencing new table as fresh for each statement execute function note_new_nodes();
create trigger note_delete after delete on node
    referencing old table as stale for each statement execute function note_old_nodes();
create trigger note_truncate after truncate on node for each statement execute function note_all();
create trigger note_insert after insert on grants
    referencing new table as fresh for each statement execute function note_new_grants();
create trigger note_update after update on grants
    referencing new table as fresh for each statement execute function note_new_grants();
create trigger note_delete after delete on grants
    referencing old table as stale for each statement execute function note_old_grants();
create trigger note_truncate after truncate on grants for each statement execute function note_all();
create trigger note_insert after insert on member
    referencing new table as fresh for each statement execute function note_new_members();
create trigger note_update after update on member
    referencing new table as fresh for each statement execute function note_new_members();
create trigger note_delete after delete on member
    referencing old table as stale for each statement execute function note_old_members();
create trigger note_truncate after truncate on member for each statement execute function note_all();

-- A row that changes its key leaves an old one behind; the others' never change.
create trigger note_update_old after update on member
    referencing old table as stale for each statement execute function note_old_members();

-- Changes that are replicated into this database are changes, too.
alter table node enable always trigger note_insert, enable always trigger note_update,
    enable always trigger note_delete, enable always trigger note_truncate;
alter table grants enable always trigger note_insert, enable always trigger note_update,
    enable always trigger note_delete, enable always trigger note_truncate;
alter table member enable always trigger note_insert, enable always trigger note_update,
    enable always trigger note_delete, enable always trigger note_truncate;
alter table member enable always trigger note_update_old;
