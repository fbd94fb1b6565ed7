-- name: enter_org
-- Confines the transaction to one org: the engine's role, under row security, at the time of our clock; and says
-- whether its statements are planned each time, and who acts in it, for the audit log.
SELECT set_config('role', $1, true), set_config('assent.org_id', $2, true), set_config('assent.now', $3, true),
       set_config('plan_cache_mode', $4, true), set_config('assent.acting', $5, true);

-- name: act_for_org
-- Confines the rest of the transaction to another org; its role and its time stay.
SELECT set_config('assent.org_id', $1::text, true);

-- name: set_parameters
-- Sets parameters for this transaction, as a session does without a pooler; by a JSON object of texts.
SELECT set_config(key, value, true) FROM json_each_text($1::json);

-- name: read_server_process
-- The process that serves this connection at this moment.
SELECT pg_backend_pid();

-- name: notify_listeners
-- Sends a notification.
SELECT pg_notify($1, $2);

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

-- name: ensure_partitions
-- Makes the monthly partitions of the high-volume tables, some months ahead.
SELECT assent.ensure_partitions($1::integer);

-- name: read_standing
-- The role, the org and the time with which the transaction acts.
SELECT current_setting('role') AS role, coalesce(current_setting('assent.org_id', true), '') AS org_id,
       coalesce(current_setting('assent.now', true), '') AS now, current_setting('plan_cache_mode') AS plan_cache_mode;

-- name: take_stand
-- From here on the transaction acts as this role, for this org, at this time, and plans in this way.
SELECT set_config('role', $1, true), set_config('assent.org_id', $2, true), set_config('assent.now', $3, true),
       set_config('plan_cache_mode', $4, true);

-- name: read_types
-- What types of this database are: an enumeration, a row with its columns, or an array of such rows.
SELECT t.oid AS id, t.typtype = 'e' AS is_label, e.oid IS NOT NULL AS is_array,
       (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = coalesce(e.typrelid, t.typrelid) AND a.attnum > 0 AND NOT a.attisdropped) AS columns
  FROM pg_catalog.pg_type t
  LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
 WHERE t.oid = ANY ($1::oid[]);

-- name: text_of_missing_roles
-- What an administrator would say to make the roles that are missing ($1), without rights that go past row security, and to
-- let the role that is connected act as the engine ($2). Since PostgreSQL 16 the creator of a role may not act as it until
-- that is granted; before, membership was all there was.
WITH role AS (
  SELECT name, to_regrole(quote_ident(name)) AS id, place FROM unnest($1::text[]) WITH ORDINALITY AS given (name, place)
)
SELECT statement FROM (
  SELECT 1 AS kind, place, format('CREATE ROLE %I NOLOGIN', name) AS statement FROM role WHERE id IS NULL
  UNION ALL
  SELECT 2, place, format('ALTER ROLE %I NOSUPERUSER NOBYPASSRLS', r.name) FROM role r JOIN pg_roles p ON p.oid = r.id
   WHERE p.rolsuper OR p.rolbypassrls
  UNION ALL
  SELECT 3, place, format('GRANT %I TO %I%s', name, current_user,
                          CASE WHEN current_setting('server_version_num')::integer >= 160000
                               THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END)
    FROM role
   WHERE name = $2 AND CASE
     WHEN id IS NULL THEN NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
     WHEN current_setting('server_version_num')::integer >= 160000 THEN NOT pg_has_role(current_user, id, 'SET')
     ELSE NOT pg_has_role(current_user, id, 'MEMBER') END
) AS missing ORDER BY kind, place;

