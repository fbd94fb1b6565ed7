-- name: emit_events
-- Inserts the events whose receipt is new (WF-11), and wakes the workers once.
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
  RETURNING id
)
SELECT count(*) AS written, pg_notify('assent_events', '') FROM written HAVING count(*) > 0;
