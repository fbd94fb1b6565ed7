-- Jobs: the one queue. Effects, tasks and results (outside_request_deliveries) are kinds of job.

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

-- One row for each job, narrow, because it changes with every attempt. What a job is about is in the row of its kind
-- (task_submissions, effects, outside_request_deliveries) under the same id, and the outcomes of its attempts are in job_attempts:
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
  resolved     boolean     NOT NULL DEFAULT false, -- of a dead one: its step went on without it, or a person discarded it
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
    CHECK ((status IN ('done', 'cancelled', 'dead')) = (ended_at IS NOT NULL)),
  CONSTRAINT only_a_dead_job_is_resolved CHECK (NOT resolved OR status = 'dead')
) WITH (fillfactor = 70);
-- The claim goes from org to org and lane to lane, and takes from each what is due first: what is to run tomorrow stands
-- behind what is due, and is never read.
CREATE INDEX jobs_to_run ON assent.jobs (kind, org_id, lane, priority, run_at, id) WHERE status IN ('queued', 'retrying');
CREATE INDEX jobs_suspect ON assent.jobs (kind, run_at, org_id, id) WHERE status IN ('queued', 'retrying') AND suspect;
CREATE INDEX jobs_running ON assent.jobs (kind, worker_id) WHERE status = 'running';
CREATE INDEX jobs_dead ON assent.jobs (org_id, created_at, id) WHERE status = 'dead' AND NOT resolved;
CREATE INDEX jobs_ended ON assent.jobs (kind, ended_at) WHERE status IN ('done', 'cancelled');
CREATE TRIGGER job_status_moves_forward BEFORE UPDATE ON assent.jobs
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('jobs');
SELECT assent.guard_by_org('assent.jobs');
-- Other programs see tasks, and no other job.
CREATE POLICY clients_see_tasks ON assent.jobs AS RESTRICTIVE FOR SELECT TO assent_client USING (kind = 'task');
GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, resolved, ended_at) ON assent.jobs TO assent_engine;
GRANT SELECT ON assent.jobs TO assent_client;

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
SELECT assent.guard_by_org('assent.job_attempts');
-- What receivers answered to effects is not for other programs.
CREATE POLICY clients_see_attempts_at_tasks ON assent.job_attempts AS RESTRICTIVE FOR SELECT TO assent_client
  USING (kind = 'task');
GRANT SELECT, INSERT ON assent.job_attempts TO assent_engine;
GRANT SELECT ON assent.job_attempts TO assent_client;

-- Effects: HTTP calls, e-mails and messages that a step wants sent.
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
SELECT assent.guard_by_org('assent.effects');
GRANT SELECT, INSERT ON assent.effects TO assent_engine;

-- What an org's webhooks are signed with. Settings of the org can be read by expressions, so these are not there; the
-- engine's role has no right to this table at all. Two may be active, while receivers change from one to the other.
CREATE TABLE assent.effect_secrets (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  secret     text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  retired_at timestamptz,
  CONSTRAINT effect_secrets_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_secret_is_one_of_standard_webhooks CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$')
);
CREATE TRIGGER effect_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.effect_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('effect_secret', 'create', 'delete', 'id', '', 'retired_at');
SELECT assent.guard_by_org('assent.effect_secrets');

-- Credentials for receivers, by the names that definitions call them. As with effect_secrets, the engine's role has no right
-- to this table: values are written by the owner's functions, and read by the effects worker when it sends. Each is for some
-- hosts only, so that an author cannot have it sent elsewhere.
CREATE TABLE assent.named_secrets (
  org_id     text        NOT NULL,
  name       text        NOT NULL,
  value      text        NOT NULL,
  hosts      text[]      NOT NULL,
  created_by text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  changed_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT named_secrets_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT secret_name_is_plain CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  CONSTRAINT secret_value_fits_a_header CHECK (length(value) BETWEEN 8 AND 8192 AND value ~ '^[!-~][ -~]*[!-~]$'),
  CONSTRAINT secret_is_for_some_hosts CHECK (cardinality(hosts) BETWEEN 1 AND 20)
);
CREATE TRIGGER named_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.named_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('secret', 'create', 'delete', 'name', '', 'hosts changed_at');
SELECT assent.guard_by_org('assent.named_secrets');

