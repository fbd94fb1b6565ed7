-- name: load_requests
-- What instances asked people in their present generation, with seats and decisions.
SELECT r.*
  FROM unnest($1::text[], $2::uuid[], $3::integer[]) AS wanted (org_id, instance_id, generation)
 CROSS JOIN LATERAL (
    SELECT * FROM assent.asked_requests o
     WHERE o.org_id = wanted.org_id AND o.instance_id = wanted.instance_id AND o.generation = wanted.generation
    OFFSET 0) AS r
 ORDER BY r.id;

-- name: read_status
-- How a request stands, why, and, to a person who was asked, by which decision it ended: its own, or another of the
-- instance at the same instant.
SELECT r.status, r.reason, d.approver_id, d.on_behalf_of, d.answer, d.node_name
  FROM assent.approval_requests r
  LEFT JOIN LATERAL (
       SELECT d.approver_id, d.on_behalf_of, coalesce(d.outcome, d.decision) AS answer, q.node_name
         FROM assent.approval_requests q
         JOIN assent.approval_decisions d ON d.org_id = q.org_id AND d.request_id = q.id AND d.decided_at = r.decided_at
        WHERE q.org_id = r.org_id AND q.instance_id = r.instance_id AND (q.id = r.id OR r.reason = ANY ($4::text[]))
        ORDER BY q.id = r.id DESC, d.id DESC LIMIT 1) AS d
    ON r.status <> 'pending' AND EXISTS (SELECT FROM assent.workflow_seats s
                                          WHERE s.org_id = r.org_id AND s.request_id = r.id AND s.user_id = $3)
 WHERE r.org_id = $1 AND r.id = $2;

-- name: insert_requests
-- New requests, as they are asked: open.
INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, node_name, may_repeat, token_id,
       generation, slot, entity_type, entity_id, entity_version, snapshot_version_id, content_hash, chain_id, mode,
       approvers, requested_by, originators, partition_id, title, figure, currency, due_at, created_at)
SELECT org_id, id, instance_id, step_id, node_id, node_name, may_repeat, token_id, generation, slot, entity_type,
       entity_id, entity_version, snapshot_version_id, content_hash, chain_id, mode, approvers, requested_by,
       originators, partition_id, title, figure, currency, due_at, created_at
  FROM jsonb_to_recordset($1::jsonb) AS r (
    org_id text, id uuid, instance_id uuid, step_id uuid, node_id text, node_name text, may_repeat boolean, token_id text,
    generation integer, slot text, entity_type text, entity_id uuid, entity_version integer, snapshot_version_id uuid,
    content_hash text, chain_id uuid, mode text, approvers jsonb, requested_by text, originators text[],
    partition_id text, title text, figure numeric, currency text, due_at timestamptz, created_at timestamptz);

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
-- Uses approvals up, each once (WF-03), or raises AS015 with one that was void or consumed before.
WITH wanted AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS w (org_id, id, step_id)
), used AS (
  UPDATE assent.approval_requests r SET applied_at = $4::timestamptz, applied_step_id = wanted.step_id
    FROM wanted
   WHERE r.org_id = wanted.org_id AND r.id = wanted.id AND r.status = 'approved' AND r.applied_at IS NULL
  RETURNING r.id
)
SELECT assent.fail('AS015', format('approval %s was void or consumed before', id), id::text)
  FROM wanted WHERE id NOT IN (SELECT id FROM used) LIMIT 1;

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
-- The newest requests of an instance, whatever their status, with seats, decisions and the versions they are about.
SELECT r.*, v.data AS snapshot, v.state AS snapshot_state
  FROM assent.asked_requests r
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE r.org_id = $1 AND r.instance_id = $2 ORDER BY r.id DESC LIMIT $3;

-- name: read_request
-- One request with its seats and decisions, and the version of the entity that it is about.
SELECT r.*, v.data AS snapshot, v.state AS snapshot_state
  FROM assent.asked_requests r
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE r.org_id = $1 AND r.id = $2;

-- name: find_roles_that_may
-- The roles of orgs that carry a capability, by itself or by a wider one.
SELECT DISTINCT c.org_id, asked.capability, c.role
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (org_id, capability, granted)
  JOIN assent.role_capabilities c ON c.org_id = asked.org_id AND c.capability = asked.granted
 ORDER BY c.role;

-- name: lock_turns
-- Waits until no other transaction is assigning turns of these roles. Locks the role and not rows: a member who had no
-- turn yet has no row.
SELECT pg_advisory_xact_lock(hashtextextended(org_id || ' ' || role, 1))
  FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS asked (org_id, role) ORDER BY 1, 2) AS in_order;

-- name: read_turns
-- When each had a turn last. In a statement of its own, so that it sees what was written while the lock was waited for.
SELECT t.org_id, t.role, t.user_id, t.last_at
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, role)
  JOIN assent.approval_turns t ON t.org_id = asked.org_id AND t.role = asked.role;

