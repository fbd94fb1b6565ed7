-- name: claim_due_steps
-- Takes the time off the steps whose time has come, earliest first, and skips those that another worker holds.
WITH due AS (
  SELECT org_id, created_at, id, resume_at FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at <= assent.now()
   ORDER BY resume_at LIMIT $1
   FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE assent.workflow_step_executions s SET resume_at = NULL
    FROM due d
   WHERE s.org_id = d.org_id AND s.created_at = d.created_at AND s.id = d.id
  RETURNING s.org_id, s.instance_id, s.id, s.entity_version, d.resume_at
)
SELECT * FROM claimed ORDER BY resume_at, id;

-- name: find_next_due_step
-- In how many seconds the next step is due, if that is within so many; in index order, so it reads one entry.
SELECT extract(epoch FROM resume_at - assent.now())::float8
  FROM assent.workflow_step_executions
 WHERE status = 'pending' AND resume_at > assent.now() AND resume_at <= assent.now() + make_interval(secs => $1)
 ORDER BY resume_at LIMIT 1;

-- name: find_next_expiry
-- In how many seconds the next instance expires, if that is within so many.
SELECT extract(epoch FROM expires_at - assent.now())::float8
  FROM assent.workflow_instances
 WHERE status = 'running' AND expires_at > assent.now() AND expires_at <= assent.now() + make_interval(secs => $1)
 ORDER BY expires_at LIMIT 1;

-- name: find_expired_instances
-- Running instances whose time is over and that have no event of it yet, earliest first.
SELECT i.org_id, i.id, i.expires_at
  FROM assent.workflow_instances i
 WHERE i.status = 'running' AND i.expires_at <= assent.now()
   AND NOT EXISTS (
     SELECT FROM assent.workflow_events_outbox e
      WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.event_type = 'on_expired'
        -- CASE, because conditions are tried in any order, and others' payloads may hold anything under this name.
        AND CASE WHEN e.event_type = 'on_expired' THEN (e.payload_json ->> 'due')::timestamptz END = i.expires_at)
 ORDER BY i.expires_at, i.org_id, i.id LIMIT $1;

-- name: look_up_by_index
-- Has this transaction join by nested loops over indexes; and not compile plans that only look expensive.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: delete_ended_instances
-- Deletes instances that ended longer ago than their org keeps them, with what is theirs alone.
SELECT instances, steps, events, effects, receipts FROM assent.delete_ended_instances($1::integer);

