-- Everything that people do is in the one audit log: changes of entities, as before; commands to workflows; and changes of
-- members, roles, keys, sources, settings, rules, definitions, delegations and chains.
--
-- A row is about a version of an entity, and then write_entities wrote it; or about a subject, and then it was
-- note_commands (workflows) or the trigger below (administration). The engine's role has no DML on the table, and no
-- function that writes one kind of row for another.

ALTER TABLE assent.audit_log
  ALTER COLUMN entity_type DROP NOT NULL,
  ALTER COLUMN entity_id DROP NOT NULL,
  ALTER COLUMN to_version DROP NOT NULL,
  ALTER COLUMN to_state DROP NOT NULL,
  ADD COLUMN subject_kind text,                 -- instance, event, member, role, …
  ADD COLUMN subject_id text,
  ADD COLUMN details jsonb,                     -- what was asked, or what identifies the subject
  ADD CONSTRAINT audited_is_a_version_or_a_subject CHECK (
    CASE WHEN subject_kind IS NULL
         THEN subject_id IS NULL AND details IS NULL AND entity_id IS NOT NULL
              AND to_version IS NOT NULL AND to_state IS NOT NULL
         ELSE subject_id IS NOT NULL AND from_version IS NULL AND to_version IS NULL
              AND from_state IS NULL AND to_state IS NULL END),
  ADD CONSTRAINT audited_entity_has_its_type_or_there_is_none CHECK ((entity_type IS NULL) = (entity_id IS NULL));
CREATE INDEX audit_log_by_subject ON assent.audit_log (org_id, subject_id, id) WHERE subject_id IS NOT NULL;

-- Return an id that sorts by time (RFC 9562, version 7): the transaction's millisecond, then the microseconds since the
-- transaction began in 26 bits (67 seconds), so that entries of one transaction sort in the order of its statements.
CREATE FUNCTION assent.new_id() RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT encode(overlay(overlay(overlay(uuid_send(gen_random_uuid())
           PLACING substring(int8send(floor(extract(epoch FROM assent.now()) * 1000)::bigint) FROM 3) FROM 1 FOR 6)
           PLACING int2send((x'7000'::integer + (microseconds >> 14))::smallint) FROM 7 FOR 2)
           PLACING int2send(((microseconds & 16383) - 32768)::smallint) FROM 9 FOR 2),
         'hex')::uuid
    FROM (SELECT least(67108863, floor(extract(epoch FROM clock_timestamp() - pg_catalog.now()) * 1000000))::integer)
      AS elapsed (microseconds));

-- Commands that were taken, each one row, in their own transaction.
CREATE FUNCTION assent.note_commands(commands jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT c ->> 'org_id' FROM jsonb_array_elements(commands) c) AS asked (org);
  PERFORM FROM jsonb_array_elements(commands) c
    WHERE coalesce(c ->> 'subject_kind' NOT IN ('instance', 'event', 'effect', 'result', 'task'), true);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002', MESSAGE = 'commands are to instances, events, effects, results and tasks',
      HINT = 'What is administered is noted by the database itself.';
  END IF;
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         entity_type, entity_id, changes, place, reason, channel, instance_id, trace_id, on_behalf_of)
  SELECT org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         entity_type, entity_id, '{}', place, reason, channel, instance_id, trace_id, on_behalf_of
    FROM jsonb_to_recordset(commands) AS c (
      org_id text, id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], action text,
      subject_kind text, subject_id text, details jsonb, entity_type text, entity_id uuid, place text, reason text,
      channel text, instance_id uuid, trace_id text, on_behalf_of text[]);
END
$$;