-- name: compare_table_grants
-- How the rights of a role ($3) on tables ($1) differ from those wanted ($2): statements that give what is missing, tables
-- that are not there, and those whose row security has no policy for the role.
WITH wanted AS MATERIALIZED (
  SELECT name, privilege, to_regclass(name) AS id FROM unnest($1::text[], $2::text[]) AS given (name, privilege)
), place AS MATERIALIZED (
  SELECT w.privilege, c.oid AS id, n.oid AS schema_id, n.nspname, c.relname, c.relrowsecurity, to_regrole($3) AS role
    FROM wanted w JOIN pg_class c ON c.oid = w.id JOIN pg_namespace n ON n.oid = c.relnamespace
)
SELECT DISTINCT finding, place, said FROM (
  SELECT 'unknown' AS finding, 0 AS place, name AS said FROM wanted WHERE id IS NULL
  UNION ALL
  SELECT 'missing', 1, format('GRANT USAGE ON SCHEMA %I TO %I', nspname, $3) FROM place
   WHERE NOT has_schema_privilege(role, schema_id, 'USAGE')
  UNION ALL
  SELECT 'missing', 2, format('GRANT %s ON TABLE %I.%I TO %I', privilege, nspname, relname, $3) FROM place
   WHERE NOT has_table_privilege(role, id, privilege)
  UNION ALL
  -- Of a serial column. That of an identity column needs no right.
  SELECT 'missing', 3, format('GRANT USAGE ON SEQUENCE %I.%I TO %I', p.nspname, s.relname, $3)
    FROM place p
    JOIN pg_depend d ON d.refobjid = p.id AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass
                    AND d.deptype = 'a'
    JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
   WHERE p.privilege = 'INSERT' AND NOT has_sequence_privilege(p.role, s.oid, 'USAGE')
  UNION ALL
  SELECT 'unreachable', 4, format('%I.%I', nspname, relname) FROM place
   WHERE relrowsecurity AND NOT EXISTS (
     SELECT FROM pg_policy y WHERE y.polrelid = place.id AND (0 = ANY (y.polroles) OR place.role = ANY (y.polroles)))
) AS found ORDER BY place, said;

-- name: look_names_up_in_the_catalogue_only
-- Has names of our own shown with their schema, for every role.
SELECT set_config('search_path', 'pg_catalog', true);

-- name: find_grants_table
-- The table of what migrations granted, or null where none is.
SELECT to_regclass('assent.schema_grants')::text;

-- name: record_grants
-- Keeps what these roles ($1) hold in our schema now, so that a dump carries it.
WITH former AS (DELETE FROM assent.schema_grants WHERE NOT statement = ANY ($1::text[]))
INSERT INTO assent.schema_grants (statement) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING;

-- name: list_recorded_grants
-- What migrations granted.
SELECT statement FROM assent.schema_grants ORDER BY statement;

-- name: list_grants
-- What these roles ($1), and everybody, hold in our schema: each as the statement that gives it. Columns come one by one.
SELECT statement FROM (
  SELECT acl.grantee, format('GRANT %s ON SCHEMA assent', acl.privilege_type) AS grant_of
    FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) acl WHERE n.nspname = 'assent'
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON TABLE assent.%I', acl.privilege_type, c.relname)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) acl
   WHERE c.relnamespace = to_regnamespace('assent') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON SEQUENCE assent.%I', acl.privilege_type, c.relname)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) acl
   WHERE c.relnamespace = to_regnamespace('assent') AND c.relkind = 'S'
  UNION ALL
  SELECT acl.grantee, format('GRANT %s (%I) ON TABLE assent.%I', acl.privilege_type, a.attname, c.relname)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
   CROSS JOIN aclexplode(a.attacl) acl
   WHERE c.relnamespace = to_regnamespace('assent')
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON FUNCTION assent.%I(%s)', acl.privilege_type, p.proname,
                             pg_get_function_identity_arguments(p.oid))
    FROM pg_proc p CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl
   WHERE p.pronamespace = to_regnamespace('assent')
) AS held (grantee, grant_of)
CROSS JOIN LATERAL (
  SELECT format('%s TO %s', grant_of, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END)
    FROM (SELECT 1) AS one LEFT JOIN pg_roles r ON r.oid = grantee
   WHERE grantee = 0 OR r.rolname = ANY ($1::text[])) AS said (statement)
