-- Instances, their steps and the receipts of steps.
--
-- Steps are partitioned by month, as are events and effects. Their primary keys hold the partition key, so receipts, which
-- are not partitioned, make a step, an event or an effect unique over all time (WF-02, WF-11, WF-16).

-- A projection of the steps: it can be rebuilt (WF-15). No foreign key to the definition, which may belong to
-- org * and so to another shard; published definitions cannot be deleted, which gives the same safety.
CREATE TABLE assent.workflow_instances (
  org_id                 text        NOT NULL,
  id                     uuid        NOT NULL,
  definition_id          uuid        NOT NULL,
  definition_version     integer     NOT NULL,
  definition_hash        text        NOT NULL,
  workflow_id            text        NOT NULL,  -- the definition's key
  entity_type            text,
  entity_id              uuid,
  entity_version         integer     NOT NULL DEFAULT 0,
  partition_id           text,
  subject_id             text        NOT NULL,  -- the actor who started it
  status                 text        NOT NULL DEFAULT 'running',
  active_tokens          jsonb       NOT NULL DEFAULT '[]',
  current_nodes          text[]      NOT NULL DEFAULT '{}',
  context_json           jsonb       NOT NULL DEFAULT '{}',
  originators            jsonb       NOT NULL DEFAULT '{"ids": [], "approved": false}', -- whose work is approved next
  version                integer     NOT NULL DEFAULT 1, -- counts the effects of its steps
  generation             integer     NOT NULL DEFAULT 0, -- of the newest root token
  chain_length           integer     NOT NULL DEFAULT 0, -- automatic calls since a step last waited
  incident               jsonb,                 -- why it is paused or failed: code, message, node
  idempotency_key        text,
  last_step_id           uuid,
  started_at             timestamptz NOT NULL DEFAULT assent.now(),
  updated_at             timestamptz NOT NULL DEFAULT assent.now(),
  completed_at           timestamptz,
  expires_at             timestamptz,
  receipts_pruned_at     timestamptz,           -- ended instances stay: this says which of them still have receipts
  CONSTRAINT workflow_instances_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT instance_status_is_known CHECK (status IN ('running', 'paused', 'completed', 'failed', 'cancelled')),
  CONSTRAINT instance_has_an_entity_with_its_type_or_none CHECK ((entity_id IS NULL) = (entity_type IS NULL)),
  CONSTRAINT instance_without_entity_has_version_zero CHECK (entity_id IS NOT NULL OR entity_version = 0),
  CONSTRAINT instance_ended_exactly_when_terminal
    CHECK ((completed_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled'))),
  CONSTRAINT instance_idempotency_key_is_unique UNIQUE (org_id, idempotency_key),
  CONSTRAINT instance_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX one_active_instance_per_entity ON assent.workflow_instances (org_id, entity_type, entity_id)
  WHERE status IN ('running', 'paused');
CREATE INDEX instances_by_entity ON assent.workflow_instances (org_id, entity_type, entity_id);
CREATE INDEX instances_by_partition ON assent.workflow_instances (org_id, partition_id) WHERE partition_id IS NOT NULL;
CREATE INDEX instances_by_status ON assent.workflow_instances (org_id, status, updated_at);
-- A page of some statuses is read status by status, newest first.
CREATE INDEX instances_in_status ON assent.workflow_instances (org_id, status, id);
CREATE INDEX instances_paused ON assent.workflow_instances (org_id, updated_at, id) WHERE status = 'paused';
CREATE INDEX instances_by_definition ON assent.workflow_instances (org_id, definition_id);
CREATE INDEX instances_by_subject ON assent.workflow_instances (org_id, subject_id, status);
CREATE INDEX instances_to_expire ON assent.workflow_instances (expires_at)
  WHERE status = 'running' AND expires_at IS NOT NULL;
CREATE INDEX instances_to_prune ON assent.workflow_instances (completed_at)
  WHERE completed_at IS NOT NULL AND receipts_pruned_at IS NULL;
CREATE TRIGGER instance_status_moves_forward BEFORE UPDATE ON assent.workflow_instances
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_instances');
SELECT assent.guard_by_org('assent.workflow_instances');
GRANT SELECT, INSERT, UPDATE ON assent.workflow_instances TO assent_engine;
GRANT SELECT ON assent.workflow_instances TO assent_client;

CREATE TABLE assent.workflow_step_executions (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid        NOT NULL,
  node_id               text        NOT NULL,
  node_type             text        NOT NULL,
  token_id              text        NOT NULL,
  entity_version        integer     NOT NULL,
  status                text        NOT NULL DEFAULT 'pending',
  run_as                text        NOT NULL DEFAULT 'actor',
  idempotency_key       text        NOT NULL,
  started_at            timestamptz,
  completed_at          timestamptz,
  duration_ms           bigint,                 -- an integer would end after 24 days; people and timers take longer
  input_json            jsonb,
  output_json           jsonb,
  error                 text,
  actor_user_id         text,
  approval_request_id   uuid,
  applied               boolean,
  snapshot_version_id   uuid,
  resume_at             timestamptz,
  waiting_for_event_key text,
  CONSTRAINT workflow_step_executions_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT step_status_is_known
    CHECK (status IN ('pending', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
  CONSTRAINT step_run_as_is_known CHECK (run_as IN ('actor', 'system', 'service_account')),
  CONSTRAINT step_snapshot_is_a_version FOREIGN KEY (org_id, snapshot_version_id)
    REFERENCES assent.entity_versions (org_id, id) DEFERRABLE INITIALLY DEFERRED
) PARTITION BY RANGE (created_at);
CREATE INDEX steps_by_instance ON assent.workflow_step_executions (org_id, instance_id, created_at);
-- Two indexes that one might expect are left out, for every step would pay for them. (org_id, actor_user_id, status) would
-- serve the approval inbox, which reads seats. (org_id, instance_id, node_id, status) would find whether a step is done,
-- which the receipts show; an instance's few steps are found by steps_by_instance.
CREATE INDEX steps_by_snapshot ON assent.workflow_step_executions (org_id, snapshot_version_id)
  WHERE snapshot_version_id IS NOT NULL;
CREATE INDEX steps_to_resume ON assent.workflow_step_executions (org_id, resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';
-- Timers are found across orgs by their time; steps_to_resume has the org first.
CREATE INDEX steps_due ON assent.workflow_step_executions (resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';
CREATE INDEX steps_waiting_for_event ON assent.workflow_step_executions (org_id, waiting_for_event_key)
  WHERE status = 'pending' AND waiting_for_event_key IS NOT NULL;
-- What waits. An index of its own: of an instance's steps nearly all have ended.
CREATE INDEX steps_resting ON assent.workflow_step_executions (org_id, instance_id) WHERE status = 'pending';
CREATE TABLE assent.workflow_step_executions_default PARTITION OF assent.workflow_step_executions DEFAULT;
SELECT assent.guard_by_org('assent.workflow_step_executions');
SELECT assent.guard_by_org('assent.workflow_step_executions_default');
GRANT SELECT, INSERT, UPDATE (status, started_at, completed_at, duration_ms, output_json, error,
  approval_request_id, applied, resume_at, waiting_for_event_key) ON assent.workflow_step_executions TO assent_engine;
GRANT SELECT (org_id, created_at, id, instance_id, node_id, node_type, token_id, entity_version, status, run_as,
              started_at, completed_at, duration_ms, error, actor_user_id, approval_request_id, applied,
              snapshot_version_id, resume_at) ON assent.workflow_step_executions TO assent_client;
CREATE TRIGGER step_status_moves_forward BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_step_executions');

CREATE FUNCTION assent.restrict_step_execution_updates() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.created_at, NEW.id, NEW.instance_id, NEW.node_id, NEW.node_type, NEW.token_id,
      NEW.entity_version, NEW.run_as, NEW.idempotency_key, NEW.input_json, NEW.actor_user_id,
      NEW.snapshot_version_id)
     IS DISTINCT FROM
     (OLD.org_id, OLD.created_at, OLD.id, OLD.instance_id, OLD.node_id, OLD.node_type, OLD.token_id,
      OLD.entity_version, OLD.run_as, OLD.idempotency_key, OLD.input_json, OLD.actor_user_id,
      OLD.snapshot_version_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('step %s keeps its identity, input and actor; only status and evidence may change', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER steps_keep_their_identity BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_step_execution_updates();

-- The result of a step stays as it is once it has ended, but for evidence of what was sent, which is only added, and the mark
-- that its approval was consumed. Workers, who are the owner, also put the evidence of a later attempt in the place of an
-- earlier one's, when a dead letter is sent again; and reduce old outputs to fewer of the same keys, which then say so.
CREATE FUNCTION assent.guard_ended_step() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.started_at, NEW.completed_at, NEW.duration_ms, NEW.error, NEW.approval_request_id)
     IS NOT DISTINCT FROM (OLD.started_at, OLD.completed_at, OLD.duration_ms, OLD.error, OLD.approval_request_id)
     AND (NEW.applied IS NOT DISTINCT FROM OLD.applied OR NEW.applied)
     AND (NEW.output_json IS NOT DISTINCT FROM OLD.output_json
          OR coalesce(OLD.output_json, '{}') - 'evidence' = NEW.output_json - 'evidence'
             AND (NEW.output_json -> 'evidence' @> coalesce(OLD.output_json -> 'evidence', '{}')
                  OR NOT row_security_active(TG_RELID)
                     AND NEW.output_json -> 'evidence' ?& ARRAY(SELECT jsonb_object_keys(OLD.output_json -> 'evidence')))
          OR NOT row_security_active(TG_RELID) AND NEW.output_json -> 'compacted' = 'true'
             AND OLD.output_json @> (NEW.output_json - 'compacted')) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS006',
    MESSAGE = format('step %s has ended: its result stays, and only gains evidence', OLD.id);
END
$$;
CREATE TRIGGER ended_steps_only_gain_evidence BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW WHEN (OLD.status IN ('completed', 'failed', 'skipped', 'cancelled'))
  EXECUTE FUNCTION assent.guard_ended_step();

CREATE TABLE assent.workflow_step_receipts (
  org_id            text        NOT NULL,
  instance_id       uuid        NOT NULL,
  idempotency_key   text        NOT NULL,
  step_id           uuid        NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_step_receipts_pkey PRIMARY KEY (org_id, instance_id, idempotency_key)
);
-- Append-only; prune_receipts and delete_ended_instances alone delete.
CREATE TRIGGER step_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_step_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER step_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_step_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_step_receipts');
GRANT SELECT, INSERT ON assent.workflow_step_receipts TO assent_engine;

-- Keys under which flows were started. A key stands for one start for good: it outlives the instance, which retention
-- may delete, and is never used for another flow or input.
CREATE TABLE assent.workflow_start_keys (
  org_id       text        NOT NULL,
  key          text        NOT NULL,  -- as in workflow_instances.idempotency_key: behind its partition, if it is of one
  instance_id  uuid        NOT NULL,  -- no foreign key: the instance may be gone
  request_hash text        NOT NULL,  -- of the flow and the input
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_start_keys_pkey PRIMARY KEY (org_id, key),
  CONSTRAINT start_key_is_not_blank CHECK (NOT assent.is_blank(key))
);
CREATE TRIGGER start_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_start_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER start_keys_are_never_emptied BEFORE TRUNCATE ON assent.workflow_start_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_start_keys');
GRANT SELECT, INSERT ON assent.workflow_start_keys TO assent_engine;

-- A worker notes whose events it is about to process before it starts. A note whose worker is gone names the instances that
-- may have killed it; they are run again one by one. It names the org of each instance, so that no statement about them goes
-- by an instance's id alone.
CREATE TABLE assent.workflow_batches (
  id           uuid        NOT NULL,
  org_ids      text[]      NOT NULL,
  instance_ids uuid[]      NOT NULL,
  started_at   timestamptz NOT NULL,
  CONSTRAINT workflow_batches_pkey PRIMARY KEY (id)
);
ALTER TABLE assent.workflow_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.workflow_batches USING (false);

-- How far the outputs of each org's old steps have been compacted: through this step, in the order of the primary key.
CREATE TABLE assent.step_compactions (
  org_id          text        NOT NULL,
  step_created_at timestamptz NOT NULL,
  step_id         uuid        NOT NULL,
  CONSTRAINT step_compactions_pkey PRIMARY KEY (org_id)
);
SELECT assent.guard_by_org('assent.step_compactions');

-- What compaction took out of the output of a step; reads of history put it back. One row per step, written once.
CREATE TABLE assent.step_evidence (
  org_id          text        NOT NULL,
  step_created_at timestamptz NOT NULL,
  step_id         uuid        NOT NULL,
  instance_id     uuid        NOT NULL,
  evidence        jsonb       NOT NULL,  -- compressed by pglz, which every server has; lz4 is an option of its build
  CONSTRAINT step_evidence_pkey PRIMARY KEY (org_id, step_created_at, step_id),
  CONSTRAINT step_evidence_is_an_object CHECK (jsonb_typeof(evidence) = 'object')
);
CREATE INDEX step_evidence_by_instance ON assent.step_evidence (org_id, instance_id);
-- Append-only; delete_ended_instances alone deletes.
CREATE TRIGGER step_evidence_is_append_only BEFORE UPDATE OR DELETE ON assent.step_evidence
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER step_evidence_is_never_emptied BEFORE TRUNCATE ON assent.step_evidence
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.step_evidence');
GRANT SELECT ON assent.step_evidence TO assent_engine;

-- Returns the output of a step as it was before compaction took evidence out of it. A dead letter that was sent again
-- since has left evidence of its own, which stands beside what was taken out.
CREATE FUNCTION assent.whole_output(output jsonb, taken_out jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN taken_out IS NULL THEN output ELSE
           taken_out || (output - 'compacted')
           || CASE WHEN taken_out ? 'evidence' AND output ? 'evidence'
                THEN jsonb_build_object('evidence', taken_out -> 'evidence' || (output -> 'evidence')) ELSE '{}' END
         END
$$;
GRANT EXECUTE ON FUNCTION assent.whole_output(jsonb, jsonb) TO assent_engine;
