-- name: load_requests
-- What instances asked people in their present generation, with seats and decisions.
SELECT r.*,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM unnest($1::text[], $2::uuid[], $3::integer[]) AS wanted (org_id, instance_id, generation)
 CROSS JOIN LATERAL (
    SELECT * FROM assent.approval_requests o
     WHERE o.org_id = wanted.org_id AND o.instance_id = wanted.instance_id AND o.generation = wanted.generation
    OFFSET 0) AS r
 ORDER BY r.id;

-- name: read_status
-- How a request stands, and why.
SELECT status, reason FROM assent.approval_requests WHERE org_id = $1 AND id = $2;

-- name: insert_requests
-- New requests, as they are asked: open.
INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, node_name, may_repeat, token_id,
       generation, slot, entity_type, entity_id, entity_version, snapshot_version_id, content_hash, chain_id, mode,
       approvers, requested_by, originators, partition_id, title, figure, due_at, created_at)
SELECT org_id, id, instance_id, step_id, node_id, node_name, may_repeat, token_id, generation, slot, entity_type,
       entity_id, entity_version, snapshot_version_id, content_hash, chain_id, mode, approvers, requested_by,
       originators, partition_id, title, figure, due_at, created_at
  FROM jsonb_to_recordset($1::jsonb) AS r (
    org_id text, id uuid, instance_id uuid, step_id uuid, node_id text, node_name text, may_repeat boolean, token_id text,
    generation integer, slot text, entity_type text, entity_id uuid, entity_version integer, snapshot_version_id uuid,
    content_hash text, chain_id uuid, mode text, approvers jsonb, requested_by text, originators text[],
    partition_id text, title text, figure numeric, due_at timestamptz, created_at timestamptz);

-- name: update_requests_if_live
-- How requests stand now. One that an edit has made void meanwhile, or a gate has consumed, stays as it is.
UPDATE assent.approval_requests r
   SET status = u.status, reason = u.reason, applied_at = u.applied_at, applied_step_id = u.applied_step_id,
       decided_at = u.decided_at, claimed_by = u.claimed_by, claimed_at = u.claimed_at, originators = u.originators
  FROM jsonb_to_recordset($1::jsonb) AS u (
    org_id text, id uuid, status text, reason text, applied_at timestamptz, applied_step_id uuid, decided_at timestamptz,
    claimed_by text, claimed_at timestamptz, originators text[])
 WHERE r.org_id = u.org_id AND r.id = u.id AND r.status IN ('pending', 'approved') AND r.applied_at IS NULL;

-- name: insert_decisions
-- What people answered.
INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, on_behalf_of, decision, outcome,
       reason, entity_version, decided_at)
SELECT org_id, id, request_id, seat_id, approver_id, on_behalf_of, decision, outcome, reason, entity_version, decided_at
  FROM jsonb_to_recordset($1::jsonb) AS d (
    org_id text, id uuid, request_id uuid, seat_id uuid, approver_id text, on_behalf_of text, decision text,
    outcome text, reason text, entity_version integer, decided_at timestamptz);

-- name: consume_requests
-- Uses approvals up, each once (WF-03); what does not come back was void or consumed before.
UPDATE assent.approval_requests r SET applied_at = $4, applied_step_id = wanted.step_id
  FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS wanted (org_id, id, step_id)
 WHERE r.org_id = wanted.org_id AND r.id = wanted.id AND r.status = 'approved' AND r.applied_at IS NULL
RETURNING r.id;

-- name: mark_steps_applied
-- The steps whose approvals were consumed say so.
UPDATE assent.workflow_step_executions s SET applied = true
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) AS used (org_id, created_at, id)
 WHERE s.org_id = used.org_id AND s.created_at = used.created_at AND s.id = used.id;

-- name: put_seats
-- New seats, and how the others stand now; a seat that is decided or closed stays so.
INSERT INTO assent.workflow_seats AS s (org_id, id, kind, request_id, instance_id, user_id, group_name, position, via,
       status, email, replaces_id, note, created_at, closed_at)
SELECT org_id, id, kind, request_id, instance_id, user_id, group_name, position, via, status, email, replaces_id,
       note, created_at, closed_at
  FROM jsonb_to_recordset($1::jsonb) AS n (
    org_id text, id uuid, kind text, request_id uuid, instance_id uuid, user_id text, group_name text,
    position integer, via text, status text, email text, replaces_id uuid, note text,
    created_at timestamptz, closed_at timestamptz)
ON CONFLICT (org_id, id) DO UPDATE SET status = excluded.status, closed_at = excluded.closed_at, note = excluded.note
 WHERE s.status IN ('later', 'open');

-- name: find_requests_between
-- The requests of an org whose id lies in a range, a few at most.
SELECT id FROM assent.approval_requests WHERE org_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4;

-- name: list_requests_of_instance
-- The newest requests of an instance, whatever became of them, with seats, decisions and the versions they are about.
SELECT r.*, v.data AS snapshot, v.state AS snapshot_state,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM assent.approval_requests r
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE r.org_id = $1 AND r.instance_id = $2 ORDER BY r.id DESC LIMIT $3;

-- name: read_request
-- One request with its seats and decisions, and the version of the entity that it is about.
SELECT r.*, v.data AS snapshot, v.state AS snapshot_state,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM assent.approval_requests r
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE r.org_id = $1 AND r.id = $2;
