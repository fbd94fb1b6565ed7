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

-- What the code of workers declares by name, such as `operation:bank.pay`, and until when it is taken to be there: workers that
-- run say so again and again. An older worker leaves to a newer one what it does not know. Names belong to no org.
CREATE TABLE assent.declared_names (
  name           text        NOT NULL,
  declared_until timestamptz NOT NULL,
  CONSTRAINT declared_names_pkey PRIMARY KEY (name)
);
ALTER TABLE assent.declared_names ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.declared_names USING (false);

-- Whether the code of a worker declares one of these names.
CREATE FUNCTION assent.is_declared(names text[]) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM assent.declared_names d WHERE d.name = ANY (names) AND d.declared_until > assent.now());
REVOKE ALL ON FUNCTION assent.is_declared(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.is_declared(text[]) TO assent_engine;

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
  run_at       timestamptz NOT NULL DEFAULT assent.now(), -- not before; after a failure, the next attempt; in the background, until then
  repeatable   boolean     NOT NULL DEFAULT true, -- whether it may run again after an attempt of unknown outcome
  worker_id    uuid,                            -- the worker that has claimed it
  claimed_at   timestamptz,
  losses       integer     NOT NULL DEFAULT 0,  -- how many workers were lost while they had it
  suspect      boolean     NOT NULL DEFAULT false, -- whether it may have killed one: no other suspect starts beside it
  resolved     boolean     NOT NULL DEFAULT false, -- of a dead one: its step or parent went on without it, or a person discarded it
  parent_id    uuid,                            -- of a subtask: the task that waits for it
  throttle     uuid,                            -- of a task: what limits when it may run, in task_throttles
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
  CONSTRAINT only_a_dead_job_is_resolved CHECK (NOT resolved OR status = 'dead'),
  CONSTRAINT only_a_task_is_throttled CHECK (throttle IS NULL OR kind = 'task'),
  CONSTRAINT only_a_task_has_a_parent CHECK (parent_id IS NULL OR kind = 'task'),
  CONSTRAINT only_a_task_waits_for_others CHECK (status NOT IN ('blocked', 'background') OR kind = 'task')
) WITH (fillfactor = 70);
-- The claim goes from org to org and lane to lane, and takes from each what is due first: what is to run tomorrow stands
-- behind what is due, and is never read. Tasks that a limit holds back have an index of their own: no other claim reads them.
CREATE INDEX jobs_to_run ON assent.jobs (kind, org_id, lane, priority, run_at, id)
  WHERE status IN ('queued', 'retrying') AND throttle IS NULL;
CREATE INDEX jobs_throttled ON assent.jobs (throttle, org_id, lane, priority, run_at, id)
  WHERE status IN ('queued', 'retrying') AND throttle IS NOT NULL;
CREATE INDEX jobs_running_throttled ON assent.jobs (org_id, throttle) WHERE status = 'running' AND throttle IS NOT NULL;
CREATE INDEX jobs_suspect ON assent.jobs (kind, run_at, org_id, id) WHERE status IN ('queued', 'retrying') AND suspect;
CREATE INDEX jobs_running ON assent.jobs (kind, worker_id) WHERE status = 'running';
CREATE INDEX jobs_dead ON assent.jobs (org_id, created_at, id) WHERE status = 'dead' AND NOT resolved;
-- Tasks that wait for their subtasks, and those subtasks that have not ended: one look for each parent, however many there are.
CREATE INDEX jobs_blocked ON assent.jobs (org_id, id) WHERE status = 'blocked';
CREATE INDEX jobs_background ON assent.jobs (run_at, org_id, id) WHERE status = 'background';
CREATE INDEX jobs_open_subtasks ON assent.jobs (org_id, parent_id, id)
  WHERE parent_id IS NOT NULL AND status NOT IN ('done', 'cancelled', 'dead');