ORDER BY statement;

-- name: find_superuser
-- The role that is connected, where it is a superuser.
SELECT rolname FROM pg_roles WHERE rolname = current_user AND rolsuper;

-- name: list_members
-- Who may act as a role ($1), beside the role that is connected and superusers.
SELECT m.rolname FROM pg_roles m
 WHERE NOT m.rolsuper AND m.rolname NOT IN (current_user, $1::text) AND to_regrole(quote_ident($1::text)) IS NOT NULL
   AND pg_has_role(m.oid, to_regrole(quote_ident($1::text)), 'MEMBER')
 ORDER BY 1;

-- name: limit_lock_waits
-- Lets the transaction wait so long ($1) for each lock, and run as long as it takes; returns the process that serves it.
-- Not settings of the connection: a pooler between would drop them, and would answer with a process number of its own.
SELECT pg_backend_pid() FROM (SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true)) AS said;

-- name: list_blockers
-- The sessions that keep a process ($1) waiting: what each runs, and what it holds of what is needed.
WITH wanted AS (
  SELECT locktype, database, relation, classid, objid, objsubid, transactionid FROM pg_locks WHERE pid = $1 AND NOT granted
)
SELECT b.pid, a.usename::text AS "user", a.application_name AS application, a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS open_s, left(a.query, 300) AS query,
       (SELECT string_agg(DISTINCT concat(l.mode, ' on ', coalesce(
          (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid = l.relation), l.locktype)), ', ')
          FROM pg_locks l JOIN wanted w ON (w.locktype, w.database, w.relation, w.classid, w.objid, w.objsubid, w.transactionid)
               IS NOT DISTINCT FROM (l.locktype, l.database, l.relation, l.classid, l.objid, l.objsubid, l.transactionid)
         WHERE l.granted AND coalesce(l.pid, 0) = b.pid) AS lock
  FROM (SELECT DISTINCT unnest(pg_blocking_pids($1)) AS pid) AS b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
 ORDER BY b.pid;

-- name: list_missing_languages
-- The languages that functions of the schema are written in ($1) and that this database does not have.
SELECT name FROM unnest($1::text[]) AS name WHERE NOT EXISTS (SELECT FROM pg_language WHERE lanname = name) ORDER BY name;

-- name: read_connections
-- How many connections the server gives to those who are no superusers, and how many sessions of clients there are.
SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true)::integer, 0) AS given,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used;

-- name: list_missing_partitions
-- The partitions of this month and the next that are not there, and the default partitions that hold rows.
SELECT format('%s_%s', parent, to_char(month, 'YYYY_MM')) AS missing
  FROM unnest($1::text[]) AS parent
 CROSS JOIN generate_series(date_trunc('month', assent.now() AT TIME ZONE 'UTC'),
                            date_trunc('month', assent.now() AT TIME ZONE 'UTC') + interval '1 month', '1 month') AS month
 WHERE to_regclass(format('assent.%I', format('%s_%s', parent, to_char(month, 'YYYY_MM')))) IS NULL
 ORDER BY 1;

-- name: list_filled_default_partitions
-- The default partitions that hold rows: those of months that were not prepared.
SELECT 'workflow_step_executions_default' AS name WHERE EXISTS (SELECT FROM assent.workflow_step_executions_default)
UNION ALL
SELECT 'workflow_events_outbox_default' WHERE EXISTS (SELECT FROM assent.workflow_events_outbox_default);

-- name: read_overdue_timers
-- Since when the oldest step is due whose time has come and that no worker took, in seconds; null where none is.
SELECT extract(epoch FROM assent.now() - min(resume_at))::float8 FROM assent.workflow_step_executions
 WHERE status = 'pending' AND resume_at <= assent.now();
