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
