-- name: emit_events
-- Inserts the events whose receipt is new (WF-11), and wakes the workers once. The notification names the instances, where
-- they are few and each event has one: so a worker need not search.
WITH incoming AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, created_at timestamptz, instance_id uuid, receipt_instance_id uuid, entity_version integer,
    event_type text, payload jsonb, key text, trace_id text)
), fresh AS (
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  SELECT org_id, receipt_instance_id, 'events', key, created_at FROM incoming
  ON CONFLICT DO NOTHING
  RETURNING org_id, instance_id, event_idempotency_key
), written AS (
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, entity_version, event_type,
         payload_json, event_idempotency_key, trace_id)
  SELECT i.org_id, i.created_at, i.id, i.instance_id, i.entity_version, i.event_type, i.payload, i.key, i.trace_id
    FROM incoming i
    JOIN fresh f ON f.org_id = i.org_id AND f.instance_id = i.receipt_instance_id AND f.event_idempotency_key = i.key
  RETURNING org_id, instance_id
)
SELECT count(*) AS written,
       -- A payload has less than 8,000 bytes, and JSON may need six for one of a name.
       pg_notify('assent_events', CASE WHEN count(*) <= 16 AND bool_and(instance_id IS NOT NULL) AND sum(octet_length(org_id)) <= 1000
                                  THEN jsonb_agg(DISTINCT jsonb_build_array(org_id, instance_id))::text ELSE '' END)
  FROM written HAVING count(*) > 0;
