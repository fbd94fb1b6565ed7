-- Upkeep: partitions are made ahead of time, receipts and jobs are pruned, ended instances are deleted.
--
-- The default partition of each partitioned table catches rows of a month that was not prepared, so that no insert is ever
-- refused at a month's turn; the next call of ensure_partitions moves such rows to where they belong.

-- Makes the partition of one month, taking over its rows and storage settings from the default partition; false when it was
-- there.
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
  EXECUTE format('ALTER TABLE assent.%I SET (%s)', partition, array_to_string(
    (SELECT reloptions FROM pg_class WHERE oid = format('assent.%I', parent || '_default')::regclass), ', '));
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
  FOREACH parent IN ARRAY ARRAY['workflow_step_executions', 'workflow_events_outbox']
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

-- Deletes the receipts of instances that ended before a time, a number of instances at once. Terminal is final: what comes
-- late is ignored without a receipt.
CREATE FUNCTION assent.prune_receipts(ended_before timestamptz, instances_max integer)
RETURNS TABLE (instances bigint, step_receipts bigint, outbox_receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH ended AS MATERIALIZED (
    SELECT org_id, id FROM assent.workflow_instances
     WHERE completed_at < ended_before AND receipts_pruned_at IS NULL
     ORDER BY completed_at LIMIT instances_max
     FOR NO KEY UPDATE SKIP LOCKED
  ), marked AS (
    UPDATE assent.workflow_instances i SET receipts_pruned_at = assent.now()
      FROM ended e WHERE i.org_id = e.org_id AND i.id = e.id
    RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  ), of_outboxes AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM marked), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_outboxes);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- Deletes jobs of a kind that went well, or were cancelled, before a time, a number at once. The keys of tasks stay, and so do
