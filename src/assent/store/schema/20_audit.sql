-- The audit log: everything that people do. Changes of entities; commands to workflows, also refused ones; and changes of
-- members, roles, keys, sources, settings, rules, definitions, delegations and chains.
--
-- A row is about a version of an entity, and then write_entities wrote it; or about a subject, and then it was note_commands
-- (workflows), note_refusals or note_administration. assent_engine has no DML on the table, and no function that writes one
-- kind of row for another.

CREATE TABLE assent.audit_log (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  at                timestamptz NOT NULL,       -- when
  actor_id          text        NOT NULL,       -- who
  actor_kind        text        NOT NULL,
  actor_roles       text[]      NOT NULL,
  action            text        NOT NULL,       -- what
  entity_type       text,
  entity_id         uuid,
  from_version      integer,                    -- which version …
  to_version        integer,                    -- … to which
  from_state        text,
  to_state          text,
  subject_kind      text,                       -- instance, event, member, role, …
  subject_id        text,
  details           jsonb,                      -- the input of a command, or what identifies the subject
  changes           jsonb       NOT NULL,       -- field → [before, after]
  place             text,                       -- where: an address, a host
  reason            text,                       -- why
  channel           text        NOT NULL,       -- how: python, http, cli, workflow …
  instance_id       uuid,
  trace_id          text,
  on_behalf_of      text[],                     -- the people that the actor acted for; null: only themselves
  contributors      text[]      NOT NULL DEFAULT '{}', -- the people who contributed the content of this version
  database_role     text        NOT NULL DEFAULT session_user,
  CONSTRAINT audit_log_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT audited_actor_kind_is_known CHECK (actor_kind IN ('user', 'service_account', 'system')),
  CONSTRAINT audited_is_a_version_or_a_subject CHECK (
    CASE WHEN subject_kind IS NULL
         THEN subject_id IS NULL AND details IS NULL AND entity_id IS NOT NULL
              AND to_version IS NOT NULL AND to_state IS NOT NULL
         ELSE subject_id IS NOT NULL AND from_version IS NULL AND to_version IS NULL
              AND from_state IS NULL AND to_state IS NULL END),
  CONSTRAINT audited_entity_has_its_type_or_there_is_none CHECK ((entity_type IS NULL) = (entity_id IS NULL))
);
CREATE INDEX audit_log_by_entity ON assent.audit_log (org_id, entity_id, id);
CREATE INDEX audit_log_by_actor ON assent.audit_log (org_id, actor_id, id);
-- Most actions are rare among those of every day: without this a page of one reads the org's whole log.
CREATE INDEX audit_log_by_action ON assent.audit_log (org_id, action, id);
CREATE INDEX audit_log_by_subject ON assent.audit_log (org_id, subject_id, id) WHERE subject_id IS NOT NULL;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON assent.audit_log
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON assent.audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- An entry is dated by the database, and says with which role its writer signed in: the engine says who acted, and this
-- separates entries of our processes from those of another program that got hold of its role.
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

SELECT assent.guard_by_org('assent.audit_log');
GRANT SELECT ON assent.audit_log TO assent_engine, assent_client;

-- Writes commands that were accepted, each one row, in their own transaction.
CREATE FUNCTION assent.note_commands(commands jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT c ->> 'org_id' FROM jsonb_array_elements(commands) c) AS asked (org);
  PERFORM FROM jsonb_array_elements(commands) c
    WHERE coalesce(c ->> 'subject_kind' NOT IN ('instance', 'event', 'effect', 'result', 'task', 'document', 'requirement',
                                                'attachment', 'comment', 'question', 'verb'), true);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = 'commands are to instances, events, effects, results, tasks, documents, requirements, attachments, comments and questions',
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
GRANT EXECUTE ON FUNCTION assent.note_commands(jsonb) TO assent_engine;

-- Writes commands that were refused, of people who were signed in: who tried what, from where, and the code of the refusal.
-- Nothing of what was sent is kept. Time and id are the database's own, so that nothing is backdated.
CREATE FUNCTION assent.note_refusals(refusals jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT r ->> 'org_id' FROM jsonb_array_elements(refusals) r) AS asked (org);
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         changes, place, reason, channel, trace_id)
  SELECT org_id, assent.new_id(), assent.now(), actor_id, actor_kind, actor_roles, 'command.refused', 'command', command,
         jsonb_build_object('code', code, 'path', path), '{}', place, reason, channel, trace_id
    FROM jsonb_to_recordset(refusals) AS r (
      org_id text, actor_id text, actor_kind text, actor_roles text[], command text, code text, path text, place text,
      reason text, channel text, trace_id text);
END
$$;
GRANT EXECUTE ON FUNCTION assent.note_refusals(jsonb) TO assent_engine;

-- Writes a change of a row that people administer. Its arguments: kind of subject, what an INSERT and a DELETE of it are
-- called, the column that names it, columns that identify it further, columns that are shown before and after. Nothing else
-- of the row is shown, so that a secret stays one. The actor is in assent.acting, which a transaction's first statement sets;
-- where it is not set the actor is the system, and the role that signed in is noted.
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
