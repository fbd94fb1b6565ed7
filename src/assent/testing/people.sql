-- name: put_org
-- The org, with settings on top of those that it has.
INSERT INTO assent.orgs AS o (org_id, name, settings) VALUES ($1, $1, $2::jsonb)
ON CONFLICT (org_id) DO UPDATE SET settings = o.settings || excluded.settings;

-- name: put_members
-- People as they are now; in one statement, so that a person may come before their manager.
INSERT INTO assent.members (org_id, user_id, kind, name, email, roles, manager_id, active)
SELECT $1, user_id, kind, name, email, roles, manager_id, active
  FROM jsonb_to_recordset($2::jsonb) AS m (
    user_id text, kind text, name text, email text, roles text[], manager_id text, active boolean)
ON CONFLICT (org_id, user_id) DO UPDATE
   SET kind = excluded.kind, name = excluded.name, email = excluded.email, roles = excluded.roles, manager_id = excluded.manager_id,
       active = excluded.active, updated_at = assent.now();

-- name: put_role_capabilities
-- What roles may do, besides what they might do already.
INSERT INTO assent.role_capabilities (org_id, role, capability)
SELECT $1, role, capability FROM unnest($2::text[], $3::text[]) AS given (role, capability)
ON CONFLICT DO NOTHING;
