-- Definitions, instances, steps, receipts and the two outboxes.
--
-- Three tables are partitioned by month. Their primary keys hold the partition key, so uniqueness over all time is the
-- business of the receipts, which are not partitioned (WF-02, WF-11, WF-16).

-- The lives of things with a status. assent.model.moves is the same table in Python; a test compares every pair.
CREATE FUNCTION assent.status_may_move(life text, old_status text, new_status text) RETURNS boolean
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
  ELSE ARRAY[]::text[]
END);

CREATE FUNCTION assent.restrict_status_regression() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND NOT assent.status_may_move(TG_ARGV[0], OLD.status, NEW.status) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS003',
      MESSAGE = format('status of %s %s may not move from %s to %s', TG_ARGV[0], OLD.id, OLD.status, NEW.status);
  END IF;
  RETURN NEW;
END
$$;

CREATE TABLE assent.workflow_definitions (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  definition_kind   text        NOT NULL,
  key               text        NOT NULL,       -- the entity type, or the flow's id
  version           integer     NOT NULL DEFAULT 1,
  entity_type       text,
  name              text        NOT NULL,
  status            text        NOT NULL DEFAULT 'draft',
  is_default        boolean     NOT NULL DEFAULT false,
  nodes_json        jsonb,
  edges_json        jsonb,
  slots_json        jsonb,
  base_ref          jsonb,
  body_patches_json jsonb,
  source_json       jsonb,                      -- a flow as its author wrote it
  compiled_json     jsonb,
  compiled_hash     text,
  compiler_version  text,
  created_by        text,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  updated_at        timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_definitions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT definition_version_is_unique UNIQUE (org_id, definition_kind, key, version),
  CONSTRAINT definition_version_counts_from_one CHECK (version >= 1),
  CONSTRAINT definition_status_is_known CHECK (status IN ('draft', 'published', 'archived')),
  CONSTRAINT definition_kind_is_known CHECK (definition_kind IN ('envelope', 'org_patch', 'effective', 'flow')),
  CONSTRAINT envelope_is_a_whole_shared_graph CHECK (definition_kind <> 'envelope' OR (
    org_id = '*' AND is_default AND entity_type IS NOT NULL AND nodes_json IS NOT NULL AND edges_json IS NOT NULL
    AND slots_json IS NOT NULL AND body_patches_json IS NULL AND base_ref IS NULL)),
  CONSTRAINT org_patch_is_patches_on_a_base CHECK (definition_kind <> 'org_patch' OR (
    NOT is_default AND entity_type IS NOT NULL AND body_patches_json IS NOT NULL AND base_ref IS NOT NULL
    AND nodes_json IS NULL AND edges_json IS NULL AND slots_json IS NULL)),
  CONSTRAINT effective_is_compiled CHECK (definition_kind <> 'effective' OR (
    NOT is_default AND entity_type IS NOT NULL AND nodes_json IS NOT NULL AND edges_json IS NOT NULL
    AND compiled_json IS NOT NULL AND compiled_hash IS NOT NULL AND compiler_version IS NOT NULL)),
  CONSTRAINT flow_is_a_source CHECK (definition_kind <> 'flow' OR (
    NOT is_default AND source_json IS NOT NULL AND body_patches_json IS NULL AND base_ref IS NULL)),
  CONSTRAINT published_flow_is_compiled CHECK (definition_kind <> 'flow' OR status <> 'published' OR (
    compiled_json IS NOT NULL AND compiled_hash IS NOT NULL AND compiler_version IS NOT NULL))
);
-- What an org starts now is one row; publishing archives the one before in the same transaction.
CREATE UNIQUE INDEX one_published_version_per_key ON assent.workflow_definitions (org_id, definition_kind, key)
  WHERE status = 'published' AND definition_kind <> 'envelope';
CREATE INDEX definitions_by_entity_type ON assent.workflow_definitions (org_id, entity_type, status);