CREATE INDEX jobs_ended ON assent.jobs (kind, ended_at) WHERE status IN ('done', 'cancelled');
CREATE TRIGGER job_status_moves_forward BEFORE UPDATE ON assent.jobs
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('jobs');
SELECT assent.guard_by_org('assent.jobs');
-- Other programs see tasks, and no other job.
CREATE POLICY clients_see_tasks ON assent.jobs AS RESTRICTIVE FOR SELECT TO assent_client USING (kind = 'task');
GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, resolved, ended_at) ON assent.jobs TO assent_engine;
GRANT SELECT ON assent.jobs TO assent_client;

-- Jobs that wait for a worker, in two parts: each has its own index.
CREATE VIEW assent.jobs_waiting WITH (security_invoker = true) AS
SELECT * FROM assent.jobs WHERE status IN ('queued', 'retrying') AND throttle IS NULL
UNION ALL
SELECT * FROM assent.jobs WHERE status IN ('queued', 'retrying') AND throttle IS NOT NULL;
GRANT SELECT ON assent.jobs_waiting TO assent_engine;

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
  error_type text,                              -- of a task's attempt that raised an exception: its type
  stack_trace text,
  retryable  boolean,                           -- of one that failed: whether a further attempt could help
  worker_id  uuid,                              -- null where a task was ended from outside, or its time there was over
  people     text[]      NOT NULL DEFAULT '{}', -- the members who ended it from outside: its output is their work
  started_at timestamptz NOT NULL,
  ended_at   timestamptz NOT NULL,
  CONSTRAINT job_attempts_pkey PRIMARY KEY (org_id, job_id, attempt),
  CONSTRAINT job_attempt_outcome_is_known CHECK (outcome IN ('done', 'blocked', 'background', 'failed', 'lost')),
  CONSTRAINT job_attempt_that_failed_says_why
    CHECK (num_nonnulls(code, error) = CASE WHEN outcome IN ('failed', 'lost') THEN 2 ELSE 0 END)
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

-- Effects: HTTP calls, e-mails and messages that a step wants sent, or that Assent itself writes, without a step.
CREATE TABLE assent.effects (
  org_id          text        NOT NULL,
  id              uuid        NOT NULL,            -- of its job
  instance_id     uuid,
  step_id         uuid,
  step_created_at timestamptz,                     -- the step's partition, for its evidence
  type            text        NOT NULL,
  payload         jsonb       NOT NULL DEFAULT '{}',
  key             text        NOT NULL,            -- what the receiver sees as Idempotency-Key
  awaited         boolean     NOT NULL DEFAULT false, -- whether its step rests until the answer is there
  attempts_max    integer     NOT NULL,            -- of which a dead effect gets as many again
  trace_id        text,
  created_at      timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT effects_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_type_is_known CHECK (type IN ('webhook', 'email', 'sms', 'in_app', 'chat', 'integration')),
  CONSTRAINT effect_of_a_step_names_its_instance CHECK (num_nulls(instance_id, step_id, step_created_at) IN (0, 3)),
  CONSTRAINT only_a_step_awaits_an_effect CHECK (NOT awaited OR step_id IS NOT NULL)
);
CREATE INDEX effects_by_instance ON assent.effects (org_id, instance_id);
CREATE INDEX effects_by_step ON assent.effects (org_id, step_id);
CREATE TRIGGER effects_are_append_only BEFORE UPDATE OR DELETE ON assent.effects
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER effects_are_never_emptied BEFORE TRUNCATE ON assent.effects
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.effects');
GRANT SELECT, INSERT ON assent.effects TO assent_engine;

