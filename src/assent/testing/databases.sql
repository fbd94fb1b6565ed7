-- name: lock_templates
-- Waits until no other session is building a template on this server.
SELECT pg_advisory_lock(7310868735421118);

-- name: unlock_templates
-- Lets the next one look whether there is a template.
SELECT pg_advisory_unlock(7310868735421118);

-- name: find_database
-- Whether there is a database of this name.
SELECT true FROM pg_database WHERE datname = $1;

-- name: text_of_create
-- How a database is made: names cannot be parameters of the statement itself.
SELECT format('CREATE DATABASE %I', $1::text);

-- name: text_of_copy
-- How a database is made from a template. Measured, with opening and dropping: 29 ms by FILE_COPY, 38 by WAL_LOG; for
-- two workers 32 and 60.
SELECT format('CREATE DATABASE %I TEMPLATE %I STRATEGY file_copy', $1::text, $2::text);

-- name: text_of_rename
-- How a database gets another name.
SELECT format('ALTER DATABASE %I RENAME TO %I', $1::text, $2::text);

-- name: text_of_drop
-- The statement that drops a database with the sessions that are connected to it.
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', $1::text);