-- Tasks: background work of the application, as it was submitted.
CREATE TABLE assent.task_submissions (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- of its job
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
CREATE TRIGGER task_submissions_are_append_only BEFORE UPDATE OR DELETE ON assent.task_submissions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_submissions_are_never_emptied BEFORE TRUNCATE ON assent.task_submissions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_submissions');
GRANT SELECT, INSERT ON assent.task_submissions TO assent_engine;
GRANT SELECT ON assent.task_submissions TO assent_client;

-- A key stands for one task of its type in its partition for good, also after that is pruned.
CREATE TABLE assent.task_keys (
  org_id       text  NOT NULL,
  type         text  NOT NULL,
  partition_id text  NOT NULL DEFAULT '',       -- '' is the whole org, because a primary key needs a value
  key          text  NOT NULL,
  task_id      uuid  NOT NULL,
  input_hash   bytea NOT NULL,
  CONSTRAINT task_keys_pkey PRIMARY KEY (org_id, type, partition_id, key),
  CONSTRAINT task_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT task_key_is_not_blank CHECK (NOT assent.is_blank(key))
);
CREATE TRIGGER task_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.task_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_keys_are_never_emptied BEFORE TRUNCATE ON assent.task_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_keys');
GRANT SELECT, INSERT ON assent.task_keys TO assent_engine;

-- The hash of an input, whatever its source: jsonb has one text for what is equal.
CREATE FUNCTION assent.input_hash(input jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(input::text, 'UTF8'));

-- Submits a task and returns its id; the same key again returns the id of the task that it submitted before, and another
-- input under it is refused. For programs in any language, in their own transaction: the task is of the whole org, and its
-- keys meet no partition's. It runs as its owner, since the caller has no right to write, and holds itself to the org of the
-- transaction (`assent.org_id`) by name.
CREATE FUNCTION assent.submit_task(type text, input jsonb DEFAULT '{}', key text DEFAULT NULL,
  priority integer DEFAULT 128, run_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT 8) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
GRANT EXECUTE ON FUNCTION assent.input_hash(jsonb) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer)
  TO assent_engine, assent_client;

-- What jobs of every kind are about: the step that wants them, and how many attempts they were given.
CREATE VIEW assent.job_origins WITH (security_invoker = true) AS
SELECT s.org_id, s.id, 'task' AS kind, s.attempts_max, s.awaited, s.instance_id, s.step_id, s.partition_id, s.trace_id
  FROM assent.task_submissions s
UNION ALL
SELECT e.org_id, e.id, 'effect', e.attempts_max, e.awaited, e.instance_id, e.step_id,
       (SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id), e.trace_id
  FROM assent.effects e
UNION ALL
SELECT d.org_id, d.id, 'result', 5, false, r.instance_id, r.step_id, r.partition_id, r.trace_id
  FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id;
GRANT SELECT ON assent.job_origins TO assent_engine;

-- What waits for an operator, each thing once: instances that an error paused; events and jobs that are dead. A dead event, or
-- a job that its step awaited, belongs to the incident of its instance while that is paused.
CREATE VIEW assent.incidents WITH (security_invoker = true) AS
SELECT i.org_id, i.id, 'instance' AS kind, i.incident ->> 'code' AS code, i.incident ->> 'message' AS message,
       i.incident ->> 'node' AS node, i.updated_at AS since, NULL AS what, i.id AS instance_id, i.partition_id,
       i.workflow_id AS definition, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.workflow_instances i
 WHERE i.status = 'paused' AND coalesce(i.incident ->> 'code', 'PAUSED') <> 'PAUSED'
UNION ALL
SELECT e.org_id, e.id, 'event', 'EVENT_FAILED', e.error, NULL, e.created_at, e.event_type, e.instance_id,
       coalesce(e.payload_json ->> 'partition', i.partition_id),
       i.workflow_id, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.workflow_events_outbox e
  LEFT JOIN assent.workflow_instances i ON i.org_id = e.org_id AND i.id = e.instance_id
 WHERE e.status = 'dead' AND i.status IS DISTINCT FROM 'paused'
UNION ALL
SELECT j.org_id, j.id, j.kind, coalesce(a.code, 'UNKNOWN'), a.error,
       (SELECT s.node_id FROM assent.workflow_step_executions s
         WHERE s.org_id = o.org_id AND s.instance_id = o.instance_id AND s.id = o.step_id),
       j.ended_at, j.lane, o.instance_id, o.partition_id,
       i.workflow_id, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.jobs j
 CROSS JOIN LATERAL (
    SELECT * FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
  LEFT JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
  LEFT JOIN assent.workflow_instances i ON i.org_id = o.org_id AND i.id = o.instance_id
 WHERE j.status = 'dead' AND NOT j.resolved AND NOT (o.awaited AND coalesce(i.status = 'paused', false));
GRANT SELECT ON assent.incidents TO assent_engine;