-- name: keep_turns
-- Whose turn it was now.
INSERT INTO assent.approval_turns AS t (org_id, role, user_id, last_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[])
ON CONFLICT (org_id, role, user_id) DO UPDATE SET last_at = excluded.last_at;

-- name: find_contributors
-- The people who contributed to the content of entities since the last approval of them that was applied.
SELECT asked.org_id, asked.entity_id, array_agg(DISTINCT a.person) AS people
  FROM unnest($1::text[], $2::uuid[]) AS asked (org_id, entity_id)
 CROSS JOIN LATERAL (
    SELECT coalesce(max(r.entity_version), 0) AS version FROM assent.approval_requests r
     WHERE r.org_id = asked.org_id AND r.entity_id = asked.entity_id AND r.applied_at IS NOT NULL) AS approved
 CROSS JOIN LATERAL (
    SELECT unnest(o.contributors) AS person FROM assent.audit_log o
     WHERE o.org_id = asked.org_id AND o.entity_id = asked.entity_id AND o.to_version > approved.version
    OFFSET 0) AS a
 GROUP BY asked.org_id, asked.entity_id;

-- name: load_forms
-- The open forms of steps, with their seats; neither the schema nor the draft.
SELECT f.org_id, f.id, f.instance_id, f.node_id, f.node_name, f.requested_by, f.created_at, f.label, f.entity_type,
       f.entity_id, f.entity_version, f.partition_id, f.title, f.figure, f.currency, f.answers, f.assignee, f.due_at, f.claimed_by,
       f.claimed_at,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = f.org_id AND s.request_id = f.id) AS seats
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id)
  JOIN assent.workflow_forms f ON f.org_id = wanted.org_id AND f.id = wanted.id
 WHERE f.status = 'open';

-- name: read_form
-- A form as the person who fills it in sees it.
SELECT f.*, i.workflow_id AS workflow,
       (SELECT coalesce(array_agg(s.user_id ORDER BY s.user_id), '{}') FROM assent.workflow_seats s
         WHERE s.org_id = f.org_id AND s.request_id = f.id AND s.status = 'open') AS asked
  FROM assent.workflow_forms f
  JOIN assent.workflow_instances i ON i.org_id = f.org_id AND i.id = f.instance_id
 WHERE f.org_id = $1 AND f.id = $2;

-- name: insert_forms
-- New forms, as they are asked.
INSERT INTO assent.workflow_forms (org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id,
       entity_version, partition_id, title, figure, currency, schema_json, answers, assignee, requested_by, claimed_by,
       claimed_at, due_at, created_at)
SELECT org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id, entity_version, partition_id, title,
       figure, currency, schema_json, answers, assignee, requested_by, claimed_by, claimed_at, due_at, created_at
  FROM jsonb_to_recordset($1::jsonb) AS f (
    org_id text, id uuid, instance_id uuid, node_id text, node_name text, label text, entity_type text, entity_id uuid,
    entity_version integer, partition_id text, title text, figure numeric, currency text, schema_json jsonb, answers text[],
    assignee jsonb, requested_by text, claimed_by text, claimed_at timestamptz, due_at timestamptz,
    created_at timestamptz);

-- name: set_claims_of_forms
-- Who has taken on open forms now.
UPDATE assent.workflow_forms f SET claimed_by = c.claimed_by, claimed_at = c.claimed_at
  FROM jsonb_to_recordset($1::jsonb) AS c (org_id text, id uuid, claimed_by text, claimed_at timestamptz)
 WHERE f.org_id = c.org_id AND f.id = c.id AND f.status = 'open';

-- name: keep_drafts
-- What people have written so far, in place of what they had before.
UPDATE assent.workflow_forms f
   SET draft_json = d.draft_json, draft_by = d.draft_by, draft_at = d.draft_at, draft_problems = d.draft_problems
  FROM jsonb_to_recordset($1::jsonb) AS d (
    org_id text, id uuid, draft_json jsonb, draft_by text, draft_at timestamptz, draft_problems jsonb)
 WHERE f.org_id = d.org_id AND f.id = d.id AND f.status = 'open';

-- name: end_forms
-- Closes the forms of steps that ended, and the seats of those who were asked. An answered form loses its draft;
-- any other form keeps it, so that what was lost can be read.
WITH ended AS (
  UPDATE assent.workflow_forms f
     SET status = e.status, reason = e.reason, ended_at = e.ended_at,
         draft_json = CASE e.status WHEN 'answered' THEN NULL ELSE f.draft_json END,
         draft_by = CASE e.status WHEN 'answered' THEN NULL ELSE f.draft_by END,
         draft_at = CASE e.status WHEN 'answered' THEN NULL ELSE f.draft_at END,
         draft_problems = CASE e.status WHEN 'answered' THEN NULL ELSE f.draft_problems END
    FROM jsonb_to_recordset($1::jsonb) AS e (org_id text, id uuid, status text, reason text, ended_at timestamptz)
   WHERE f.org_id = e.org_id AND f.id = e.id AND f.status = 'open'
  RETURNING f.org_id, f.id, f.ended_at
)
UPDATE assent.workflow_seats s SET status = 'closed', closed_at = ended.ended_at
  FROM ended WHERE s.org_id = ended.org_id AND s.request_id = ended.id AND s.status = 'open';