-- name: prune_receipts
-- Deletes the receipts of instances that ended so many days ago, for some instances at once.
SELECT instances, step_receipts, outbox_receipts
  FROM assent.prune_receipts(assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_events
-- Deletes events that were completed so many days ago, oldest first.
WITH old AS (
  SELECT org_id, created_at, id FROM assent.workflow_events_outbox
   WHERE status = 'completed' AND completed_at < assent.now() - make_interval(days => $1)
   ORDER BY completed_at LIMIT $2
   FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM assent.workflow_events_outbox e
   USING old o WHERE e.org_id = o.org_id AND e.created_at = o.created_at AND e.id = o.id
  RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: prune_effects
-- Deletes effects that were sent so many days ago, oldest first.
SELECT assent.prune_jobs('effect', assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_tasks
-- Deletes tasks that ended so many days ago and are not dead, oldest first.
SELECT assent.prune_jobs('task', assent.now() - make_interval(days => $1), $2::integer);

-- name: prune_rate_starts
-- Deletes starts of tasks that no rate limit counts any more; claims delete those of keys that are still used.
WITH old AS MATERIALIZED (
  SELECT org_id, key, at, task_id FROM assent.rate_starts
   WHERE expires_at < assent.now() - make_interval(days => $1) ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM assent.rate_starts s USING old o
   WHERE s.org_id = o.org_id AND s.key = o.key AND s.at = o.at AND s.task_id = o.task_id RETURNING 1
)
SELECT count(*) FROM deleted;

-- name: delete_ended_tasks
-- Deletes tasks that ended longer ago than their org keeps them.
SELECT assent.delete_ended_tasks($1);

-- name: prune_kept_events
-- Deletes events that no step has waited for in so many days, oldest first.
WITH old AS (
  SELECT org_id, id FROM assent.workflow_kept_events
   WHERE created_at < assent.now() - make_interval(days => $1)
   ORDER BY created_at LIMIT $2
   FOR UPDATE SKIP LOCKED
), pruned AS (
  DELETE FROM assent.workflow_kept_events k USING old o WHERE k.org_id = o.org_id AND k.id = o.id RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: prune_surplus_events
-- Deletes the newest of the events that are kept under one key in one partition beyond so many: a step that waits takes
-- the oldest first.
WITH surplus AS (
  SELECT k.org_id, k.id
    FROM (SELECT org_id, event_key, partition_id FROM assent.workflow_kept_events
           GROUP BY 1, 2, 3 HAVING count(*) > $1) AS full_key
   CROSS JOIN LATERAL (
      SELECT o.org_id, o.id FROM assent.workflow_kept_events o
       WHERE o.org_id = full_key.org_id AND o.event_key = full_key.event_key
         AND o.partition_id IS NOT DISTINCT FROM full_key.partition_id
       ORDER BY o.id OFFSET $1) AS k
   LIMIT $2
), pruned AS (
  DELETE FROM assent.workflow_kept_events k USING surplus s WHERE k.org_id = s.org_id AND k.id = s.id RETURNING 1
)
SELECT count(*) FROM pruned;

-- name: try_lock_compaction
-- Lets one worker at a time compact, until its transaction ends; false when another does.
SELECT pg_try_advisory_xact_lock(hashtextextended('assent.compact', 0));

-- name: compact_steps
-- Reduces the output of one org's next steps of so many months ago to the keys that are kept, moves the others to
-- step_evidence, and notes how far it is.
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
  SELECT s.org_id, s.created_at, s.id, s.instance_id, s.status, s.output_json
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
  RETURNING b.org_id, b.created_at, b.id, b.instance_id, b.output_json - $3::text[] - 'compacted' AS evidence
), evidence AS (
  INSERT INTO assent.step_evidence (org_id, step_created_at, step_id, instance_id, evidence)
  SELECT org_id, created_at, id, instance_id, evidence FROM compacted
), noted AS (
  INSERT INTO assent.step_compactions AS c (org_id, step_created_at, step_id)
  SELECT org_id, created_at, id FROM batch ORDER BY created_at DESC, id DESC LIMIT 1
  ON CONFLICT (org_id) DO UPDATE SET step_created_at = excluded.step_created_at, step_id = excluded.step_id
)
SELECT (SELECT count(*) FROM batch) AS examined, (SELECT count(*) FROM compacted) AS compacted;

-- name: claim_digests
-- The members whose daily digest is due, by the hour of their own day; each day is claimed once. Where the clock is put forward
-- over the hour, it is due right after; where it is put back, the day is claimed already.
WITH due AS MATERIALIZED (
  SELECT p.org_id, p.user_id, l.here::date AS today
    FROM assent.member_preferences p
   CROSS JOIN LATERAL (SELECT assent.now() AT TIME ZONE p.time_zone AS here) AS l
   WHERE p.mails = 'daily' AND p.digested_on < l.here::date AND extract(hour FROM l.here) >= p.digest_hour
   ORDER BY p.org_id, p.user_id LIMIT $1
     FOR UPDATE OF p SKIP LOCKED
)
UPDATE assent.member_preferences p SET digested_on = due.today
  FROM due WHERE p.org_id = due.org_id AND p.user_id = due.user_id
RETURNING p.org_id, p.user_id, due.today;

-- name: list_digest_questions
-- What waits for these members, as their inboxes show it, the oldest first; without what another has claimed.
SELECT p.org_id, p.user_id AS reader, w.kind, w.request_id, w.node_name, w.title, w.entity_type, w.workflow, w.figure,
       w.currency, w.due_at, w.requested_by, w.entity_version
  FROM unnest($1::text[], $2::text[]) AS p (org_id, user_id)
  JOIN assent.members r ON r.org_id = p.org_id AND r.user_id = p.user_id AND r.active
 CROSS JOIN LATERAL (
    SELECT owner.user_id, coalesce(m.active, false) AS present, CASE WHEN m.kind = 'user' THEN m.roles ELSE '{}' END AS roles
      FROM (SELECT p.user_id
            UNION SELECT d.from_user FROM assent.approval_delegations d
                   WHERE d.org_id = p.org_id AND d.to_user = p.user_id AND d.revoked_at IS NULL
                     AND d.starts_at <= assent.now() AND (d.ends_at IS NULL OR d.ends_at > assent.now())) AS owner
      LEFT JOIN assent.members m ON m.org_id = p.org_id AND m.user_id = owner.user_id
    OFFSET 0) AS o
 CROSS JOIN LATERAL (
    SELECT * FROM (
      SELECT * FROM assent.waiting_for(p.org_id, p.user_id, o.user_id, assent.now(), o.present, o.roles)
      UNION ALL SELECT * FROM assent.questions_to(p.org_id, p.user_id, o.user_id, o.present)) AS i
     WHERE i.claimed_by IS NULL OR i.claimed_by = p.user_id
     ORDER BY i.created_at, i.id LIMIT $3) AS w
 ORDER BY p.org_id, p.user_id, w.created_at, w.id;

-- name: forget_closed_incidents
-- An incident that is open no more is forgotten: should it come back, it is a new one.
DELETE FROM assent.alerted_incidents a
 WHERE NOT EXISTS (SELECT FROM assent.incidents i
                    WHERE i.org_id = a.org_id AND i.kind = a.kind AND i.id = a.incident_id);

-- name: add_alert_times
-- A row to lock for each org that wants alerts.
INSERT INTO assent.alert_times (org_id)
SELECT org_id FROM assent.orgs WHERE jsonb_typeof(settings -> 'alert_url') = 'string'
ON CONFLICT DO NOTHING;

-- name: lock_orgs_to_alert
-- Orgs that want alerts, have had none for a minute, and have an incident that none has named; those that another worker has
-- locked are skipped.
SELECT t.org_id, o.settings ->> 'alert_url' AS url
  FROM assent.alert_times t JOIN assent.orgs o ON o.org_id = t.org_id
 WHERE jsonb_typeof(o.settings -> 'alert_url') = 'string' AND t.last_at <= assent.now() - interval '1 minute'
   AND EXISTS (SELECT FROM assent.incidents_to_alert i WHERE i.org_id = t.org_id)
 ORDER BY t.last_at, t.org_id LIMIT $1
   FOR UPDATE OF t SKIP LOCKED;

-- name: mark_incidents
-- The incidents of locked orgs that an alert names now, the oldest first, and that it does.
WITH new AS MATERIALIZED (
  SELECT i.* FROM unnest($1::text[]) AS o (org_id)
   CROSS JOIN LATERAL (
      SELECT * FROM assent.incidents_to_alert a WHERE a.org_id = o.org_id ORDER BY a.since, a.id LIMIT $2) AS i
), marked AS (
  INSERT INTO assent.alerted_incidents (org_id, kind, incident_id) SELECT org_id, kind, id FROM new
  RETURNING org_id, kind, incident_id
), timed AS (
  UPDATE assent.alert_times t SET last_at = assent.now() FROM (SELECT DISTINCT org_id FROM new) AS n WHERE t.org_id = n.org_id
)
SELECT n.* FROM new n JOIN marked m ON m.org_id = n.org_id AND m.kind = n.kind AND m.incident_id = n.id
 ORDER BY n.org_id, n.since, n.id;
