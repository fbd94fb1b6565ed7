-- Commands to tasks are in the audit log too: who submitted one, called it off, had it tried again.

CREATE OR REPLACE FUNCTION assent.note_commands(commands jsonb) RETURNS void
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
         entity_type, entity_id, changes, place, reason, channel, instance_id, trace_id)
  SELECT org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         entity_type, entity_id, '{}', place, reason, channel, instance_id, trace_id
    FROM jsonb_to_recordset(commands) AS c (
      org_id text, id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], action text,
      subject_kind text, subject_id text, details jsonb, entity_type text, entity_id uuid, place text, reason text,
      channel text, instance_id uuid, trace_id text);
END
$$;
