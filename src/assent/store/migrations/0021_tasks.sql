-- Tasks: background work that our own workers run (D14, D35).
--
-- A task's row is narrow, because it changes with every attempt. What was submitted, and what became of attempts, is in
-- rows that are only inserted. A worker's lease is one row, however many jobs of whatever kind the worker has claimed.

-- Which status may follow which, of requests (0019) and tasks too. See assent.model.moves, which says the same.
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
  WHEN 'delivery:pending'      THEN ARRAY['processed', 'dead_letter']
  WHEN 'delivery:dead_letter'  THEN ARRAY['pending']
  WHEN 'task:open'             THEN ARRAY['in_progress', 'cancelled']
  WHEN 'task:in_progress'      THEN ARRAY['complete', 'error', 'dead', 'open', 'blocked', 'background', 'cancelled']
  WHEN 'task:blocked'          THEN ARRAY['open', 'cancelled', 'dead']
  WHEN 'task:background'       THEN ARRAY['complete', 'error', 'dead', 'open', 'cancelled']
  WHEN 'task:error'            THEN ARRAY['open', 'in_progress', 'dead', 'cancelled']
  WHEN 'task:dead'             THEN ARRAY['open']
  ELSE ARRAY[]::text[]
END);

CREATE TABLE assent.tasks (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- sorts by the time of submission
  type         text        NOT NULL,
  status       text        NOT NULL DEFAULT 'open',
  priority     smallint    NOT NULL DEFAULT 128, -- the higher the sooner; then the oldest
  attempts     integer     NOT NULL DEFAULT 0,  -- counted when they begin
  attempts_max integer     NOT NULL DEFAULT 8,
  run_at       timestamptz NOT NULL DEFAULT assent.now(), -- not before; after an error, the next try
  worker_id    uuid,                            -- the worker that has claimed it
  claimed_at   timestamptz,
  losses       integer     NOT NULL DEFAULT 0,  -- how many workers were lost while they had it
  suspect      boolean     NOT NULL DEFAULT false, -- whether it may have killed one: no other suspect starts beside it
  ended_at     timestamptz,
  CONSTRAINT tasks_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_type_is_a_short_name CHECK (length(type) BETWEEN 1 AND 200),
  CONSTRAINT task_status_is_known CHECK (status IN
    ('open', 'in_progress', 'blocked', 'background', 'complete', 'error', 'cancelled', 'dead')),
  CONSTRAINT task_priority_is_a_byte CHECK (priority BETWEEN 0 AND 255),
  CONSTRAINT task_attempts_are_counted CHECK (attempts BETWEEN 0 AND attempts_max AND attempts_max >= 1),
  CONSTRAINT task_in_progress_is_in_somebodys_hands CHECK ((status = 'in_progress') = (worker_id IS NOT NULL)),
  CONSTRAINT task_ends_when_its_status_says_so
    CHECK ((status IN ('complete', 'cancelled', 'dead')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 70);
-- The claim goes from org to org, type to type, priority to priority, and takes from each what is due first: what is to
-- run tomorrow stands behind what is due, and is never read.
CREATE INDEX tasks_to_run ON assent.tasks (org_id, type, priority, run_at, id) WHERE status IN ('open', 'error');
CREATE INDEX tasks_suspect ON assent.tasks (run_at, org_id, id) WHERE status IN ('open', 'error') AND suspect;
CREATE INDEX tasks_in_hand ON assent.tasks (worker_id) WHERE status = 'in_progress';
CREATE INDEX tasks_dead ON assent.tasks (org_id, id) WHERE status = 'dead';
CREATE INDEX tasks_ended ON assent.tasks (ended_at) WHERE status IN ('complete', 'cancelled');
CREATE TRIGGER task_status_moves_forward BEFORE UPDATE ON assent.tasks
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('task');

CREATE TABLE assent.task_submissions (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- of the task
  type         text        NOT NULL,
  input        jsonb       NOT NULL,
  key          text,
  attempts_max integer     NOT NULL,            -- of which a dead task gets as many again
  submitted_by text        NOT NULL,
  partition_id text,
  instance_id  uuid,                            -- of the step that submitted it
  step_id      uuid,
  awaited      boolean     NOT NULL DEFAULT false, -- whether that step rests until it has ended
  trace_id     text,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT task_submissions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_of_a_step_names_its_instance CHECK ((instance_id IS NULL) = (step_id IS NULL)),
  CONSTRAINT only_a_step_awaits_a_task CHECK (NOT awaited OR step_id IS NOT NULL)
);
CREATE INDEX task_submissions_by_type ON assent.task_submissions (org_id, type, id);
CREATE INDEX task_submissions_by_step ON assent.task_submissions (org_id, instance_id, step_id)
  WHERE instance_id IS NOT NULL;

-- What became of attempts; that of the last one is the task's own output or error.
CREATE TABLE assent.task_attempts (
  org_id     text        NOT NULL,
  task_id    uuid        NOT NULL,
  attempt    integer     NOT NULL,
  outcome    text        NOT NULL,
  output     jsonb,
  code       text,
  error      text,
  worker_id  uuid        NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at   timestamptz NOT NULL,
  CONSTRAINT task_attempts_pkey PRIMARY KEY (org_id, task_id, attempt),
  CONSTRAINT task_attempt_outcome_is_known CHECK (outcome IN ('complete', 'error', 'lost')),
  CONSTRAINT task_attempt_that_failed_says_why CHECK (num_nonnulls(code, error) = CASE outcome WHEN 'complete' THEN 0 ELSE 2 END)
);

-- A key stands for one task of its type for good, also after that is pruned.
CREATE TABLE assent.task_keys (
  org_id     text  NOT NULL,
  type       text  NOT NULL,
  key        text  NOT NULL,
  task_id    uuid  NOT NULL,
  input_hash bytea NOT NULL,
  CONSTRAINT task_keys_pkey PRIMARY KEY (org_id, type, key),
  CONSTRAINT task_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT task_key_is_not_blank CHECK (NOT assent.is_blank(key))
);

-- Until when each worker is taken to be alive: one lease for all tasks, effects and results that it has claimed. A worker
-- that has claimed something has a row here. Workers belong to no org.
CREATE TABLE assent.worker_leases (
  worker_id    uuid        NOT NULL,
  leased_until timestamptz NOT NULL,
  lost_jobs    integer,                         -- how many it had when its lease was found to be over
  CONSTRAINT worker_leases_pkey PRIMARY KEY (worker_id)
);
ALTER TABLE assent.worker_leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.worker_leases USING (false);

CREATE TRIGGER task_submissions_are_append_only BEFORE UPDATE OR DELETE ON assent.task_submissions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_submissions_are_never_emptied BEFORE TRUNCATE ON assent.task_submissions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_attempts_are_append_only BEFORE UPDATE OR DELETE ON assent.task_attempts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_attempts_are_never_emptied BEFORE TRUNCATE ON assent.task_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.task_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_keys_are_never_emptied BEFORE TRUNCATE ON assent.task_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- What an input is known by, wherever it came from: jsonb has one text for what is equal.
CREATE FUNCTION assent.input_hash(input jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(input::text, 'UTF8'));

-- Submits a task; the same key again answers with the task that it submitted before, and another input under it is
-- refused. It runs as whoever calls it, for the org of the transaction (`assent.org_id`), under row security.
CREATE FUNCTION assent.submit_task(type text, input jsonb DEFAULT '{}', key text DEFAULT NULL,
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
  IF key IS NOT NULL THEN
    INSERT INTO assent.task_keys (org_id, type, key, task_id, input_hash)
    VALUES (org, type, key, task, assent.input_hash(input)) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT k.task_id, k.input_hash INTO STRICT known FROM assent.task_keys k
       WHERE k.org_id = org AND k.type = submit_task.type AND k.key = submit_task.key;
      IF known.input_hash <> assent.input_hash(input) THEN
        RAISE unique_violation USING
          MESSAGE = format('key %L of %s was used for another input, by task %s', key, type, known.task_id),
          HINT = 'A key stands for one task for good; take another.';
      END IF;
      RETURN known.task_id;
    END IF;
  END IF;
  INSERT INTO assent.tasks (org_id, id, type, priority, run_at, attempts_max)
  VALUES (org, task, type, priority, due, attempts_max);
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by)
  VALUES (org, task, type, input, key, attempts_max, 'sql:' || assent.calling_role());
  IF due <= assent.now() THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  RETURN task;
END
$$;

-- Deletes tasks that went well, or were cancelled, before a time, a number at once. Their keys stay.
CREATE FUNCTION assent.prune_tasks(ended_before timestamptz, tasks_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  pruned bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH old AS MATERIALIZED (
    SELECT org_id, id FROM assent.tasks
     WHERE status IN ('complete', 'cancelled') AND ended_at < ended_before
     ORDER BY ended_at LIMIT tasks_max
     FOR UPDATE SKIP LOCKED
  ), of_tasks AS (
    DELETE FROM assent.tasks t USING old o WHERE t.org_id = o.org_id AND t.id = o.id RETURNING 1
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_attempts AS (
    DELETE FROM assent.task_attempts a USING old o WHERE a.org_id = o.org_id AND a.task_id = o.id
  )
  SELECT count(*) INTO pruned FROM of_tasks;
  PERFORM set_config('assent.door', former_door, true);
  RETURN pruned;
END
$$;

SELECT assent.guard_by_org(t) FROM unnest(ARRAY[
  'assent.tasks', 'assent.task_submissions', 'assent.task_attempts', 'assent.task_keys']::regclass[]) t;

GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, ended_at) ON assent.tasks TO assent_engine;
GRANT SELECT, INSERT ON assent.task_submissions, assent.task_attempts, assent.task_keys TO assent_engine;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.new_id(), assent.input_hash(jsonb),
  assent.submit_task(text, jsonb, text, integer, timestamptz, integer) TO assent_engine;