-- What an org writes in place of Assent's own mails, part by part; a part that is null is Assent's.
CREATE TABLE assent.mail_templates (
  org_id     text        NOT NULL,
  kind       text        NOT NULL,
  language   text        NOT NULL,
  subject    text,
  text       text,
  html       text,
  updated_by text        NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT mail_templates_pkey PRIMARY KEY (org_id, kind, language),
  CONSTRAINT mail_template_language_is_a_tag CHECK (language ~ '^[a-z]{2,3}(-[A-Z]{2})?$'),
  CONSTRAINT mail_template_has_a_part CHECK (num_nonnulls(subject, text, html) > 0),
  CONSTRAINT mail_template_subject_is_one_line CHECK (subject !~ '[\r\n]')
);
CREATE TRIGGER mail_templates_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.mail_templates FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('mail_template', 'create', 'delete', 'kind', 'language',
    'subject text html');
SELECT assent.guard_by_org('assent.mail_templates');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.mail_templates TO assent_engine;

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
  parent_id    uuid,                            -- of a subtask: the task that made it
  parent_attempt integer,                       -- and at which attempt: subtasks of one attempt are waited for together
  depth        smallint    NOT NULL DEFAULT 0,  -- how many tasks it has above it
  is_callback  boolean     NOT NULL DEFAULT false, -- whether it was submitted with a batch, and runs when that has ended
  people       text[]      NOT NULL DEFAULT '{}', -- the members whose work it hands on; none of them approves what follows from it
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT task_submissions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_of_a_step_names_its_instance CHECK ((instance_id IS NULL) = (step_id IS NULL)),
  CONSTRAINT only_a_step_awaits_a_task CHECK (NOT awaited OR step_id IS NOT NULL),
  CONSTRAINT subtask_names_the_attempt_that_made_it CHECK ((parent_id IS NULL) = (parent_attempt IS NULL)),
  CONSTRAINT subtask_has_its_depth CHECK ((parent_id IS NULL) = (depth = 0)),
  CONSTRAINT subtask_is_awaited_by_its_parent_alone CHECK (NOT awaited OR parent_id IS NULL)
);
CREATE INDEX task_submissions_by_parent ON assent.task_submissions (org_id, parent_id, parent_attempt, id)
  WHERE parent_id IS NOT NULL;
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

-- What tasks use that can do only so much at a time, such as a model server: the newest worker that declares it says how many tasks
-- of all orgs may run with it. How many do is counted, and kept nowhere. Resources belong to no org.
CREATE TABLE assent.resources (
  name            text        NOT NULL,
  max_concurrency integer,                      -- without it, any number
  declared_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT resources_pkey PRIMARY KEY (name),
  CONSTRAINT resource_name_is_short CHECK (length(name) BETWEEN 1 AND 100 AND NOT assent.is_blank(name)),
  CONSTRAINT resource_lets_one_task_run CHECK (max_concurrency >= 1)
);
ALTER TABLE assent.resources ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.resources USING (false);

-- What limits when tasks may run: the resources that they use, and how many of a key may start in a period. Tasks with the same limits
-- share a row, whose id is a hash of it.
CREATE TABLE assent.task_throttles (
  org_id      text    NOT NULL,
  id          uuid    NOT NULL,
  resources   text[]  NOT NULL,
  rate_key    text,
  rate_max    integer,
  rate_period interval,
  CONSTRAINT task_throttles_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_throttle_limits_something CHECK (cardinality(resources) > 0 OR rate_key IS NOT NULL),
  CONSTRAINT task_throttle_has_few_resources CHECK (cardinality(resources) <= 10),
  CONSTRAINT rate_of_a_throttle_is_whole CHECK (num_nulls(rate_key, rate_max, rate_period) IN (0, 3)),
  CONSTRAINT rate_of_a_throttle_lets_one_start CHECK (rate_max BETWEEN 1 AND 100000 AND rate_period > interval '0'),
  CONSTRAINT rate_key_is_short CHECK (length(rate_key) BETWEEN 1 AND 500)
);
CREATE TRIGGER task_throttles_are_append_only BEFORE UPDATE OR DELETE ON assent.task_throttles
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_throttles_are_never_emptied BEFORE TRUNCATE ON assent.task_throttles
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_throttles');
GRANT SELECT, INSERT ON assent.task_throttles TO assent_engine;

