-- name: read_clock
-- The time of the database's clock at this moment.
SELECT clock_timestamp();

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
SELECT 'workflow_events_outbox_default' WHERE EXISTS (SELECT FROM assent.workflow_events_outbox_default)
UNION ALL
SELECT 'workflow_side_effects_outbox_default' WHERE EXISTS (SELECT FROM assent.workflow_side_effects_outbox_default);

-- name: read_overdue_timers
-- Since when the oldest step is due whose time has come and that no worker took, in seconds; null where none is.
SELECT extract(epoch FROM assent.now() - min(resume_at))::float8 FROM assent.workflow_step_executions
 WHERE status = 'pending' AND resume_at <= assent.now();
