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