-- The starts of tasks that have a rate limit, as long as they count. Only workers write here.
CREATE TABLE assent.rate_starts (
  org_id     text        NOT NULL,
  key        text        NOT NULL,
  at         timestamptz NOT NULL,
  task_id    uuid        NOT NULL,
  expires_at timestamptz NOT NULL,
  CONSTRAINT rate_starts_pkey PRIMARY KEY (org_id, key, at, task_id)
);
CREATE INDEX rate_starts_expired ON assent.rate_starts (expires_at);
SELECT assent.guard_by_org('assent.rate_starts');

-- The resources with how many tasks of all orgs run with each: numbers, and nothing of whose they are.
CREATE FUNCTION assent.list_resources() RETURNS TABLE (name text, max_concurrency integer, running bigint, declared_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT r.name, r.max_concurrency,
         (SELECT count(*) FROM assent.jobs j JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
           WHERE j.status = 'running' AND j.throttle IS NOT NULL AND r.name = ANY (t.resources)),
         r.declared_at
    FROM assent.resources r ORDER BY r.name;
END;
REVOKE ALL ON FUNCTION assent.list_resources() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.list_resources() TO assent_engine;

-- Tasks whose end a process waits for: the transaction that ends one notifies those who wait, and no other does.
CREATE TABLE assent.task_waiters (
  org_id  text NOT NULL,
  task_id uuid NOT NULL,
  CONSTRAINT task_waiters_pkey PRIMARY KEY (org_id, task_id)
);
SELECT assent.guard_by_org('assent.task_waiters');
GRANT SELECT, INSERT, DELETE ON assent.task_waiters TO assent_engine;

-- Notifies the processes that wait for the end of these tasks. It is a statement of its own after the one that ended them: it
-- sees who began to wait meanwhile.
CREATE FUNCTION assent.notify_waiters(orgs text[], tasks uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  task uuid;
BEGIN
  IF NOT EXISTS (SELECT FROM assent.task_waiters) THEN
    RETURN;
  END IF;
  FOR task IN
    DELETE FROM assent.task_waiters w USING unnest(orgs, tasks) AS ended (org_id, id)
     WHERE w.org_id = ended.org_id AND w.task_id = ended.id RETURNING w.task_id
  LOOP
    PERFORM pg_notify('assent_task_ends', task::text);
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION assent.notify_waiters(text[], uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.notify_waiters(text[], uuid[]) TO assent_engine;

-- How far a task is, as its attempt said last: one row, overwritten at most once in a worker's interval.
CREATE TABLE assent.task_progress (
  org_id   text             NOT NULL,
  task_id  uuid             NOT NULL,
  attempt  integer          NOT NULL,
  fraction double precision NOT NULL,
  message  text             NOT NULL,
  at       timestamptz      NOT NULL,
  CONSTRAINT task_progress_pkey PRIMARY KEY (org_id, task_id),
  CONSTRAINT task_progress_is_a_part_of_the_whole CHECK (fraction BETWEEN 0 AND 1)
);
SELECT assent.guard_by_org('assent.task_progress');
-- A task that writes rows of its own writes its notes in the same transaction, as this role.
GRANT SELECT, INSERT, UPDATE ON assent.task_progress TO assent_engine;

-- The lines that attempts wrote. Only workers write here, and a task's lines are deleted with it.
CREATE TABLE assent.task_log_lines (
  org_id   text        NOT NULL,
  task_id  uuid        NOT NULL,
  attempt  integer     NOT NULL,
  position integer     NOT NULL,                -- from 1, in the attempt
  level    text        NOT NULL,
  message  text        NOT NULL,
  at       timestamptz NOT NULL,
  CONSTRAINT task_log_lines_pkey PRIMARY KEY (org_id, task_id, attempt, position),
  CONSTRAINT task_log_level_is_known CHECK (level IN ('debug', 'info', 'warning', 'error'))
);
SELECT assent.guard_by_org('assent.task_log_lines');
GRANT SELECT, INSERT ON assent.task_log_lines TO assent_engine;

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
  priority integer DEFAULT 128, run_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT 8,
  delay interval DEFAULT NULL, resources text[] DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  org text := assent.org_id();
  task uuid := assent.new_id();
  due timestamptz := coalesce(run_at, assent.now() + coalesce(delay, interval '0'));
  used text[] := ARRAY(SELECT DISTINCT r FROM unnest(resources) AS r ORDER BY r);
  throttle uuid := CASE WHEN cardinality(used) > 0 THEN md5(used::text)::uuid END;
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
  IF run_at IS NOT NULL AND delay IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task has a time or a delay, and not both';
  END IF;
  IF NOT used <@ ARRAY(SELECT r.name FROM assent.resources r) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task uses resources that workers have declared',
      DETAIL = format('Found %L.', used);
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
  INSERT INTO assent.task_throttles (org_id, id, resources)
  SELECT org, throttle, used WHERE throttle IS NOT NULL ON CONFLICT DO NOTHING;
  INSERT INTO assent.jobs (org_id, id, kind, lane, priority, run_at, attempts_max, throttle)
  VALUES (org, task, 'task', type, priority, due, attempts_max, throttle);
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by)
  VALUES (org, task, type, input, key, attempts_max, 'sql:' || assent.calling_role());
  IF due <= assent.now() THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  RETURN task;
END
$$;
GRANT EXECUTE ON FUNCTION assent.input_hash(jsonb) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer, interval, text[])
  TO assent_engine, assent_client;

-- Cancels tasks that have not ended, with their subtasks that have not, and notifies the workers once where one of them runs. It goes
-- from level to level: subtasks are looked for after their parent was locked, for the parent may just have made them.
CREATE FUNCTION assent.cancel_tasks(orgs text[], tasks uuid[]) RETURNS TABLE (org_id text, id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  level_orgs text[] := orgs;
  level_tasks uuid[] := tasks;
  some_run boolean;
  any_runs boolean := false;
BEGIN
  LOOP
    WITH open AS MATERIALIZED (
      SELECT j.org_id, j.id, j.status FROM unnest(level_orgs, level_tasks) AS level (org_id, id)
        JOIN assent.jobs j ON j.org_id = level.org_id AND j.id = level.id
       WHERE j.kind = 'task' AND j.status NOT IN ('done', 'cancelled', 'dead')
       ORDER BY j.org_id, j.id FOR UPDATE OF j
    ), cancelled AS (
      UPDATE assent.jobs j SET status = 'cancelled', worker_id = NULL, ended_at = assent.now()
        FROM open WHERE j.org_id = open.org_id AND j.id = open.id
    )
    SELECT array_agg(open.org_id), array_agg(open.id), bool_or(open.status = 'running')
      INTO level_orgs, level_tasks, some_run FROM open;
    EXIT WHEN level_tasks IS NULL;
    any_runs := any_runs OR some_run;
    PERFORM assent.notify_waiters(level_orgs, level_tasks);
    RETURN QUERY SELECT level.* FROM unnest(level_orgs, level_tasks) AS level;
    SELECT array_agg(j.org_id), array_agg(j.id) INTO level_orgs, level_tasks
      FROM unnest(level_orgs, level_tasks) AS parent (org_id, id)
      JOIN assent.jobs j ON j.org_id = parent.org_id AND j.parent_id = parent.id
     WHERE j.status NOT IN ('done', 'cancelled', 'dead');
    EXIT WHEN level_tasks IS NULL;
  END LOOP;
  IF any_runs THEN
    PERFORM pg_notify('assent_tasks', 'cancelled');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.cancel_tasks(text[], uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.cancel_tasks(text[], uuid[]) TO assent_engine;

-- Whose work a task hands on: of its submission and of its ends from outside, and the same of all subtasks below it.
CREATE FUNCTION assent.people_of_task(org text, task uuid) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  WITH RECURSIVE tree AS (
    SELECT s.id, s.people FROM assent.task_submissions s WHERE s.org_id = org AND s.id = task
    UNION ALL
    SELECT s.id, s.people FROM tree JOIN assent.task_submissions s ON s.org_id = org AND s.parent_id = tree.id
  )
  SELECT coalesce(array_agg(DISTINCT p.person ORDER BY p.person), '{}')
    FROM (SELECT unnest(t.people) AS person FROM tree t
          UNION ALL
          SELECT unnest(a.people) FROM tree t JOIN assent.job_attempts a ON a.org_id = org AND a.job_id = t.id) AS p;
END;
REVOKE ALL ON FUNCTION assent.people_of_task(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.people_of_task(text, uuid) TO assent_engine;

-- Ends the attempt at a task from outside of the workers, whether its function has returned or still runs: the first end counts.
-- It is a row of its own in job_attempts, and the task has as many attempts left as before. Returns the task's status then,
-- null where it is not under way. The steps and tasks that wait for it go on.
CREATE FUNCTION assent.end_task(
  org text, task uuid, output jsonb, code text, error text, retryable boolean, people text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  former record;
  ended record;
  event_key text;
BEGIN
  SELECT j.status, j.attempts, j.attempts_max INTO former FROM assent.jobs j
   WHERE j.org_id = org AND j.id = task AND j.kind = 'task' AND j.status IN ('background', 'running') FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  UPDATE assent.jobs j
     SET status = CASE WHEN code IS NULL THEN 'done' WHEN retryable AND j.attempts < j.attempts_max THEN 'retrying' ELSE 'dead' END,
         attempts = j.attempts + 1, attempts_max = j.attempts_max + 1, worker_id = NULL, suspect = false,
         run_at = CASE WHEN code IS NULL THEN j.run_at
                       ELSE assent.now() + least(3600, 2 ^ least(j.attempts - 1, 12)) * interval '1 second' END,
         resolved = code IS NOT NULL AND NOT (retryable AND j.attempts < j.attempts_max) AND j.parent_id IS NOT NULL,
         ended_at = CASE WHEN code IS NULL OR NOT (retryable AND j.attempts < j.attempts_max) THEN assent.now() END
   WHERE j.org_id = org AND j.id = task
  RETURNING j.status, j.attempts, j.claimed_at, j.parent_id INTO ended;
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, code, error, retryable, people, started_at,
         ended_at)
  VALUES (org, task, ended.attempts, 'task', CASE WHEN code IS NULL THEN 'done' ELSE 'failed' END, output, code, left(error, 2000),
          CASE WHEN code IS NOT NULL THEN retryable END, people, ended.claimed_at, assent.now());
  IF former.status = 'running' THEN
    PERFORM pg_notify('assent_tasks', 'cancelled');
  END IF;
  IF ended.status = 'retrying' THEN
    RETURN ended.status;
  END IF;
  PERFORM assent.notify_waiters(ARRAY[org], ARRAY[task]);
  UPDATE assent.jobs p SET status = 'queued', run_at = assent.now()
   WHERE p.org_id = org AND p.id = ended.parent_id AND p.status = 'blocked'
     AND NOT EXISTS (SELECT FROM assent.jobs c WHERE c.org_id = org AND c.parent_id = p.id
                        AND c.status NOT IN ('done', 'cancelled', 'dead'));
  IF FOUND THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  event_key := encode(sha256(convert_to(format('task ended:%s', task), 'UTF8')), 'hex');
  WITH awaited AS (
    SELECT s.instance_id, s.step_id, s.trace_id FROM assent.task_submissions s
     WHERE s.org_id = org AND s.id = task AND s.awaited
  ), receipt AS (
    INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
    SELECT org, instance_id, 'events', event_key, assent.now() FROM awaited
  )
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json, event_idempotency_key,
         trace_id)
  SELECT org, assent.now(), assent.new_id(), instance_id, 'on_event',
         jsonb_build_object('cause', task, 'step', step_id,
           'outcome', CASE WHEN code IS NULL THEN 'completed' ELSE 'error' END,
           'data', CASE WHEN code IS NULL THEN output ELSE jsonb_build_object('code', code, 'message', error) END,
           'people', assent.people_of_task(org, task)),
         event_key, trace_id
    FROM awaited;
  IF FOUND THEN
    PERFORM pg_notify('assent_events', '');
  END IF;
  RETURN ended.status;
END
$$;
REVOKE ALL ON FUNCTION assent.end_task(text, uuid, jsonb, text, text, boolean, text[]) FROM PUBLIC;

-- Completes a task that is in the background, for the org of the transaction; returns its status then, null where it is not under
-- way. For programs in any language, in their own transaction.
CREATE FUNCTION assent.complete_task(task uuid, output jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN assent.end_task(assent.org_id(), task, output, NULL, NULL, false);

-- The same with the members whose work the output is, which other programs cannot say.
CREATE FUNCTION assent.complete_task_by(task uuid, output jsonb, people text[]) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN assent.end_task(assent.org_id(), task, output, NULL, NULL, false, people);

-- Fails a task that is in the background. It is tried again where that may help and attempts are left; else it is dead.
CREATE FUNCTION assent.fail_task(task uuid, message text, code text DEFAULT 'TASK_FAILED', retryable boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(assent.is_blank(message) OR assent.is_blank(code), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a failure has a code and a message',
      DETAIL = format('Found %L and %L.', code, message);
  END IF;
  RETURN assent.end_task(assent.org_id(), task, NULL, code, message, coalesce(retryable, false));
END
$$;
REVOKE ALL ON FUNCTION assent.complete_task(uuid, jsonb), assent.complete_task_by(uuid, jsonb, text[]),
  assent.fail_task(uuid, text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.complete_task_by(uuid, jsonb, text[]) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.complete_task(uuid, jsonb), assent.fail_task(uuid, text, text, boolean)
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
  FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
UNION ALL
SELECT m.org_id, m.id, 'result', 5, false, NULL, NULL, NULL, NULL FROM assent.dead_messages m;
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

-- Which open incidents an org's alerts have named, and when its last alert was. Only workers write here.
CREATE TABLE assent.alerted_incidents (
  org_id      text        NOT NULL,
  kind        text        NOT NULL,
  incident_id uuid        NOT NULL,
  alerted_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT alerted_incidents_pkey PRIMARY KEY (org_id, kind, incident_id)
);
SELECT assent.guard_by_org('assent.alerted_incidents');

CREATE TABLE assent.alert_times (
  org_id  text        NOT NULL,
  last_at timestamptz NOT NULL DEFAULT '-infinity',
  CONSTRAINT alert_times_pkey PRIMARY KEY (org_id)
);
SELECT assent.guard_by_org('assent.alert_times');

-- Open incidents that no alert has named yet. An alert that is dead itself is none: alerts make no alerts.
CREATE VIEW assent.incidents_to_alert WITH (security_invoker = true) AS
SELECT i.* FROM assent.incidents i
 WHERE NOT EXISTS (SELECT FROM assent.alerted_incidents a
                    WHERE a.org_id = i.org_id AND a.kind = i.kind AND a.incident_id = i.id)
   AND NOT (i.kind = 'effect' AND EXISTS (
         SELECT FROM assent.effects e
          WHERE e.org_id = i.org_id AND e.id = i.id AND e.type = 'webhook' AND e.payload ? 'alert'));
