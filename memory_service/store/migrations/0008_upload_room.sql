-- What one principal has in uploads is added up before each. `bytes` of one that is not complete is the most it may have.
create index upload_room on upload (principal) include (bytes);
