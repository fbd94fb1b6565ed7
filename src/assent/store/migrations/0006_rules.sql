-- An org's own rules around actions, and the evidence that each evaluation leaves.

CREATE TABLE assent.workflow_rules (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  name         text        NOT NULL,
  entity_type  text        NOT NULL,
  action       text        NOT NULL,            -- an action's name, or * for all
  timing       text        NOT NULL,
  condition    jsonb       NOT NULL,            -- a text is an expression, an object its JSON form
  outcome      text        NOT NULL,
  outcome_json jsonb       NOT NULL,            -- deny: message; set: field → expression; emit: key, payload
  priority     integer     NOT NULL DEFAULT 100,
  enabled      boolean     NOT NULL DEFAULT true,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  updated_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_rules_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT rule_name_is_unique UNIQUE (org_id, entity_type, name),
  CONSTRAINT rule_timing_is_known CHECK (timing IN ('before', 'after')),
  CONSTRAINT rule_outcome_is_known CHECK (outcome IN ('deny', 'set', 'emit')),
  CONSTRAINT rule_condition_is_text_or_object CHECK (jsonb_typeof(condition) IN ('string', 'object')),
  CONSTRAINT rule_outcome_is_an_object CHECK (jsonb_typeof(outcome_json) = 'object')
);

CREATE TABLE assent.workflow_rule_evaluations (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  rule_id        uuid        NOT NULL,
  rule_name      text        NOT NULL,
  timing         text        NOT NULL,
  action         text        NOT NULL,
  entity_type    text        NOT NULL,
  entity_id      uuid        NOT NULL,
  entity_version integer     NOT NULL,          -- the version that was asked about; 0 before there is one
  expression     text        NOT NULL,
  variables      jsonb       NOT NULL,
  result         boolean     NOT NULL,
  outcome        text,                          -- what the rule did; null when its condition was false
  actor_id       text        NOT NULL,
  trace_id       text,
  at             timestamptz NOT NULL,
  CONSTRAINT workflow_rule_evaluations_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT evaluated_outcome_goes_with_result CHECK (result = (outcome IS NOT NULL))
);
CREATE INDEX rule_evaluations_by_entity ON assent.workflow_rule_evaluations (org_id, entity_id, id);
CREATE TRIGGER rule_evaluations_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_rule_evaluations
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER rule_evaluations_are_never_emptied BEFORE TRUNCATE ON assent.workflow_rule_evaluations
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.workflow_rules',
  'assent.workflow_rule_evaluations']::regclass[]) t;
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_rules TO assent_engine;
GRANT SELECT, INSERT ON assent.workflow_rule_evaluations TO assent_engine;
