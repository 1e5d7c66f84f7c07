-- Who took a record's place, and whose attributes cannot be looked into; hardly any have either.
create index version_supersedes on version (memory_id, supersedes) where supersedes <> '';
create index version_undecided on version (memory_id) where attributes_json is null;
