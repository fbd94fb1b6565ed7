-- Jobs that workers run: effects and tasks; and the leases of workers, which results (outside_request_deliveries) share.

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

-- Effects: HTTP calls, e-mails and messages that a step wants sent.
CREATE TABLE assent.workflow_side_effects_outbox (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid        NOT NULL,
  step_id               uuid        NOT NULL,
  step_created_at       timestamptz NOT NULL,   -- the step's partition, for its evidence
  effect_type           text        NOT NULL,
  destination           text        NOT NULL DEFAULT '',    -- the receiver; each gets a limited number at a time
  payload_json          jsonb       NOT NULL DEFAULT '{}',
  event_idempotency_key text        NOT NULL,
  trace_id              text,
  awaited               boolean     NOT NULL DEFAULT false, -- whether its step waits for the response
  retry_ambiguous       boolean     NOT NULL DEFAULT true,  -- whether it may be sent again when it may have arrived
  ambiguous             boolean     NOT NULL DEFAULT false, -- whether an attempt was sent and got no response
  status                text        NOT NULL DEFAULT 'pending',
  attempts              integer     NOT NULL DEFAULT 0,
  max_attempts          integer     NOT NULL DEFAULT 5,
  next_retry_at         timestamptz,
  worker_id             uuid,                   -- the worker that has claimed it
  claimed_at            timestamptz,
  losses                integer     NOT NULL DEFAULT 0,     -- how many workers were lost while they had it
  suspect               boolean     NOT NULL DEFAULT false, -- whether it may have killed one
  completed_at          timestamptz,
  error                 text,
  response_json         jsonb,
  CONSTRAINT workflow_side_effects_outbox_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT effect_type_is_known
    CHECK (effect_type IN ('webhook', 'email', 'sms', 'in_app', 'chat', 'integration')),
  CONSTRAINT effect_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'dead_letter')),
  CONSTRAINT effect_under_way_is_claimed_by_a_worker CHECK ((status = 'processing') = (worker_id IS NOT NULL)),
  CONSTRAINT effect_attempts_are_counted CHECK (attempts >= 0 AND max_attempts >= 1)
) PARTITION BY RANGE (created_at);
CREATE INDEX effects_to_process ON assent.workflow_side_effects_outbox (status, next_retry_at, created_at)
  WHERE status IN ('pending', 'failed');
CREATE INDEX effects_by_instance ON assent.workflow_side_effects_outbox (org_id, instance_id);
CREATE INDEX effects_by_step ON assent.workflow_side_effects_outbox (org_id, step_id);
-- The claim goes from destination to destination, and takes from each what is due first.
CREATE INDEX effects_of_destination_to_process ON assent.workflow_side_effects_outbox
  (org_id, destination, (coalesce(next_retry_at, created_at)), id) WHERE status IN ('pending', 'failed');
CREATE INDEX effects_suspect ON assent.workflow_side_effects_outbox ((coalesce(next_retry_at, created_at)), id)
  WHERE status IN ('pending', 'failed') AND suspect;
CREATE INDEX effects_of_worker ON assent.workflow_side_effects_outbox (worker_id) WHERE status = 'processing';
CREATE INDEX effects_dead ON assent.workflow_side_effects_outbox (org_id, created_at, id) WHERE status = 'dead_letter';
CREATE INDEX effects_completed ON assent.workflow_side_effects_outbox (completed_at) WHERE status = 'completed';
CREATE TRIGGER effect_status_moves_forward BEFORE UPDATE ON assent.workflow_side_effects_outbox
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_side_effects_outbox');
CREATE TRIGGER effect_claim_is_dated BEFORE UPDATE ON assent.workflow_side_effects_outbox
  FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status <> 'processing') EXECUTE FUNCTION assent.date_claim();
CREATE TABLE assent.workflow_side_effects_outbox_default PARTITION OF assent.workflow_side_effects_outbox DEFAULT;
SELECT assent.guard_by_org('assent.workflow_side_effects_outbox');
SELECT assent.guard_by_org('assent.workflow_side_effects_outbox_default');
GRANT SELECT, INSERT, UPDATE ON assent.workflow_side_effects_outbox TO assent_engine;

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

-- Tasks: background work of the application. A task's row is narrow, because it changes with every attempt. What was
-- submitted, and the outcomes of attempts, are in rows that are only inserted.
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
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('tasks');
SELECT assent.guard_by_org('assent.tasks');
GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, ended_at) ON assent.tasks TO assent_engine;
GRANT SELECT ON assent.tasks TO assent_client;

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
CREATE TRIGGER task_submissions_are_append_only BEFORE UPDATE OR DELETE ON assent.task_submissions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_submissions_are_never_emptied BEFORE TRUNCATE ON assent.task_submissions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_submissions');
GRANT SELECT, INSERT ON assent.task_submissions TO assent_engine;
GRANT SELECT ON assent.task_submissions TO assent_client;

-- Outcomes of attempts; that of the last one is the task's own output or error.
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
CREATE TRIGGER task_attempts_are_append_only BEFORE UPDATE OR DELETE ON assent.task_attempts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_attempts_are_never_emptied BEFORE TRUNCATE ON assent.task_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_attempts');
GRANT SELECT, INSERT ON assent.task_attempts TO assent_engine;
GRANT SELECT ON assent.task_attempts TO assent_client;

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
GRANT EXECUTE ON FUNCTION assent.input_hash(jsonb) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer)
  TO assent_engine, assent_client;
