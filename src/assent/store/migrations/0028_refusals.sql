-- Commands that were refused, of people who were signed in, are in the audit log too: who tried what, from where, and by which
-- code it was refused. Nothing of what was sent is kept. Time and id are the database's own, so that nobody backdates them.

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

REVOKE EXECUTE ON FUNCTION assent.note_refusals(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.note_refusals(jsonb) TO assent_engine;