-- subtasks of a task that is still to read what came out of them, maybe after a retry.
CREATE FUNCTION assent.prune_jobs(of_kind text, ended_before timestamptz, jobs_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  pruned bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH old AS MATERIALIZED (
    SELECT j.org_id, j.id FROM assent.jobs j
     WHERE j.kind = of_kind AND j.status IN ('done', 'cancelled') AND j.ended_at < ended_before
       AND NOT EXISTS (SELECT FROM assent.jobs p WHERE p.org_id = j.org_id AND p.id = j.parent_id
                          AND p.status NOT IN ('done', 'cancelled'))
     ORDER BY j.ended_at LIMIT jobs_max
     FOR UPDATE OF j SKIP LOCKED
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING old o WHERE j.org_id = o.org_id AND j.id = o.id RETURNING 1
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING old o WHERE a.org_id = o.org_id AND a.job_id = o.id
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_progress AS (
    DELETE FROM assent.task_progress t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_logs AS (
    DELETE FROM assent.task_log_lines t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_effects AS (
    DELETE FROM assent.effects e USING old o WHERE e.org_id = o.org_id AND e.id = o.id
  )
  SELECT count(*) INTO pruned FROM of_jobs;
  PERFORM set_config('assent.door', former_door, true);
  RETURN pruned;
END
$$;

-- Deletes tasks that went well, or were cancelled, longer ago than their org keeps them, a number at once. An org without a
-- policy keeps them for as long as the operator does. Ids sort by the time of submission: what came later is not read.
CREATE FUNCTION assent.delete_ended_tasks(tasks_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  deleted bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH policy AS MATERIALIZED (
    SELECT org_id, assent.now() - make_interval(days => days::integer) AS ended_before
      FROM assent.orgs
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'task_retention_days')
                                  WHEN 'number' THEN (settings ->> 'task_retention_days')::numeric END) AS setting (days)
     WHERE days BETWEEN 1 AND 36500
  ), old AS MATERIALIZED (
    SELECT j.org_id, j.id
      FROM policy p
      JOIN assent.task_submissions s ON s.org_id = p.org_id
       AND s.id < rpad(lpad(to_hex(floor(extract(epoch FROM p.ended_before) * 1000)::bigint), 12, '0'), 32, '0')::uuid
      JOIN assent.jobs j ON j.org_id = s.org_id AND j.id = s.id
     WHERE j.status IN ('done', 'cancelled') AND j.ended_at < p.ended_before
       AND NOT EXISTS (SELECT FROM assent.jobs p WHERE p.org_id = j.org_id AND p.id = j.parent_id
                          AND p.status NOT IN ('done', 'cancelled'))
     LIMIT tasks_max
     FOR UPDATE OF j SKIP LOCKED
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING old o WHERE j.org_id = o.org_id AND j.id = o.id RETURNING 1
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING old o WHERE a.org_id = o.org_id AND a.job_id = o.id
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_progress AS (
    DELETE FROM assent.task_progress t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_logs AS (
    DELETE FROM assent.task_log_lines t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  )
  SELECT count(*) INTO deleted FROM of_jobs;
  PERFORM set_config('assent.door', former_door, true);
  RETURN deleted;
END
$$;

-- Deletes instances that ended longer ago than their org keeps them, with all that is theirs alone: also their forms
-- and those forms' seats. An org without a policy keeps everything. An instance with a dead letter, or with something still
-- to be done, stays. Approvals stay: they are evidence about the entity.
CREATE FUNCTION assent.delete_ended_instances(instances_max integer)
RETURNS TABLE (instances bigint, steps bigint, events bigint, effects bigint, receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH policy AS MATERIALIZED (
    -- A setting is whatever an org wrote there: one that is no such number of days is no policy, and no error.
    SELECT org_id, assent.now() - make_interval(days => days::integer) AS ended_before
      FROM assent.orgs
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'retention_days')
                                  WHEN 'number' THEN (settings ->> 'retention_days')::numeric END) AS setting (days)
     WHERE days BETWEEN 1 AND 36500
  ), ended AS MATERIALIZED (
    SELECT i.org_id, i.id
      FROM policy p
      JOIN assent.workflow_instances i ON i.org_id = p.org_id
       AND i.status IN ('completed', 'failed', 'cancelled') AND i.updated_at < p.ended_before
     WHERE i.completed_at < p.ended_before
       AND NOT EXISTS (SELECT FROM assent.workflow_events_outbox e
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status <> 'completed')
       AND NOT EXISTS (SELECT FROM assent.effects e JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND j.status <> 'done')
     LIMIT instances_max
     FOR UPDATE OF i SKIP LOCKED
  ), of_instances AS (
    DELETE FROM assent.workflow_instances i USING ended x WHERE i.org_id = x.org_id AND i.id = x.id RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_executions s
     USING ended x WHERE s.org_id = x.org_id AND s.instance_id = x.id RETURNING 1
  ), of_evidence AS (
    DELETE FROM assent.step_evidence v USING ended x WHERE v.org_id = x.org_id AND v.instance_id = x.id
  ), of_forms AS (
    DELETE FROM assent.workflow_forms f
     USING ended x WHERE f.org_id = x.org_id AND f.instance_id = x.id RETURNING f.org_id, f.id
  ), of_seats AS (
    DELETE FROM assent.workflow_seats s
     USING of_forms f WHERE s.org_id = f.org_id AND s.request_id = f.id AND s.kind = 'form'
  ), of_events AS (
    DELETE FROM assent.workflow_events_outbox e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING 1
  ), of_effects AS (
    DELETE FROM assent.effects e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING e.org_id, e.id
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING of_effects e WHERE j.org_id = e.org_id AND j.id = e.id
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING of_effects e WHERE a.org_id = e.org_id AND a.job_id = e.id
  ), step_receipts AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  ), outbox_receipts AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  )
  SELECT (SELECT count(*) FROM of_instances), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_events),
         (SELECT count(*) FROM of_effects),
         (SELECT count(*) FROM step_receipts) + (SELECT count(*) FROM outbox_receipts);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- Every function of these files: roles get each right by name.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
