-- name: find_entities_between
-- The entities of an org whose id lies in a range, a few at most.
SELECT id FROM assent.entities WHERE org_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4;
