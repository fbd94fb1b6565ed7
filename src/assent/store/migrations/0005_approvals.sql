-- Approvals: chains are templates, requests are what is asked at one version, decisions are what people answered.
-- These tables are the authority; a step only refers to its request.

CREATE TABLE assent.approval_chains (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  name        text        NOT NULL,
  entity_type text,                             -- null: for any
  active      boolean     NOT NULL DEFAULT true,
  created_at  timestamptz NOT NULL DEFAULT assent.now(),
  updated_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_chains_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT approval_chain_name_is_unique UNIQUE (org_id, name)
);

CREATE TABLE assent.approval_chain_steps (
  org_id      text    NOT NULL,
  chain_id    uuid    NOT NULL,
  position    integer NOT NULL,
  name        text    NOT NULL,
  approvers   jsonb   NOT NULL,
  mode        text    NOT NULL DEFAULT 'any',
  quorum      integer,
  due_seconds integer,
  CONSTRAINT approval_chain_steps_pkey PRIMARY KEY (org_id, chain_id, position),
  CONSTRAINT chain_step_is_of_a_chain FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
    ON DELETE CASCADE,
  CONSTRAINT chain_step_position_counts_from_one CHECK (position >= 1),
  CONSTRAINT chain_step_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence')),
  CONSTRAINT chain_step_quorum_goes_with_its_modes
    CHECK ((quorum IS NOT NULL) = (mode IN ('quorum', 'percentage')) AND quorum >= 1
      AND (mode <> 'percentage' OR quorum <= 100)),
  CONSTRAINT chain_step_due_is_in_the_future CHECK (due_seconds > 0)
);

CREATE TABLE assent.approval_requests (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  instance_id         uuid        NOT NULL,
  step_execution_id   uuid        NOT NULL,
  node_id             text        NOT NULL,
  entity_type         text,
  entity_id           uuid,
  entity_version      integer     NOT NULL,     -- approved means this version
  snapshot_version_id uuid,
  chain_id            uuid,
  mode                text        NOT NULL DEFAULT 'any',
  approvers           jsonb       NOT NULL,     -- resolved once, frozen
  requested_by        text        NOT NULL,
  status              text        NOT NULL DEFAULT 'pending',
  applied_at          timestamptz,              -- when a gate consumed it (WF-03)
  due_at              timestamptz,
  created_at          timestamptz NOT NULL DEFAULT assent.now(),
  decided_at          timestamptz,
  CONSTRAINT approval_requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT request_status_is_known CHECK (status IN ('pending', 'approved', 'rejected', 'void', 'cancelled')),
  CONSTRAINT request_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence', 'groups')),
  CONSTRAINT only_an_approved_request_is_applied CHECK (applied_at IS NULL OR status = 'approved'),
  CONSTRAINT request_about_an_entity_has_its_snapshot CHECK ((entity_id IS NULL) = (snapshot_version_id IS NULL)),
  CONSTRAINT request_is_of_an_instance FOREIGN KEY (org_id, instance_id)
    REFERENCES assent.workflow_instances (org_id, id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT request_snapshot_is_a_version FOREIGN KEY (org_id, snapshot_version_id)
    REFERENCES assent.entity_versions (org_id, id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT request_chain_exists FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
);
CREATE INDEX approval_requests_by_instance ON assent.approval_requests (org_id, instance_id);
CREATE INDEX approval_requests_open ON assent.approval_requests (org_id, created_at) WHERE status = 'pending';

CREATE TABLE assent.approval_decisions (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  request_id     uuid        NOT NULL,
  approver_id    text        NOT NULL,
  on_behalf_of   text,                          -- whom a delegate stood in for
  decision       text        NOT NULL,
  reason         text,
  entity_version integer     NOT NULL,
  decided_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_decisions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT one_decision_per_approver UNIQUE (org_id, request_id, approver_id),
  CONSTRAINT decision_is_known CHECK (decision IN ('approved', 'rejected', 'abstained')),
  CONSTRAINT decision_is_on_a_request FOREIGN KEY (org_id, request_id)
    REFERENCES assent.approval_requests (org_id, id)
);
CREATE TRIGGER decisions_are_append_only BEFORE UPDATE OR DELETE ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER decisions_are_never_emptied BEFORE TRUNCATE ON assent.approval_decisions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.approval_chains', 'assent.approval_chain_steps',
  'assent.approval_requests', 'assent.approval_decisions']::regclass[]) t;
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.approval_chains, assent.approval_chain_steps TO assent_engine;
GRANT SELECT, INSERT, UPDATE ON assent.approval_requests TO assent_engine;
GRANT SELECT, INSERT ON assent.approval_decisions TO assent_engine;
