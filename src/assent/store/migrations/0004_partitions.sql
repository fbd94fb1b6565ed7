-- Monthly partitions of the three high-volume tables, made ahead of time.
--
-- A default partition catches what arrives for a month that nobody prepared, so that no insert is ever refused at a
-- month's turn; the next call of ensure_partitions moves such rows to where they belong.

CREATE TABLE assent.workflow_step_executions_default PARTITION OF assent.workflow_step_executions DEFAULT;
CREATE TABLE assent.workflow_events_outbox_default PARTITION OF assent.workflow_events_outbox DEFAULT;
CREATE TABLE assent.workflow_side_effects_outbox_default PARTITION OF assent.workflow_side_effects_outbox DEFAULT;
SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.workflow_step_executions_default',
  'assent.workflow_events_outbox_default', 'assent.workflow_side_effects_outbox_default']::regclass[]) t;

-- Makes the partition of one month, taking over its rows from the default partition; false when it was there.
-- The bounds go through text, where another zone or style may write IST for India and read it as Israel.
CREATE FUNCTION assent.ensure_partition(parent text, month date) RETURNS boolean
LANGUAGE plpgsql SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
  partition CONSTANT text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
  lower_bound CONSTANT timestamptz := month::timestamp AT TIME ZONE 'UTC';
  upper_bound CONSTANT timestamptz := (month + interval '1 month')::timestamp AT TIME ZONE 'UTC';
BEGIN
  IF to_regclass(format('assent.%I', partition)) IS NOT NULL THEN
    RETURN false;
  END IF;
  -- The parent first: a statement that waits for a partition has already read the list of partitions, and finds moved rows
  -- in none of them. Then the default partition: no row may be added between the move and the attachment.
  EXECUTE format('LOCK TABLE ONLY assent.%I IN ACCESS EXCLUSIVE MODE', parent);
  EXECUTE format('LOCK TABLE assent.%I IN ACCESS EXCLUSIVE MODE', parent || '_default');
  EXECUTE format('CREATE TABLE assent.%I (LIKE assent.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
    partition, parent);
  EXECUTE format('WITH moved AS (DELETE FROM assent.%I WHERE created_at >= $1 AND created_at < $2 RETURNING *) '
    'INSERT INTO assent.%I SELECT * FROM moved', parent || '_default', partition)
    USING lower_bound, upper_bound;
  EXECUTE format('ALTER TABLE assent.%I ATTACH PARTITION assent.%I FOR VALUES FROM (%L) TO (%L)',
    parent, partition, lower_bound, upper_bound);
  PERFORM assent.guard_by_org(format('assent.%I', partition)::regclass);
  RETURN true;
END
$$;

-- Makes the partitions of this month and the months ahead, and those of months that have rows waiting in a default
-- partition; returns how many were missing.
CREATE FUNCTION assent.ensure_partitions(months_ahead integer DEFAULT 3) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  parent text;
  month date;
  made integer := 0;
BEGIN
  -- Two maintenance calls at once would race for the same names.
  PERFORM pg_advisory_xact_lock(hashtextextended('assent.ensure_partitions', 0));
  FOREACH parent IN ARRAY ARRAY['workflow_step_executions', 'workflow_events_outbox', 'workflow_side_effects_outbox']
  LOOP
    FOR month IN EXECUTE format(
      'SELECT generate_series(date_trunc(''month'', assent.now() AT TIME ZONE ''UTC''), '
      '         date_trunc(''month'', assent.now() AT TIME ZONE ''UTC'') + make_interval(months => $1), ''1 month'')::date '
      'UNION SELECT DISTINCT date_trunc(''month'', created_at AT TIME ZONE ''UTC'')::date FROM assent.%I ORDER BY 1',
      parent || '_default') USING months_ahead
    LOOP
      made := made + assent.ensure_partition(parent, month)::integer;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;

SELECT assent.ensure_partitions();
