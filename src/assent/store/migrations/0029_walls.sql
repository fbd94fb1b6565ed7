-- The walls between programs: what the role of other programs may do, and what the database refuses even to our own.

-- assent_client is what host applications and reports join. It reads what was decided and how things stand, under row
-- security, and calls three functions. It reads no key, secret or kept reply, no queue, and no column in which a receiver's
-- credentials, an outsider's answer or a person's unfinished draft may stand.
GRANT USAGE ON SCHEMA assent TO assent_client;
GRANT EXECUTE ON FUNCTION assent.org_id(), assent.is_blank(text) TO assent_client; -- the policies of row security ask them
GRANT SELECT ON
  assent.entities, assent.entity_versions, assent.current_entities, assent.audit_log, assent.role_capabilities,
  assent.workflow_instances, assent.workflow_seats, assent.workflow_rules, assent.workflow_rule_evaluations,
  assent.approval_requests, assent.approval_decisions, assent.approval_chains, assent.approval_chain_steps,
  assent.approval_delegations, assent.requests, assent.request_items, assent.tasks, assent.task_submissions,
  assent.task_attempts TO assent_client;
GRANT SELECT (org_id, name, created_at) ON assent.orgs TO assent_client;
GRANT SELECT (org_id, user_id, kind, name, roles, manager_id, active, created_at, updated_at)
  ON assent.members TO assent_client;
GRANT SELECT (org_id, id, definition_kind, key, version, entity_type, name, status, is_default, compiled_hash,
              compiler_version, created_by, created_at, updated_at) ON assent.workflow_definitions TO assent_client;
GRANT SELECT (org_id, created_at, id, instance_id, node_id, node_type, token_id, entity_version, status, run_as,
              started_at, completed_at, duration_ms, error, actor_user_id, approval_request_id, applied,
              snapshot_version_id, resume_at) ON assent.workflow_step_executions TO assent_client;
GRANT SELECT (org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id, entity_version, partition_id,
              title, figure, schema_json, answers, assignee, requested_by, status, reason, claimed_by, claimed_at, due_at,
              created_at, ended_at) ON assent.workflow_forms TO assent_client;

-- The three functions run as their owner, since the caller has no right to write; each holds itself to the org of the
-- transaction by name.
ALTER FUNCTION assent.emit_event(text, jsonb, text) SECURITY DEFINER;
ALTER FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer) SECURITY DEFINER;
ALTER FUNCTION assent.push_result(uuid, text, jsonb, text, text) SECURITY DEFINER;
GRANT EXECUTE ON FUNCTION assent.emit_event(text, jsonb, text),
  assent.submit_task(text, jsonb, text, integer, timestamptz, integer),
  assent.push_result(uuid, text, jsonb, text, text) TO assent_client;

-- What the database itself knows of a contract, read from its published envelope: which fields only the workflow writes, the
-- window of each state, the state in which an entity begins, and the ways between states with those that take an approval.
-- And of an org's definition: to which version of the contract it is bound, and which of its steps waive the approval.
-- It is kept beside the definition, by the trigger below and by nobody's word, so that checks read a short value instead
-- of a whole graph.
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

ALTER TABLE assent.workflow_definitions ADD COLUMN walls jsonb;
ALTER TABLE assent.workflow_definitions DISABLE TRIGGER USER;
UPDATE assent.workflow_definitions d SET walls = assent.walls_of(d);
ALTER TABLE assent.workflow_definitions ENABLE TRIGGER USER;

CREATE FUNCTION assent.read_walls() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.walls := assent.walls_of(NEW);
  RETURN NEW;
END
$$;
CREATE TRIGGER definitions_say_their_walls BEFORE INSERT OR UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.read_walls();

-- What holds for all orgs is the owner's to publish, whatever org a transaction of the engine's role says that it acts for.
CREATE POLICY definitions_of_all_orgs_are_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR INSERT
  WITH CHECK (org_id <> '*');
CREATE POLICY definitions_of_all_orgs_stay_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR UPDATE
  USING (org_id <> '*') WITH CHECK (org_id <> '*');

-- The walls of an entity type at a version of its contract; of the newest where that one was never published, and null
-- where none was: then there is no workflow, and nothing to approve.
CREATE FUNCTION assent.contract_walls(of_type text, at_version integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT d.walls FROM assent.workflow_definitions d
         WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = of_type
         ORDER BY d.version = at_version DESC, d.version DESC LIMIT 1);

