-- name: try_lock_compaction
-- Lets one worker at a time compact, until its transaction ends; false when another does.
SELECT pg_try_advisory_xact_lock(hashtextextended('assent.compact', 0));

-- name: compact_steps
-- Reduces the output of one org's next steps of so many months ago to the keys that are kept, and notes how far it is.
WITH RECURSIVE orgs (org_id) AS (
  -- From org to org by the primary key: a DISTINCT would read every instance.
  SELECT min(org_id) FROM assent.workflow_instances
  UNION ALL
  SELECT (SELECT min(i.org_id) FROM assent.workflow_instances i WHERE i.org_id > o.org_id)
    FROM orgs o WHERE o.org_id IS NOT NULL
), turn AS MATERIALIZED (
  SELECT o.org_id, done.created_at, done.id
    FROM orgs o
    LEFT JOIN assent.step_compactions c ON c.org_id = o.org_id
   CROSS JOIN LATERAL (SELECT coalesce(c.step_created_at, '-infinity') AS created_at,
                              coalesce(c.step_id, '00000000-0000-0000-0000-000000000000') AS id) done
   WHERE EXISTS (SELECT FROM assent.workflow_step_executions s
                  WHERE s.org_id = o.org_id AND s.created_at >= done.created_at
                    AND (s.created_at, s.id) > (done.created_at, done.id)
                    AND s.created_at < assent.now() - make_interval(months => $1))
   LIMIT 1
), batch AS MATERIALIZED (
  SELECT s.org_id, s.created_at, s.id, s.status, s.output_json
    FROM turn t
   CROSS JOIN LATERAL (
     SELECT * FROM assent.workflow_step_executions s
      WHERE s.org_id = t.org_id AND s.created_at >= t.created_at AND (s.created_at, s.id) > (t.created_at, t.id)
        AND s.created_at < assent.now() - make_interval(months => $1)
      ORDER BY s.created_at, s.id LIMIT $2) s
), compacted AS (
  UPDATE assent.workflow_step_executions s
     SET output_json = coalesce((SELECT jsonb_object_agg(key, value) FROM jsonb_each(b.output_json)
                                  WHERE key = ANY ($3::text[])), '{}')
                       || jsonb_build_object('compacted', true)
    FROM batch b
   WHERE s.org_id = b.org_id AND s.created_at = b.created_at AND s.id = b.id
     AND b.status IN ('completed', 'failed', 'skipped', 'cancelled')
     AND jsonb_typeof(b.output_json) = 'object' AND b.output_json - $3::text[] - 'compacted' <> '{}'
  RETURNING 1
), noted AS (
  INSERT INTO assent.step_compactions AS c (org_id, step_created_at, step_id)
  SELECT org_id, created_at, id FROM batch ORDER BY created_at DESC, id DESC LIMIT 1
  ON CONFLICT (org_id) DO UPDATE SET step_created_at = excluded.step_created_at, step_id = excluded.step_id
)
SELECT (SELECT count(*) FROM batch) AS examined, (SELECT count(*) FROM compacted) AS compacted;
