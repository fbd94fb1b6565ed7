-- name: load_forms
-- The open forms of steps, with their seats; neither the schema nor the draft.
SELECT f.org_id, f.id, f.instance_id, f.node_id, f.node_name, f.requested_by, f.created_at, f.label, f.entity_type,
       f.entity_id, f.entity_version, f.partition_id, f.title, f.figure, f.answers, f.assignee, f.due_at, f.claimed_by,
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
       entity_version, partition_id, title, figure, schema_json, answers, assignee, requested_by, claimed_by,
       claimed_at, due_at, created_at)
SELECT org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id, entity_version, partition_id, title,
       figure, schema_json, answers, assignee, requested_by, claimed_by, claimed_at, due_at, created_at
  FROM jsonb_to_recordset($1::jsonb) AS f (
    org_id text, id uuid, instance_id uuid, node_id text, node_name text, label text, entity_type text, entity_id uuid,
    entity_version integer, partition_id text, title text, figure numeric, schema_json jsonb, answers text[],
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
