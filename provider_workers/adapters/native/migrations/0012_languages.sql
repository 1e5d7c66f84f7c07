-- Whose rules the words of a version were stemmed by, beside those of English. What was written before has English ones
-- alone until it is revised.
alter table version add column language text not null default 'english';

-- The languages a memory holds, but for English: what a question to it is stemmed by. Without a unique key, so that no
-- write waits for another; a language two first writes name at once is there twice.
create table memory_language (
    memory_id text not null,
    language text not null
);
create index memory_language_memory on memory_language (memory_id) include (language);

-- Its stems in a language, added to `words_of`. `written` are its words with and without their accents.
create function stems_of(language text, written text) returns tsvector
    language sql stable parallel safe
    return case when language = 'english' then ''::tsvector
        else setweight(to_tsvector(('pg_catalog.' || language)::regconfig, written), 'A') end;
