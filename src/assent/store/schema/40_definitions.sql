-- Definitions: envelopes that are generated from contracts, an org's patches, the workflows compiled from both, and flows;
-- and an org's rules around actions.

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
  walls             jsonb,                      -- what the database checks by itself: see walls_of
  created_by        text,
  edited_by         text[]      NOT NULL DEFAULT '{}', -- all who wrote a draft's text: user:ann, service_account:robot
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
CREATE TRIGGER definitions_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_definitions FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('definition', 'create', 'discard', 'id', 'definition_kind key version',
    'name status compiled_hash');
CREATE TRIGGER definition_status_moves_forward BEFORE UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_definitions');

SELECT assent.guard_by_org('assent.workflow_definitions');
CREATE POLICY definitions_of_all_orgs_are_readable ON assent.workflow_definitions FOR SELECT USING (org_id = '*');
-- What holds for all orgs is the owner's to publish, whatever org a transaction of the engine's role says that it acts for.
CREATE POLICY definitions_of_all_orgs_are_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR INSERT
  WITH CHECK (org_id <> '*');
CREATE POLICY definitions_of_all_orgs_stay_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR UPDATE
  USING (org_id <> '*') WITH CHECK (org_id <> '*');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_definitions TO assent_engine;
GRANT SELECT (org_id, id, definition_kind, key, version, entity_type, name, status, is_default, compiled_hash,
              compiler_version, created_by, created_at, updated_at) ON assent.workflow_definitions TO assent_client;

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

-- An envelope is generated from its contract, and never edited.
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

-- What the database itself knows of a contract, read from its published envelope: which fields only the workflow writes, the
-- window of each state, the state in which an entity begins, and the ways between states with those that take an approval.
-- And of an org's definition: to which version of the contract it is bound, and which of its steps waive the approval.
-- The trigger below keeps it beside the definition, and no caller can write it, so that checks read a short value instead of
-- a whole graph.
CREATE FUNCTION assent.walls_of(definition assent.workflow_definitions) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
RETURN CASE definition.definition_kind
  WHEN 'envelope' THEN jsonb_build_object(
    'initial', definition.source_json #> '{contract,lifecycle,initial}',
    'windows', (
      SELECT coalesce(jsonb_object_agg(s.state ->> 'key', s.state #> '{value,edit}'), '{}')
        FROM jsonb_path_query(definition.source_json, '$.contract.lifecycle.states.keyvalue()') AS s (state)),
    'system', (
      SELECT coalesce(jsonb_agg(f.field -> 'key'), '[]')
        FROM jsonb_path_query(definition.source_json, '$.contract.fields.keyvalue() ? (@.value.system == true)') AS f (field)),
    'ways', (
      WITH gate AS (
        SELECT g.node ->> 'id' AS id, g.node #>> '{config,to}' AS target, left_from #>> '{}' AS source,
               coalesce(g.node #> '{config,approval}', 'false') AS approval
          FROM jsonb_path_query(definition.nodes_json, '$[*] ? (@.kind == "lifecycle_gate")') AS g (node)
         CROSS JOIN LATERAL jsonb_path_query(g.node, '$.config.from[*]') AS left_from)
      SELECT coalesce(jsonb_agg(DISTINCT way), '[]') FROM (
        SELECT jsonb_build_object('from', source, 'to', target, 'approval', approval) FROM gate
        UNION ALL -- a rejection takes no approval
        SELECT jsonb_build_object('from', gate.source, 'to', s.node #> '{config,state}', 'approval', false)
          FROM gate
          JOIN jsonb_path_query(definition.edges_json, '$[*] ? (@.label == "rejected")') AS e (edge)
            ON e.edge ->> 'source' = gate.id
          JOIN jsonb_path_query(definition.nodes_json, '$[*] ? (@.kind == "state")') AS s (node)
            ON s.node ->> 'id' = e.edge ->> 'target') AS ways (way)))
  WHEN 'effective' THEN jsonb_build_object(
    'envelope_version', definition.compiled_json -> 'envelope_version',
    'waives', jsonb_path_query_array(definition.compiled_json, '$.nodes[*] ? (@.waives_approval == true).id'))
END;

CREATE FUNCTION assent.read_walls() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.walls := assent.walls_of(NEW);
  RETURN NEW;
END
$$;
CREATE TRIGGER definitions_say_their_walls BEFORE INSERT OR UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.read_walls();

-- The walls of an entity type at a version of its contract; of the newest where that one was never published, and null
-- where none was: then there is no workflow, and nothing to approve.
CREATE FUNCTION assent.contract_walls(of_type text, at_version integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT d.walls FROM assent.workflow_definitions d
         WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = of_type
         ORDER BY d.version = at_version DESC, d.version DESC LIMIT 1);

-- An org's own rules around actions, and the record that each evaluation leaves.

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
CREATE TRIGGER rules_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_rules FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('rule', 'create', 'delete', 'id', 'entity_type name',
    'action timing condition outcome outcome_json priority enabled');
SELECT assent.guard_by_org('assent.workflow_rules');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_rules TO assent_engine;
GRANT SELECT ON assent.workflow_rules TO assent_client;

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
CREATE INDEX rule_evaluations_by_rule ON assent.workflow_rule_evaluations (org_id, entity_type, rule_name, id);
CREATE TRIGGER rule_evaluations_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_rule_evaluations
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER rule_evaluations_are_never_emptied BEFORE TRUNCATE ON assent.workflow_rule_evaluations
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_rule_evaluations');
GRANT SELECT, INSERT ON assent.workflow_rule_evaluations TO assent_engine;
GRANT SELECT ON assent.workflow_rule_evaluations TO assent_client;