-- What people wrote in a version of an entity: its data without the fields that only the workflow writes.
CREATE FUNCTION assent.content_of(of_org text, of_entity uuid, in_version integer, of_type text, by_contract integer)
RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT v.data - ARRAY(SELECT jsonb_array_elements_text(assent.contract_walls(of_type, by_contract) -> 'system'))
          FROM assent.entity_versions v
         WHERE v.org_id = of_org AND v.entity_id = of_entity AND v.version = in_version
           AND assent.contract_walls(of_type, by_contract) IS NOT NULL);

-- Approvals hold for a content hash, so another content must not come under the hash of the one before. The hash itself is
-- made in Python, of a canonical text that jsonb does not have (numbers keep their scale there): the database compares the
-- contents instead, which is the promise that the hash stands for. Only where the data changed and the hash did not is there
-- anything to compare: the workflow's own notes. The other way round, another hash for the same content, voids approvals
-- and is nobody's gain.
CREATE FUNCTION assent.guard_changed_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong uuid;
BEGIN
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.data_hash <> o.data_hash AND n.content_hash = o.content_hash
     AND assent.content_of(n.org_id, n.id, n.version, n.entity_type, n.contract_version)
         <> assent.content_of(n.org_id, n.id, o.version, n.entity_type, n.contract_version)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('entity %s has other content under the content hash of the version before', wrong);
  END IF;
  -- A window follows the tokens of the instance, and no token stands where edits are freer than the contract says of the
  -- entity's state.
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.version = o.version AND n.edit_window <> o.edit_window
     AND array_position('{editable,amend_only,locked}'::text[], n.edit_window)
         < array_position('{editable,amend_only,locked}'::text[], assent.contract_walls(n.entity_type, (
             SELECT (d.walls ->> 'envelope_version')::integer
               FROM assent.workflow_instances i
               JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
              WHERE i.org_id = n.org_id AND i.id = coalesce(n.instance_id, o.instance_id))) -> 'windows' ->> n.state)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002', MESSAGE = format('the window of entity %s would be looser than its state', wrong);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER changed_entities_are_guarded AFTER UPDATE ON assent.entities
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_changed_entities();

CREATE FUNCTION assent.guard_new_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong record;
BEGIN
  SELECT born.entity_type, born.state, walls.initial INTO wrong
    FROM (SELECT DISTINCT n.entity_type, n.contract_version, n.state FROM new_rows n) AS born
   CROSS JOIN LATERAL (SELECT assent.contract_walls(born.entity_type, born.contract_version) ->> 'initial') AS walls (initial)
   WHERE walls.initial <> born.state LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s begins as %s, not as %s', wrong.entity_type, wrong.initial, wrong.state);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER new_entities_begin_at_the_beginning AFTER INSERT ON assent.entities
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_new_entities();

-- In which transaction an approval was consumed: the database's own word.
ALTER TABLE assent.approval_requests ADD COLUMN applied_xid xid8;
CREATE FUNCTION assent.note_consumption() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.applied_xid := CASE WHEN NEW.applied_at IS NOT NULL THEN pg_current_xact_id() END;
  RETURN NEW;
END
$$;
-- After requests_keep_what_they_ask, by its name: that one compares what the caller changed.
CREATE TRIGGER requests_note_who_consumed_them BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_at IS NOT NULL AND OLD.applied_at IS NULL) EXECUTE FUNCTION assent.note_consumption();
CREATE TRIGGER requests_begin_unconsumed BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_xid IS NOT NULL OR NEW.applied_at IS NOT NULL)
  EXECUTE FUNCTION assent.note_consumption();

-- A request shows a version, and holds for the content of that version and no other.
CREATE FUNCTION assent.guard_asked_content() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM FROM assent.entities e WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id;
  IF NOT FOUND THEN
    RETURN NEW; -- the foreign key of its snapshot asks at the commit
  END IF;
  PERFORM FROM assent.entities e
     JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = NEW.entity_version
    WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id AND e.content_hash = NEW.content_hash
      AND v.id = NEW.snapshot_version_id
      AND (v.version = e.version OR NOT coalesce(
             assent.content_of(e.org_id, e.id, v.version, e.entity_type, e.contract_version)
             <> assent.content_of(e.org_id, e.id, e.version, e.entity_type, e.contract_version), false));
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009',
      MESSAGE = format('approval request %s is about another content than entity %s has, or shows another', NEW.id, NEW.entity_id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER requests_show_what_they_are_about BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.entity_id IS NOT NULL AND NEW.status = 'pending') EXECUTE FUNCTION assent.guard_asked_content();

