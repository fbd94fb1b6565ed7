-- name: find_org
-- Whether the demo was founded before; null when that was interrupted.
SELECT CASE WHEN NOT EXISTS (SELECT FROM assent.members WHERE org_id = $1) THEN false
            WHEN EXISTS (SELECT FROM assent.orgs WHERE org_id = $1 AND settings ? 'open') THEN true END;

-- name: open_org
-- The org with its settings.
INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (org_id) DO UPDATE SET settings = excluded.settings;

-- name: bring_members
-- Its people, managers first.
INSERT INTO assent.members (org_id, user_id, name, email, roles, manager_id)
SELECT $1, user_id, name, email, roles, manager_id
  FROM jsonb_to_recordset($2::jsonb) AS m (user_id text, name text, email text, roles text[], manager_id text);

-- name: give_rights
-- What their roles may do beside what contracts say.
INSERT INTO assent.role_capabilities (org_id, role, capability)
SELECT $1, role, capability FROM jsonb_to_recordset($2::jsonb) AS c (role text, capability text);

-- name: revoke_keys
-- No key of before signs anybody in.
UPDATE assent.api_keys SET revoked_at = $2 WHERE org_id = $1 AND revoked_at IS NULL;

-- name: give_keys
-- A key for each of them, as its hash.
INSERT INTO assent.api_keys (org_id, id, user_id, name, prefix, key_hash, scopes)
SELECT $1, id, user_id, 'demo', prefix, key_hash, '{*}'
  FROM jsonb_to_recordset($2::jsonb) AS k (id uuid, user_id text, prefix text, key_hash text);

-- name: count_documents
-- How many documents and claims stand where, for the terminal.
SELECT kind, place, count(*) AS number
  FROM (SELECT entity_type AS kind, state AS place FROM assent.entities WHERE org_id = $1
        UNION ALL
        SELECT 'expense claim', CASE status WHEN 'running' THEN current_nodes[1] ELSE status END
          FROM assent.workflow_instances WHERE org_id = $1 AND entity_id IS NULL) AS stands
 GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2;

-- name: find_waiting
-- Who is waited for, and the request of each that has waited longest.
SELECT s.user_id, count(*) AS number, (array_agg(r.id ORDER BY r.created_at))[1] AS request_id,
       (array_agg(r.title ORDER BY r.created_at))[1] AS title
  FROM assent.workflow_seats s JOIN assent.approval_requests r ON r.org_id = s.org_id AND r.id = s.request_id
 WHERE s.org_id = $1 AND s.status = 'open' AND s.kind = 'approval'
 GROUP BY 1 ORDER BY 2 DESC, 1;

-- name: find_examples
-- Documents to try things on: the one with most approvals that is posted, and the newest that waits and is Ann's.
SELECT (SELECT r.entity_id FROM assent.approval_requests r
         WHERE r.org_id = $1 AND r.entity_type = 'invoice' AND r.applied_at IS NOT NULL
         GROUP BY 1 ORDER BY count(*) DESC, min(r.created_at) LIMIT 1) AS posted,
       (SELECT r.id FROM assent.approval_requests r
         WHERE r.org_id = $1 AND r.status = 'pending' AND r.requested_by = 'ann' AND r.entity_id IS NOT NULL
         ORDER BY r.created_at DESC LIMIT 1) AS asked_by_ann;
