-- Jobs: the one queue. Effects, tasks and results are kinds of job.

DROP TABLE assent.tasks, assent.task_attempts CASCADE;
DROP TABLE assent.workflow_side_effects_outbox CASCADE;
DROP FUNCTION assent.prune_tasks(timestamptz, integer);

-- One row for each job, narrow, because it changes with every attempt. What a job is about is in the row of its kind
-- (task_submissions, effects, request_deliveries) under the same id, and the outcomes of its attempts are in job_attempts:
-- those rows are only inserted.
CREATE TABLE assent.jobs (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- sorts by the time of creation
  kind         text        NOT NULL,
  lane         text        NOT NULL,            -- type of a task, destination of an effect, name of a result's request
  status       text        NOT NULL DEFAULT 'queued',
  priority     smallint    NOT NULL DEFAULT 128, -- the higher the sooner; then the oldest
  attempts     integer     NOT NULL DEFAULT 0,  -- counted when they begin
  attempts_max integer     NOT NULL,
  run_at       timestamptz NOT NULL DEFAULT assent.now(), -- not before; after a failure, the next attempt
  repeatable   boolean     NOT NULL DEFAULT true, -- whether it may run again after an attempt of unknown outcome
  worker_id    uuid,                            -- the worker that has claimed it
  claimed_at   timestamptz,
  losses       integer     NOT NULL DEFAULT 0,  -- how many workers were lost while they had it
  suspect      boolean     NOT NULL DEFAULT false, -- whether it may have killed one: no other suspect starts beside it
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  ended_at     timestamptz,
  CONSTRAINT jobs_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT job_kind_is_known CHECK (kind IN ('task', 'effect', 'result')),
  CONSTRAINT job_lane_is_a_short_name CHECK (length(lane) BETWEEN 1 AND 200),
  CONSTRAINT job_status_is_known CHECK (status IN
    ('queued', 'running', 'blocked', 'background', 'retrying', 'done', 'cancelled', 'dead')),
  CONSTRAINT job_priority_is_a_byte CHECK (priority BETWEEN 0 AND 255),
  CONSTRAINT job_attempts_are_counted CHECK (attempts BETWEEN 0 AND attempts_max AND attempts_max >= 1),
  CONSTRAINT running_job_has_a_worker CHECK ((status = 'running') = (worker_id IS NOT NULL)),
  CONSTRAINT job_ends_when_its_status_says_so
    CHECK ((status IN ('done', 'cancelled', 'dead')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 70);
-- The claim goes from org to org and lane to lane, and takes from each what is due first: what is to run tomorrow stands
-- behind what is due, and is never read.
CREATE INDEX jobs_to_run ON assent.jobs (kind, org_id, lane, priority, run_at, id) WHERE status IN ('queued', 'retrying');
CREATE INDEX jobs_suspect ON assent.jobs (kind, run_at, org_id, id) WHERE status IN ('queued', 'retrying') AND suspect;
CREATE INDEX jobs_running ON assent.jobs (kind, worker_id) WHERE status = 'running';
CREATE INDEX jobs_dead ON assent.jobs (org_id, created_at, id) WHERE status = 'dead';
CREATE INDEX jobs_ended ON assent.jobs (kind, ended_at) WHERE status IN ('done', 'cancelled');
CREATE TRIGGER job_status_moves_forward BEFORE UPDATE ON assent.jobs
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('job');

-- The outcome of each attempt; that of the last one is the job's own output or error.
CREATE TABLE assent.job_attempts (
  org_id     text        NOT NULL,
  job_id     uuid        NOT NULL,
  attempt    integer     NOT NULL,
  kind       text        NOT NULL,
  outcome    text        NOT NULL,
  output     jsonb,                             -- what a task returned; what a receiver answered to an effect
  code       text,
  error      text,
  ambiguous  boolean     NOT NULL DEFAULT false, -- whether it may have had its effect all the same
  worker_id  uuid        NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at   timestamptz NOT NULL,
  CONSTRAINT job_attempts_pkey PRIMARY KEY (org_id, job_id, attempt),
  CONSTRAINT job_attempt_outcome_is_known CHECK (outcome IN ('done', 'failed', 'lost')),
  CONSTRAINT job_attempt_that_failed_says_why CHECK (num_nonnulls(code, error) = CASE outcome WHEN 'done' THEN 0 ELSE 2 END)
);
CREATE TRIGGER job_attempts_are_append_only BEFORE UPDATE OR DELETE ON assent.job_attempts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER job_attempts_are_never_emptied BEFORE TRUNCATE ON assent.job_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- What an effect's job sends, and for which step.
CREATE TABLE assent.effects (
  org_id          text        NOT NULL,
  id              uuid        NOT NULL,            -- of its job
  instance_id     uuid        NOT NULL,
  step_id         uuid        NOT NULL,
  step_created_at timestamptz NOT NULL,            -- the step's partition, for its evidence
  type            text        NOT NULL,
  payload         jsonb       NOT NULL DEFAULT '{}',
  key             text        NOT NULL,            -- what the receiver sees as Idempotency-Key
  awaited         boolean     NOT NULL DEFAULT false, -- whether its step rests until the answer is there
  attempts_max    integer     NOT NULL,            -- of which a dead effect gets as many again
  trace_id        text,
  created_at      timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT effects_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_type_is_known CHECK (type IN ('webhook', 'email', 'sms', 'in_app', 'chat', 'integration'))
);
CREATE INDEX effects_by_instance ON assent.effects (org_id, instance_id);
CREATE INDEX effects_by_step ON assent.effects (org_id, step_id);
CREATE TRIGGER effects_are_append_only BEFORE UPDATE OR DELETE ON assent.effects
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER effects_are_never_emptied BEFORE TRUNCATE ON assent.effects
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

ALTER TABLE assent.request_deliveries
  DROP COLUMN status, DROP COLUMN attempts, DROP COLUMN next_try_at, DROP COLUMN worker_id, DROP COLUMN claimed_at,
  DROP COLUMN losses, DROP COLUMN suspect, DROP COLUMN error, DROP COLUMN processed_at;
DROP TRIGGER delivery_status_moves_forward ON assent.request_deliveries;

CREATE OR REPLACE FUNCTION assent.guard_delivery() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(NEW) - 'late') IS DISTINCT FROM (to_jsonb(OLD) - 'late') OR OLD.late AND NOT NEW.late THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('delivery %s keeps its key, and its request', OLD.id);
  END IF;
  RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION assent.keep_delivery(to_request uuid, its_key text, bundle jsonb, come_by text, brought_by text)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  org text := assent.org_id();
  delivery uuid := assent.new_id();
  request_name text;
  is_late boolean;
BEGIN
  SELECT name, ended_at IS NOT NULL INTO request_name, is_late
    FROM assent.requests WHERE org_id = org AND id = to_request;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  INSERT INTO assent.request_deliveries (org_id, id, request_id, key, source, pushed_by, late, received_at)
  VALUES (org, delivery, to_request, its_key, come_by, brought_by, is_late, assent.now())
  ON CONFLICT (org_id, request_id, key) DO NOTHING;
  IF NOT FOUND THEN
    RETURN 'repeated';
  END IF;
  INSERT INTO assent.jobs (org_id, id, kind, lane, status, attempts_max, ended_at)
  VALUES (org, delivery, 'result', left(request_name, 200), CASE WHEN is_late THEN 'done' ELSE 'queued' END, 5,
          CASE WHEN is_late THEN assent.now() END);
  INSERT INTO assent.request_history (org_id, id, request_id, what, source, body, at)
  VALUES (org, delivery, to_request, 'delivered', come_by, bundle, assent.now());
  IF is_late THEN
    RETURN 'late';
  END IF;
  PERFORM pg_notify('assent_results', '');
  RETURN 'accepted';
END
$$;

-- What jobs of every kind are about: the step that wants them, and how many attempts they were given.
CREATE VIEW assent.job_origins WITH (security_invoker = true) AS
SELECT s.org_id, s.id, 'task' AS kind, s.attempts_max, s.awaited, s.instance_id, s.step_id, s.partition_id, s.trace_id
  FROM assent.task_submissions s
UNION ALL
SELECT e.org_id, e.id, 'effect', e.attempts_max, e.awaited, e.instance_id, e.step_id,
       (SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id), e.trace_id
  FROM assent.effects e
UNION ALL
SELECT d.org_id, d.id, 'result', 5, false, r.instance_id, r.step_execution_id, r.partition_id, r.trace_id
  FROM assent.request_deliveries d JOIN assent.requests r ON r.org_id = d.org_id AND r.id = d.request_id;

-- Deletes jobs of a kind that went well, or were cancelled, before a time, a number at once. The keys of tasks stay.
CREATE FUNCTION assent.prune_jobs(of_kind text, ended_before timestamptz, jobs_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  pruned bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH old AS MATERIALIZED (
    SELECT org_id, id FROM assent.jobs
     WHERE kind = of_kind AND status IN ('done', 'cancelled') AND ended_at < ended_before
     ORDER BY ended_at LIMIT jobs_max
     FOR UPDATE SKIP LOCKED
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING old o WHERE j.org_id = o.org_id AND j.id = o.id RETURNING 1
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING old o WHERE a.org_id = o.org_id AND a.job_id = o.id
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_effects AS (
    DELETE FROM assent.effects e USING old o WHERE e.org_id = o.org_id AND e.id = o.id
  )
  SELECT count(*) INTO pruned FROM of_jobs;
  PERFORM set_config('assent.door', former_door, true);
  RETURN pruned;
END
$$;

CREATE OR REPLACE FUNCTION assent.delete_ended_instances(instances_max integer)
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
                                  WHEN 'number' THEN (settings ->> 'retention_days')::numeric END) AS told (days)
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

CREATE OR REPLACE FUNCTION assent.ensure_partitions(months_ahead integer DEFAULT 3) RETURNS integer
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

CREATE OR REPLACE FUNCTION assent.submit_task(type text, input jsonb DEFAULT '{}', key text DEFAULT NULL,
  priority integer DEFAULT 128, run_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT 8) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  org text := assent.org_id();
  task uuid := assent.new_id();
  due timestamptz := coalesce(run_at, assent.now());
  known record;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF jsonb_typeof(input) IS DISTINCT FROM 'object' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the input of a task is an object';
  END IF;
  IF coalesce(assent.is_blank(type), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs a type', DETAIL = format('Found %L.', type);
  END IF;
  IF assent.is_blank(key) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the key of a task is not blank', DETAIL = format('Found %L.', key),
      HINT = 'Leave it out where there is none.';
  END IF;
  IF key IS NOT NULL THEN
    INSERT INTO assent.task_keys (org_id, type, partition_id, key, task_id, input_hash)
    VALUES (org, type, '', key, task, assent.input_hash(input)) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT k.task_id, k.input_hash INTO STRICT known FROM assent.task_keys k
       WHERE k.org_id = org AND k.type = submit_task.type AND k.partition_id = '' AND k.key = submit_task.key;
      IF known.input_hash <> assent.input_hash(input) THEN
        RAISE unique_violation USING
          MESSAGE = format('key %L of %s was used for another input, by task %s', key, type, known.task_id),
          HINT = 'A key stands for one task for good; take another.';
      END IF;
      RETURN known.task_id;
    END IF;
  END IF;
  INSERT INTO assent.jobs (org_id, id, kind, lane, priority, run_at, attempts_max)
  VALUES (org, task, 'task', type, priority, due, attempts_max);
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by)
  VALUES (org, task, type, input, key, attempts_max, 'sql:' || assent.calling_role());
  IF due <= assent.now() THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  RETURN task;
END
$$;

ALTER FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer) SECURITY DEFINER;

CREATE OR REPLACE FUNCTION assent.status_may_move(life text, old_status text, new_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN new_status = ANY (CASE life || ':' || old_status
  WHEN 'instance:running'      THEN ARRAY['paused', 'completed', 'failed', 'cancelled']
  WHEN 'instance:paused'       THEN ARRAY['running', 'failed', 'cancelled']
  WHEN 'step:pending'          THEN ARRAY['running', 'cancelled', 'skipped', 'failed']
  WHEN 'step:running'          THEN ARRAY['completed', 'failed', 'skipped', 'cancelled']
  WHEN 'outbox:pending'        THEN ARRAY['processing', 'completed', 'failed', 'dead_letter']
  WHEN 'outbox:processing'     THEN ARRAY['completed', 'failed', 'dead_letter', 'pending']
  WHEN 'outbox:failed'         THEN ARRAY['pending', 'processing', 'completed', 'dead_letter']
  WHEN 'outbox:dead_letter'    THEN ARRAY['pending']
  WHEN 'definition:draft'      THEN ARRAY['published', 'archived']
  WHEN 'definition:published'  THEN ARRAY['archived']
  WHEN 'definition:archived'   THEN ARRAY['published']
  WHEN 'request:pending'       THEN ARRAY['approved', 'rejected', 'returned', 'void', 'cancelled']
  WHEN 'request:approved'      THEN ARRAY['void']
  WHEN 'seat:later'            THEN ARRAY['open', 'closed']
  WHEN 'seat:open'             THEN ARRAY['decided', 'closed']
  WHEN 'form:open'             THEN ARRAY['answered', 'cancelled']
  WHEN 'outside:pending'       THEN ARRAY['partial', 'completed', 'failed', 'expired', 'cancelled']
  WHEN 'outside:partial'       THEN ARRAY['completed', 'failed', 'expired', 'cancelled']
  WHEN 'job:queued'            THEN ARRAY['running', 'done', 'cancelled']
  WHEN 'job:running'           THEN ARRAY['done', 'retrying', 'dead', 'queued', 'blocked', 'background', 'cancelled']
  WHEN 'job:blocked'           THEN ARRAY['queued', 'cancelled', 'dead']
  WHEN 'job:background'        THEN ARRAY['done', 'retrying', 'dead', 'queued', 'cancelled']
  WHEN 'job:retrying'          THEN ARRAY['queued', 'running', 'done', 'dead', 'cancelled']
  WHEN 'job:dead'              THEN ARRAY['queued']
  ELSE ARRAY[]::text[]
END);

SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.jobs', 'assent.job_attempts', 'assent.effects']::regclass[]) t;
-- Other programs see tasks and their attempts, and no other job: what receivers answered to effects is not for them.
CREATE POLICY clients_see_tasks ON assent.jobs AS RESTRICTIVE FOR SELECT TO assent_client USING (kind = 'task');
CREATE POLICY clients_see_attempts_at_tasks ON assent.job_attempts AS RESTRICTIVE FOR SELECT TO assent_client
  USING (kind = 'task');

GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, ended_at) ON assent.jobs TO assent_engine;
GRANT SELECT, INSERT ON assent.job_attempts, assent.effects TO assent_engine;
GRANT SELECT ON assent.job_origins TO assent_engine;
REVOKE UPDATE ON assent.request_deliveries FROM assent_engine;
GRANT SELECT ON assent.jobs, assent.job_attempts TO assent_client;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