-- name: put_chain
-- Keeps a chain under its name, new or as it is now, and locks it.
INSERT INTO assent.approval_chains AS c (org_id, id, name, entity_type, active, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (org_id, name) DO UPDATE
   SET entity_type = excluded.entity_type, active = excluded.active, updated_at = excluded.updated_at
RETURNING c.id;

-- name: put_chain_steps
-- The steps of a chain, in the places of those that it had.
INSERT INTO assent.approval_chain_steps (org_id, chain_id, position, name, approvers, mode, quorum, due_seconds)
SELECT $1, $2, position, step ->> 'name', step -> 'approvers', step ->> 'mode', (step ->> 'quorum')::integer,
       (step ->> 'due_seconds')::integer
  FROM jsonb_array_elements($3::jsonb) WITH ORDINALITY AS given (step, position)
ON CONFLICT (org_id, chain_id, position) DO UPDATE
   SET name = excluded.name, approvers = excluded.approvers, mode = excluded.mode, quorum = excluded.quorum,
       due_seconds = excluded.due_seconds;

-- name: drop_chain_steps_after
-- The steps that a chain does not have any more.
DELETE FROM assent.approval_chain_steps WHERE org_id = $1 AND chain_id = $2 AND position > $3;

-- name: list_chains
-- The chains of an org with their steps, by name; one of them where its name is given.
SELECT c.id, c.name, c.entity_type, c.active,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'approvers', s.approvers, 'mode', s.mode,
                 'quorum', s.quorum, 'due_seconds', s.due_seconds) ORDER BY s.position), '[]')
          FROM assent.approval_chain_steps s WHERE s.org_id = c.org_id AND s.chain_id = c.id) AS steps
  FROM assent.approval_chains c WHERE c.org_id = $1 AND ($2::text IS NULL OR c.name = $2)
   AND ($3::text IS NULL OR c.name > $3)
 ORDER BY c.name LIMIT $4::bigint;

-- name: load_active_chains
-- The chains of these names that are in use, with their steps.
SELECT c.org_id, c.id, c.name, c.entity_type, c.active,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'approvers', s.approvers, 'mode', s.mode,
                 'quorum', s.quorum, 'due_seconds', s.due_seconds) ORDER BY s.position), '[]')
          FROM assent.approval_chain_steps s WHERE s.org_id = c.org_id AND s.chain_id = c.id) AS steps
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, name)
  JOIN assent.approval_chains c ON c.org_id = asked.org_id AND c.name = asked.name AND c.active;

-- name: read_evidence
-- Every decision about an entity, or on one request, with the version that was decided on and its status.
SELECT d.id AS decision_id, d.approver_id, d.on_behalf_of, d.decision AS answer, d.outcome, d.reason, d.decided_at,
       s.group_name, s.via, r.id AS request_id, r.instance_id, r.step_id, r.node_id,
       coalesce(r.node_name, r.node_id) AS node_name, r.requested_by, r.created_at AS asked_at, r.status,
       r.reason AS status_reason, r.entity_type, r.entity_id, r.entity_version, r.content_hash, v.data AS snapshot,
       v.data_hash AS snapshot_hash, v.state, v.created_by AS written_by, r.applied_at, r.applied_step_id
  FROM (SELECT * FROM assent.approval_requests WHERE org_id = $1 AND entity_id = $2
        UNION ALL
        SELECT * FROM assent.approval_requests WHERE org_id = $1 AND id = $3) AS r
  JOIN assent.approval_decisions d ON d.org_id = r.org_id AND d.request_id = r.id
  LEFT JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.id = d.seat_id
  LEFT JOIN assent.entity_versions v ON v.org_id = r.org_id AND v.id = r.snapshot_version_id
 WHERE $4::timestamptz IS NULL OR (d.decided_at, d.id) > ($4, $5::uuid)
 ORDER BY d.decided_at, d.id LIMIT $6::bigint;

-- name: use_link_if_unused
-- Marks that a person has decided on a request by a link; null where they did before.
INSERT INTO assent.decision_link_uses (org_id, request_id, user_id) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING RETURNING true;

-- name: is_link_used
-- Whether a person has decided on a request by a link.
SELECT EXISTS (SELECT FROM assent.decision_link_uses WHERE org_id = $1 AND request_id = $2 AND user_id = $3);
