-- name: enter_org
-- Confines the transaction to one org: the engine's role, under row security, at the time of our clock; and says
-- whether its statements are planned each time, and who acts in it, for the audit log.
SELECT set_config('role', $1, true), set_config('assent.org_id', $2, true), set_config('assent.now', $3, true),
       set_config('plan_cache_mode', $4, true), set_config('assent.acting', $5, true);

-- name: check_connection
-- Asks whether the server answers.
SELECT 1;

-- name: renew_plans
-- Forgets the connection's plans: tables have grown since they were made.
DISCARD PLANS;

-- name: enter_as_owner
-- Tells the transaction what time our clock says and who acts; for the owning role, which is held to no org.
SELECT set_config('assent.now', $1, true), set_config('assent.acting', $2, true);

-- name: find_audit_entry
-- Whether an audit entry exists: the proof that the transaction which wrote it was committed.
SELECT EXISTS (SELECT FROM assent.audit_log WHERE org_id = $1 AND id = $2);

-- name: find_server_process
-- The server process of a session that began before a given age in seconds, ended where the caller wants it; null
-- where it has ended. A later session with the same process id is younger.
SELECT CASE WHEN $3::boolean THEN pg_terminate_backend(pid) ELSE true END FROM pg_stat_activity
 WHERE pid = $1 AND backend_start <= clock_timestamp() - make_interval(secs => $2::float8);

-- name: read_clock
-- What the server's clock says at this moment.
SELECT clock_timestamp();

-- name: read_time
-- The time of this transaction.
SELECT assent.now();

-- name: find_time
-- The function that tells the time, or null where no migration has made it.
SELECT to_regprocedure('assent.now()')::text;

-- name: let_time_move
-- Has our time go by what a transaction sets: for databases of tests alone, because a session
-- that sets it chooses the dates of what it writes.
CREATE OR REPLACE FUNCTION assent.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN coalesce(nullif(current_setting('assent.now', true), '')::timestamptz, pg_catalog.now());

-- name: let_time_run
-- Has our time be the server's, as migrations made it.
CREATE OR REPLACE FUNCTION assent.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now();

-- name: create_database
-- Makes our database on a server of our own; fails where it exists.
CREATE DATABASE assent;

-- name: lock_migrations
-- Lets one process at a time apply a migration, until its transaction ends; the number is arbitrary and ours. Not for the
-- session: behind a pooler in transaction mode the lock would stay on a connection of the server that others get.
SELECT pg_advisory_xact_lock(7310868735421117);

-- name: find_migrations_table
-- The table of applied migrations, or null where nothing was ever applied. Not by to_regclass, which may answer from what
-- the session knew before it waited for another migration in the same transaction.
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'assent' AND c.relname = 'schema_migrations';

-- name: create_schema
-- The one schema in which everything lives.
CREATE SCHEMA IF NOT EXISTS assent;

-- name: create_migrations_table
-- What was applied, and from which text.
CREATE TABLE IF NOT EXISTS assent.schema_migrations (
  version integer PRIMARY KEY,
  name text NOT NULL,
  checksum text NOT NULL,
  oldest_code integer NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: find_partitions
-- The function that makes partitions, or null where the schema has none.
SELECT to_regprocedure('assent.ensure_partitions(integer)')::text;

-- name: make_first_partitions
-- Makes the partitions of this month and the months ahead in a new database.
SELECT assent.ensure_partitions();

-- name: list_applied_migrations
-- What was applied, oldest first.
SELECT version, name, checksum, oldest_code, applied_at FROM assent.schema_migrations ORDER BY version;

-- name: insert_migration
-- Notes that a migration was applied, in the transaction that applies it.
INSERT INTO assent.schema_migrations (version, name, checksum, oldest_code) VALUES ($1, $2, $3, $4);

-- name: read_schema_version
-- The newest migration that this database has, and the oldest code that can use it.
SELECT coalesce(max(version), 0) AS newest, coalesce(max(oldest_code), 0) AS oldest_code FROM assent.schema_migrations;