-- WF-04: what was published stays as it was, also when it is archived or comes back; only its status moves.
CREATE FUNCTION assent.reject_published_definition_mutation() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  movable CONSTANT text[] := ARRAY['status', 'updated_at'];
BEGIN
  IF OLD.status = 'draft' THEN
    RETURN coalesce(NEW, OLD);
  END IF;
  IF TG_OP = 'DELETE' OR to_jsonb(NEW) - movable IS DISTINCT FROM to_jsonb(OLD) - movable THEN
    RAISE EXCEPTION USING ERRCODE = 'AS004',
      MESSAGE = format('definition %s version %s is %s and cannot change', OLD.key, OLD.version, OLD.status),
      HINT = 'Publish a new version instead.';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER published_definitions_do_not_change BEFORE UPDATE OR DELETE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_published_definition_mutation();

CREATE FUNCTION assent.reject_default_definition_mutation() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.is_default THEN
    RAISE EXCEPTION USING ERRCODE = 'AS005',
      MESSAGE = format('definition %s version %s is a generated envelope and cannot change', OLD.key, OLD.version),
      HINT = 'Give the contract a new version; its envelope is generated from it.';
  END IF;
  RETURN coalesce(NEW, OLD);
END
$$;
CREATE TRIGGER default_definitions_do_not_change BEFORE UPDATE OR DELETE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_default_definition_mutation();
CREATE TRIGGER definition_status_moves_forward BEFORE UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('definition');

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
  subject_id             text        NOT NULL,  -- who started it
  status                 text        NOT NULL DEFAULT 'running',
  active_tokens          jsonb       NOT NULL DEFAULT '[]',
  current_nodes          text[]      NOT NULL DEFAULT '{}',
  context_json           jsonb       NOT NULL DEFAULT '{}',
  version                integer     NOT NULL DEFAULT 1,
  idempotency_key        text,
  last_step_execution_id uuid,
  started_at             timestamptz NOT NULL DEFAULT assent.now(),
  updated_at             timestamptz NOT NULL DEFAULT assent.now(),
  completed_at           timestamptz,
  expires_at             timestamptz,
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
CREATE INDEX instances_by_status ON assent.workflow_instances (org_id, status, updated_at);
CREATE INDEX instances_by_definition ON assent.workflow_instances (org_id, definition_id);
CREATE INDEX instances_by_subject ON assent.workflow_instances (org_id, subject_id, status);
CREATE INDEX instances_to_expire ON assent.workflow_instances (expires_at)
  WHERE status = 'running' AND expires_at IS NOT NULL;
CREATE TRIGGER instance_status_moves_forward BEFORE UPDATE ON assent.workflow_instances
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('instance');

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
  duration_ms           integer,
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
-- Two indexes of the seed are left out, for every step would pay for them. (org_id, actor_user_id, status) was for the
-- approval inbox, which reads approval_requests. (org_id, instance_id, node_id, status) was for "is this step done?",
-- which the receipts answer; an instance's few steps are found by steps_by_instance.
CREATE INDEX steps_by_snapshot ON assent.workflow_step_executions (org_id, snapshot_version_id)
  WHERE snapshot_version_id IS NOT NULL;
CREATE INDEX steps_to_resume ON assent.workflow_step_executions (org_id, resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';
CREATE INDEX steps_waiting_for_event ON assent.workflow_step_executions (org_id, waiting_for_event_key)
  WHERE status = 'pending' AND waiting_for_event_key IS NOT NULL;

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
CREATE TRIGGER step_status_moves_forward BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('step');

CREATE TABLE assent.workflow_step_receipts (
  org_id            text        NOT NULL,
  instance_id       uuid        NOT NULL,
  idempotency_key   text        NOT NULL,
  step_execution_id uuid        NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_step_receipts_pkey PRIMARY KEY (org_id, instance_id, idempotency_key)
);

CREATE TABLE assent.workflow_events_outbox (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid,                   -- null: an application's event for nobody in particular (D35)
  entity_version        integer     NOT NULL DEFAULT 0,
  definition_version    integer,
  event_type            text        NOT NULL,
  payload_json          jsonb       NOT NULL DEFAULT '{}',
  event_idempotency_key text        NOT NULL,
  trace_id              text,
  status                text        NOT NULL DEFAULT 'pending',
  attempts              integer     NOT NULL DEFAULT 0,
  max_attempts          integer     NOT NULL DEFAULT 5,
  next_retry_at         timestamptz,
  completed_at          timestamptz,
  error                 text,
  CONSTRAINT workflow_events_outbox_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT event_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'dead_letter')),
  CONSTRAINT event_attempts_are_counted CHECK (attempts >= 0 AND max_attempts >= 1)
) PARTITION BY RANGE (created_at);
CREATE INDEX events_to_process ON assent.workflow_events_outbox (status, next_retry_at, created_at)
  WHERE status IN ('pending', 'failed');