-- What became of a row that people administer, for the audit log: kind of subject, what an INSERT and a DELETE of it are
-- called, the column that names it, columns that identify it further, columns that are shown before and after. Nothing
-- else of it is shown, so that a secret stays one. Who acts is in `assent.acting`, which a transaction's first statement
-- sets; whoever changes things without saying who they are is the system, and the role that they signed in with is noted.
CREATE FUNCTION assent.note_administration() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting  jsonb := coalesce(nullif(current_setting('assent.acting', true), '')::jsonb, '{}');
  before  jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'updated_at' END;
  after   jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'updated_at' END;
  subject jsonb := coalesce(after, before);
  changed jsonb;
  details jsonb;
  verb    text;
BEGIN
  IF before = after THEN
    RETURN NULL;
  END IF;
  SELECT coalesce(jsonb_object_agg(name, jsonb_build_array(before -> name, after -> name)), '{}') INTO changed
    FROM string_to_table(TG_ARGV[5], ' ') AS name
   WHERE coalesce(before -> name, 'null') <> coalesce(after -> name, 'null');
  SELECT jsonb_object_agg(name, subject -> name) INTO details FROM string_to_table(TG_ARGV[4], ' ') AS name;
  verb := CASE
    WHEN TG_OP = 'DELETE' THEN TG_ARGV[2]
    WHEN changed -> 'status' ->> 1 = 'published' THEN 'publish'
    WHEN TG_OP = 'INSERT' THEN TG_ARGV[1]
    WHEN changed -> 'status' ->> 1 = 'archived' THEN 'archive'
    WHEN changed -> 'active' = '[true, false]' THEN 'deactivate'
    WHEN changed -> 'revoked_at' -> 0 = 'null' THEN 'revoke'
    ELSE 'change' END;
  IF acting = '{}' THEN
    details := coalesce(details, '{}') || jsonb_build_object('database_role', session_user);
  END IF;
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         changes, place, reason, channel, trace_id)
  VALUES (subject ->> 'org_id', assent.new_id(), assent.now(), coalesce(acting ->> 'actor_id', 'system'),
          coalesce(acting ->> 'actor_kind', 'system'),
          ARRAY(SELECT jsonb_array_elements_text(coalesce(acting -> 'actor_roles', '[]'))),
          TG_ARGV[0] || '.' || verb, TG_ARGV[0], subject ->> TG_ARGV[3], details, changed, acting ->> 'place',
          coalesce(acting ->> 'reason', subject ->> 'reason'), coalesce(acting ->> 'channel', 'sql'), acting ->> 'trace_id');
  RETURN NULL;
END
$$;

CREATE TRIGGER orgs_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.orgs FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('org', 'create', 'delete', 'org_id', '', 'name settings');
CREATE TRIGGER members_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.members FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('member', 'create', 'delete', 'user_id', '',
    'kind name email roles manager_id active');
CREATE TRIGGER roles_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.role_capabilities FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('role', 'give', 'take', 'role', '', 'capability');
CREATE TRIGGER api_keys_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.api_keys FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('api_key', 'create', 'delete', 'id', 'user_id prefix',
    'name scopes expires_at revoked_at');
CREATE TRIGGER event_sources_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.event_sources FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('event_source', 'create', 'delete', 'name', 'key_prefix',
    'key_prefix rotated_at');
CREATE TRIGGER effect_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.effect_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('effect_secret', 'create', 'delete', 'id', '', 'retired_at');
CREATE TRIGGER definitions_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_definitions FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('definition', 'create', 'discard', 'id', 'definition_kind key version',
    'name status compiled_hash');
CREATE TRIGGER rules_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_rules FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('rule', 'create', 'delete', 'id', 'entity_type name',
    'action timing condition outcome outcome_json priority enabled');
CREATE TRIGGER delegations_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_delegations FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('delegation', 'create', 'delete', 'id', 'from_user to_user',
    'starts_at ends_at entity_types workflows revoked_at');
CREATE TRIGGER chains_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chains FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain', 'create', 'delete', 'id', 'name', 'entity_type active');
CREATE TRIGGER chain_steps_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chain_steps FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain_step', 'create', 'delete', 'chain_id', 'position',
    'name approvers mode quorum due_seconds');

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.note_commands(jsonb) TO assent_engine;
