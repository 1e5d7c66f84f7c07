-- What a list of sessions shows of each: the title that its first kept response gives it.
alter table response add column title text not null default '';

-- An id says when it was made, so that a page of either continues from an id.
create index session_owner on session (owner, id);
create index response_session on response (session_id, id);