CREATE INDEX events_by_instance ON assent.workflow_events_outbox (org_id, instance_id);
CREATE TRIGGER event_status_moves_forward BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('outbox');

CREATE TABLE assent.workflow_side_effects_outbox (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid        NOT NULL,
  step_execution_id     uuid        NOT NULL,
  effect_type           text        NOT NULL,
  payload_json          jsonb       NOT NULL DEFAULT '{}',
  event_idempotency_key text        NOT NULL,
  trace_id              text,
  status                text        NOT NULL DEFAULT 'pending',
  attempts              integer     NOT NULL DEFAULT 0,
  max_attempts          integer     NOT NULL DEFAULT 5,
  next_retry_at         timestamptz,
  completed_at          timestamptz,
  error                 text,
  response_json         jsonb,
  CONSTRAINT workflow_side_effects_outbox_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT effect_type_is_known CHECK (effect_type IN ('webhook', 'email', 'sms', 'in_app', 'integration')),
  CONSTRAINT effect_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'dead_letter')),
  CONSTRAINT effect_attempts_are_counted CHECK (attempts >= 0 AND max_attempts >= 1)
) PARTITION BY RANGE (created_at);
CREATE INDEX effects_to_process ON assent.workflow_side_effects_outbox (status, next_retry_at, created_at)
  WHERE status IN ('pending', 'failed');
CREATE INDEX effects_by_instance ON assent.workflow_side_effects_outbox (org_id, instance_id);
CREATE INDEX effects_by_step ON assent.workflow_side_effects_outbox (org_id, step_execution_id);
CREATE TRIGGER effect_status_moves_forward BEFORE UPDATE ON assent.workflow_side_effects_outbox
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('outbox');

-- An event without an instance keeps its receipt under the nil UUID.
CREATE TABLE assent.workflow_outbox_receipts (
  org_id                text        NOT NULL,
  instance_id           uuid        NOT NULL,
  source_table          text        NOT NULL,
  event_idempotency_key text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_outbox_receipts_pkey PRIMARY KEY (org_id, instance_id, source_table, event_idempotency_key),
  CONSTRAINT receipt_is_for_events_or_side_effects CHECK (source_table IN ('events', 'side_effects'))
);

-- Receipts are append-only; the pruning of ended instances' receipts is the one door out.
CREATE TRIGGER step_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_step_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER step_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_step_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER outbox_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_outbox_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER outbox_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_outbox_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

SELECT assent.guard_by_org(t) FROM unnest(ARRAY[
  'assent.workflow_definitions', 'assent.workflow_instances', 'assent.workflow_step_executions',
  'assent.workflow_step_receipts', 'assent.workflow_events_outbox', 'assent.workflow_side_effects_outbox',
  'assent.workflow_outbox_receipts']::regclass[]) t;
CREATE POLICY definitions_of_all_orgs_are_readable ON assent.workflow_definitions FOR SELECT USING (org_id = '*');

GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_definitions TO assent_engine;
GRANT SELECT, INSERT, UPDATE ON assent.workflow_instances, assent.workflow_events_outbox,
  assent.workflow_side_effects_outbox TO assent_engine;
GRANT SELECT, INSERT, UPDATE (status, started_at, completed_at, duration_ms, output_json, error,
  approval_request_id, applied, resume_at, waiting_for_event_key) ON assent.workflow_step_executions TO assent_engine;
GRANT SELECT, INSERT ON assent.workflow_step_receipts, assent.workflow_outbox_receipts TO assent_engine;
