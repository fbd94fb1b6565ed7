-- What programs in any language can ask of us in SQL, in a transaction of their own.

-- Tells whoever waits for a key, or will, that it has come (D32); false when this cause has told it before (WF-11).
-- It runs as whoever calls it, for the org of the transaction (`assent.org_id`), under row security.
CREATE FUNCTION assent.emit_event(key text, data jsonb DEFAULT NULL, cause text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  org text := assent.org_id();
  event_id uuid := gen_random_uuid();
  told text := coalesce(cause, event_id::text);
  receipt text;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF coalesce(assent.is_blank(key), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs a key', DETAIL = format('Found %L.', key);
  END IF;
  IF assent.is_blank(cause) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the cause of an event is not blank',
      DETAIL = format('Found %L.', cause), HINT = 'Leave it out where there is none.';
  END IF;
  -- As assent.model.ids.arrival_key makes it: an event is its key and its cause, by whichever way it comes.
  receipt := encode(sha256(convert_to(
    format('7:arrival0:%s:%s%s:%s', length(key), key, length(told), told), 'UTF8')), 'hex');
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  VALUES (org, '00000000-0000-0000-0000-000000000000', 'events', receipt, assent.now())
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, event_type, payload_json, event_idempotency_key)
  VALUES (org, assent.now(), event_id, 'on_event', jsonb_build_object('cause', told, 'key', key, 'data', data), receipt);
  PERFORM pg_notify('assent_events', '');
  RETURN true;
END
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.emit_event(text, jsonb, text) TO assent_engine;