-- A state is reached by a way of the contract that the entity's instance is bound to, through that instance; and where every
-- such way takes an approval, one of this entity and instance is consumed in the same transaction and none of its round is
-- still open, or a step that waives it has been completed in the same generation. Asked at the commit: the instance, its
-- steps and its requests are written after the entity.
CREATE FUNCTION assent.guard_gate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  pinned jsonb;
  takes_approval boolean;
BEGIN
  SELECT d.walls INTO pinned
    FROM assent.workflow_instances i
    JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
   WHERE i.org_id = NEW.org_id AND i.id = NEW.written_by_instance AND i.entity_id = NEW.id;
  IF pinned IS NULL THEN
    IF assent.contract_walls(NEW.entity_type, NEW.contract_version) IS NULL THEN
      RETURN NULL; -- a type without a workflow
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s %s moves from %s to %s only by its workflow', NEW.entity_type, NEW.id, OLD.state, NEW.state);
  END IF;

  SELECT bool_and((way -> 'approval')::boolean) INTO takes_approval
    FROM jsonb_array_elements(
           assent.contract_walls(NEW.entity_type, (pinned ->> 'envelope_version')::integer) -> 'ways') AS way
   WHERE way ->> 'from' = OLD.state AND way ->> 'to' = NEW.state;
  IF takes_approval IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('no transition of %s leads from %s to %s', NEW.entity_type, OLD.state, NEW.state);
  END IF;
  IF NOT takes_approval THEN
    RETURN NULL;
  END IF;

  PERFORM FROM assent.approval_requests r
    WHERE r.org_id = NEW.org_id AND r.instance_id = NEW.written_by_instance AND r.entity_id = NEW.id
      AND r.applied_xid = pg_current_xact_id()
      AND NOT EXISTS (SELECT FROM assent.approval_requests o
                       WHERE o.org_id = r.org_id AND o.instance_id = r.instance_id AND o.slot = r.slot
                         AND o.generation = r.generation AND o.status = 'pending');
  IF FOUND THEN
    RETURN NULL;
  END IF;
  IF pinned -> 'waives' <> '[]' THEN
    PERFORM FROM assent.workflow_step_executions gate
       JOIN assent.workflow_step_executions waiver
         ON waiver.org_id = gate.org_id AND waiver.instance_id = gate.instance_id
      WHERE gate.org_id = NEW.org_id AND gate.instance_id = NEW.written_by_instance
        AND gate.node_type = 'lifecycle_gate' AND gate.status = 'completed'
        AND gate.output_json ->> 'entity_version' = NEW.version::text
        AND waiver.status = 'completed' AND pinned -> 'waives' ? waiver.node_id
        AND split_part(waiver.token_id, '/', 1) = split_part(gate.token_id, '/', 1);
    IF FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS012',
    MESSAGE = format('%s %s goes from %s to %s with an approval only, and none was consumed', NEW.entity_type, NEW.id, OLD.state, NEW.state),
    HINT = 'Approvals are given by decisions of those who are asked, and consumed by the gate in the transaction that moves the state.';
END
$$;
CREATE CONSTRAINT TRIGGER states_are_reached_through_their_gates AFTER UPDATE ON assent.entities
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION assent.guard_gate();

-- What came of a step stays as it is once it has ended, but for evidence of what was sent, which is only added, and the mark
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
    MESSAGE = format('step %s has ended: what came of it stays, and only gains evidence', OLD.id);
END
$$;
CREATE TRIGGER ended_steps_only_gain_evidence BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW WHEN (OLD.status IN ('completed', 'failed', 'skipped', 'cancelled'))
  EXECUTE FUNCTION assent.guard_ended_step();

-- An audit entry is dated by the database, and says with which role its writer signed in: who acted is the engine's word,
-- and this tells the words of our processes from those of another program that got hold of its role.
ALTER TABLE assent.audit_log ADD COLUMN database_role text NOT NULL DEFAULT session_user;
CREATE FUNCTION assent.date_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.at := assent.now();
  NEW.database_role := session_user;
  RETURN NEW;
END
$$;
CREATE TRIGGER audit_is_dated_by_the_database BEFORE INSERT ON assent.audit_log
  FOR EACH ROW EXECUTE FUNCTION assent.date_audit();

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
