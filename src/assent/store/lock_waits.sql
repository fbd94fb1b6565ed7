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
