-- name: skip_triggers
-- Spares the copies what the originals have been checked for.
SET session_replication_role = replica;

-- name: create_stamped
-- Takes a UUIDv7 to another millisecond; what is behind its first 13 characters keeps it unique.
CREATE FUNCTION pg_temp.stamped(id uuid, stamp text) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN overlay(id::text PLACING stamp FROM 1 FOR 13)::uuid;

-- name: create_other
-- Makes another key out of a key.
CREATE FUNCTION pg_temp.other(key text, second integer) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN encode(sha256((key || second::text)::bytea), 'hex');

-- name: create_copy_rows
-- Copies the originals of a table to each second of a range, the oldest first: ids and times are those of the second, and
-- rows of one copy find each other. What the copies share with the originals are definitions, people and content.
CREATE FUNCTION pg_temp.copy_rows(of_table text, first integer, last integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  columns text;
  copied text;
BEGIN
  SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum),
         string_agg(CASE
           WHEN attname = 'definition_id' THEN 'o.definition_id'
           WHEN atttypid = 'uuid'::regtype THEN format('pg_temp.stamped(o.%I, s.stamp)', attname)
           WHEN atttypid = 'timestamptz'::regtype THEN format('o.%I - s.ago', attname)
           WHEN attname LIKE '%idempotency_key' THEN format('pg_temp.other(o.%I, s.second)', attname)
           ELSE format('o.%I', attname) END, ', ' ORDER BY attnum)
    INTO columns, copied
    FROM pg_attribute WHERE attrelid = format('assent.%I', of_table)::regclass AND attnum > 0 AND NOT attisdropped
                        AND attgenerated = '';
  EXECUTE format('INSERT INTO assent.%I (%s) SELECT %s FROM (
    SELECT second, make_interval(secs => second) AS ago,
           overlay(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - second * 1000), 12, ''0'') PLACING ''-'' FROM 9 FOR 0)
      FROM generate_series($2, $1, -1) AS second
    OFFSET 0 -- or the stamp would be computed again for every row that bears it
  ) AS s (second, ago, stamp) CROSS JOIN pg_temp.%I AS o', of_table, columns, copied, of_table) USING first, last;
END
$$;

-- name: keep_originals
-- Remembers the rows of some tables ($1), all of which are originals.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY string_to_array(current_setting('bench.tables'), ',') LOOP
    EXECUTE format('CREATE TEMPORARY TABLE %1$I AS SELECT * FROM assent.%1$I', name);
  END LOOP;
END
$$;

-- name: name_tables
-- Says which tables have originals.
SELECT set_config('bench.tables', $1, false);

-- name: copy_rows
-- Copies the originals of the tables to each second of a range.
SELECT pg_temp.copy_rows(name, $1::integer, $2::integer) FROM unnest(string_to_array(current_setting('bench.tables'), ',')) AS name;

-- name: count_rows
-- How large the history is.
SELECT (SELECT count(*) FROM assent.workflow_instances WHERE status = 'completed') AS "finished documents",
       (SELECT count(*) FROM assent.approval_requests WHERE status = 'pending') AS "open requests",
       (SELECT count(*) FROM assent.workflow_step_executions) AS "steps";
