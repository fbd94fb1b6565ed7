-- name: enqueue_effects
-- Inserts the effects whose receipt is new (WF-11), and wakes the workers once.
WITH incoming AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, instance_id uuid, step_id uuid, step_created_at timestamptz, type text,
    payload jsonb, key text, destination text, awaited boolean, retry_ambiguous boolean, max_attempts integer,
    trace_id text)
), fresh AS (
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  SELECT org_id, instance_id, 'side_effects', key, assent.now() FROM incoming
  ON CONFLICT DO NOTHING
  RETURNING org_id, instance_id, event_idempotency_key
), written AS (
  INSERT INTO assent.workflow_side_effects_outbox (org_id, created_at, id, instance_id, step_id,
         step_created_at, effect_type, payload_json, event_idempotency_key, destination, awaited, retry_ambiguous,
         max_attempts, trace_id)
  SELECT i.org_id, assent.now(), i.id, i.instance_id, i.step_id, i.step_created_at, i.type, i.payload, i.key,
         i.destination, i.awaited, i.retry_ambiguous, i.max_attempts, i.trace_id
    FROM incoming i
    JOIN fresh f ON f.org_id = i.org_id AND f.instance_id = i.instance_id AND f.event_idempotency_key = i.key
  RETURNING id
)
SELECT count(*) AS written, pg_notify('assent_effects', '') FROM written HAVING count(*) > 0;

-- name: find_destinations
-- Where effects wait to be sent, org by org, from a place on: each costs a look into the index, however many wait there.
WITH RECURSIVE place AS (
  (SELECT org_id, destination, 1 AS n FROM assent.workflow_side_effects_outbox
    WHERE status IN ('pending', 'failed') AND (org_id, destination) > ($1, $2)
    ORDER BY org_id, destination LIMIT 1)
  UNION ALL
  SELECT following.org_id, following.destination, place.n + 1
    FROM place CROSS JOIN LATERAL (
      SELECT e.org_id, e.destination FROM assent.workflow_side_effects_outbox e
       WHERE e.status IN ('pending', 'failed') AND (e.org_id, e.destination) > (place.org_id, place.destination)
       ORDER BY e.org_id, e.destination LIMIT 1) AS following
   WHERE place.n < $3
)
SELECT org_id, destination FROM place;

-- name: prepare_claim
-- Has this transaction look rows up one by one, by index, and by plans that are made once: with a partition for each
-- month, planning a claim anew takes ten times as long as the claim. It is ended after a few seconds in which its client says
-- nothing: a worker that is stopped inside of it keeps the others from claiming no longer.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('idle_in_transaction_session_timeout', $1, true);

-- name: find_suspect_place
-- The org and destination of the suspect that is due first.
SELECT org_id, destination FROM assent.workflow_side_effects_outbox
 WHERE status IN ('pending', 'failed') AND suspect AND coalesce(next_retry_at, created_at) <= assent.now()
 ORDER BY coalesce(next_retry_at, created_at), id LIMIT 1;

-- name: lock_claims
-- One claim at a time: whoever counts how much is under way to a destination must know of every claim before.
SELECT pg_advisory_xact_lock(hashtextextended('assent.effects', 3));

-- name: claim_effects
-- Claims effects that are due for a worker, no more for a destination than it may have under way, and of every org one
-- before anybody's second; suspects, or those that are none; with what is needed to send them.
WITH busy AS (
  SELECT destination, count(*) AS number FROM assent.workflow_side_effects_outbox
   WHERE status = 'processing' GROUP BY destination
), place AS (
  SELECT p.org_id, p.destination, $4::integer - coalesce(b.number, 0) AS room
    FROM unnest($1::text[], $2::text[]) AS p (org_id, destination) LEFT JOIN busy b USING (destination)
), due AS (
  SELECT found.*, place.room FROM place CROSS JOIN LATERAL (
    SELECT e.org_id, e.created_at, e.id, e.destination, coalesce(e.next_retry_at, e.created_at) AS due_at,
           row_number() OVER (ORDER BY coalesce(e.next_retry_at, e.created_at), e.id) AS rank
      FROM assent.workflow_side_effects_outbox e
     WHERE e.org_id = place.org_id AND e.destination = place.destination AND e.status IN ('pending', 'failed')
       AND coalesce(e.next_retry_at, e.created_at) <= assent.now() AND e.suspect = $6
     ORDER BY coalesce(e.next_retry_at, e.created_at), e.id LIMIT greatest(place.room, 0)) AS found
), turn AS (
  SELECT *, row_number() OVER (PARTITION BY org_id ORDER BY rank, due_at, id) AS turn FROM due
), seat AS (
  SELECT *, row_number() OVER (PARTITION BY destination ORDER BY turn, due_at, id) AS seat FROM turn
), chosen AS MATERIALIZED (
  SELECT org_id, created_at, id FROM seat WHERE seat <= room ORDER BY turn, due_at, id LIMIT $3
), claimed AS (
  UPDATE assent.workflow_side_effects_outbox e SET status = 'processing', attempts = e.attempts + 1, worker_id = $5
    FROM chosen c
   -- Said so that the index of what waits does not fit: it would be read from its beginning for each.
   WHERE e.org_id = c.org_id AND e.created_at = c.created_at AND e.id = c.id
     AND e.status NOT IN ('processing', 'completed', 'dead_letter')
  RETURNING e.*
)
SELECT c.org_id, c.created_at, c.id, c.instance_id, c.step_id, c.step_created_at,
       c.effect_type AS type, c.payload_json AS payload, c.event_idempotency_key AS key, c.destination, c.awaited,
       c.retry_ambiguous, c.attempts, c.max_attempts, c.trace_id,
       CASE WHEN c.suspect THEN c.losses ELSE 0 END AS losses, m.email AS member_email,
       (SELECT coalesce(array_agg(s.secret ORDER BY s.created_at DESC, s.id DESC), '{}') FROM assent.effect_secrets s
         WHERE s.org_id = c.org_id AND s.retired_at IS NULL AND c.effect_type = 'webhook') AS secrets,
       (SELECT jsonb_agg(jsonb_build_object('name', n.name, 'value', n.value, 'hosts', n.hosts))
          FROM assent.named_secrets n
         WHERE c.effect_type = 'webhook' AND c.payload_json ? 'secrets' AND n.org_id = c.org_id
           AND n.name IN (SELECT jsonb_array_elements_text(c.payload_json -> 'secrets'))) AS named_secrets
  FROM claimed c
  LEFT JOIN assent.members m
    ON m.org_id = c.org_id AND m.user_id = coalesce(nullif(c.payload_json ->> 'to', ''), c.payload_json ->> 'user')
   AND m.active AND c.effect_type = 'email';

-- name: settle_effects
-- Writes down what became of attempts. A worker that sent one says so also when its lease was over meanwhile; a failure is
-- written only if the worker still has the effect for that attempt. What did not kill its worker is no suspect any more.
WITH marks AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS m (
    org_id text, created_at timestamptz, id uuid, attempts integer, status text, retry_after_s double precision,
    error text, ambiguous boolean, evidence jsonb)
), settled AS (
  UPDATE assent.workflow_side_effects_outbox e
     SET status = m.status, next_retry_at = assent.now() + make_interval(secs => m.retry_after_s),
         completed_at = CASE m.status WHEN 'completed' THEN assent.now() END, error = m.error,
         ambiguous = e.ambiguous OR m.ambiguous, worker_id = NULL, suspect = false,
         response_json = m.evidence || jsonb_build_object('at', assent.now())
    FROM marks m
   WHERE e.org_id = m.org_id AND e.created_at = m.created_at AND e.id = m.id
     AND (e.status = 'processing' AND e.attempts = m.attempts AND e.worker_id = $2
          OR m.status = 'completed' AND e.status IN ('processing', 'pending', 'failed'))
  RETURNING e.org_id, e.id, e.step_id, e.step_created_at, e.status, e.response_json
), ended AS (
  SELECT org_id, step_created_at, step_id, jsonb_object_agg(id::text, response_json) AS evidence
    FROM settled WHERE status IN ('completed', 'dead_letter') GROUP BY 1, 2, 3
), shown AS (
  UPDATE assent.workflow_step_executions s
     SET output_json = coalesce(s.output_json, '{}')
                       || jsonb_build_object('evidence', coalesce(s.output_json -> 'evidence', '{}') || d.evidence)
    FROM ended d
   WHERE s.org_id = d.org_id AND s.created_at = d.step_created_at AND s.id = d.step_id
)
SELECT id, assent.now() AS now FROM settled;

-- name: clear_suspects_if_claimed
-- These attempts have been under way for a while without harm, and are no suspects any more.
UPDATE assent.workflow_side_effects_outbox e SET suspect = false
  FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS m (org_id, id, attempt)
 WHERE e.status = 'processing' AND e.worker_id = $1 AND e.org_id = m.org_id AND e.id = m.id AND e.attempts = m.attempt
RETURNING e.id;

-- name: give_back_unknown
-- Gives back the effects that are recorded as claimed by this worker and that it does not know to be under way: the answer
-- to its claim was lost, and they were never sent. The attempt does not count.
WITH given AS (
  UPDATE assent.workflow_side_effects_outbox e SET status = 'pending', attempts = e.attempts - 1, worker_id = NULL
   WHERE e.status = 'processing' AND e.worker_id = $1
     AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::uuid[], $4::integer[]) AS known (org_id, id, attempt)
                      WHERE known.org_id = e.org_id AND known.id = e.id AND known.attempt = e.attempts)
  RETURNING e.id
)
SELECT count(*) AS given, CASE WHEN count(*) > 0 THEN pg_notify('assent_effects', '') END FROM given;

-- name: rescue_effects
-- Puts effects back whose worker's lease is over. Nobody knows whether they were sent: what must not be sent twice is a dead
-- letter, and its step shows that as evidence. One that its worker had by itself, or as a suspect, has used an attempt, and
-- without attempts left it is a dead letter too. The others are suspects, due at once, and the attempt does not count.
WITH lost AS MATERIALIZED (
  SELECT e.org_id, e.created_at, e.id, e.suspect OR w.jobs = 1 AS charged
    FROM unnest($1::uuid[], $2::integer[]) AS w (worker_id, jobs)
    JOIN assent.workflow_side_effects_outbox e ON e.worker_id = w.worker_id AND e.status = 'processing'
   LIMIT $3 FOR UPDATE OF e SKIP LOCKED
), rescued AS (
  UPDATE assent.workflow_side_effects_outbox e
     SET status = CASE WHEN e.retry_ambiguous AND (e.attempts < e.max_attempts OR NOT l.charged) THEN 'pending'
                       ELSE 'dead_letter' END,
         error = format('its worker took it at %s and did not finish', e.claimed_at), worker_id = NULL, ambiguous = true,
         max_attempts = CASE WHEN l.charged THEN e.max_attempts ELSE e.max_attempts + 1 END,
         losses = e.losses + 1, suspect = true,
         next_retry_at = CASE WHEN l.charged THEN assent.now() + least(300, 2 ^ e.losses - 1) * interval '1 second' END
    FROM lost l
   WHERE e.org_id = l.org_id AND e.created_at = l.created_at AND e.id = l.id
  RETURNING e.org_id, e.id, e.instance_id, e.step_id, e.step_created_at, e.status, e.awaited, e.error,
            e.attempts, e.trace_id, assent.now() AS now,
            CASE WHEN e.effect_type = 'webhook' THEN (e.payload_json ->> 'request')::uuid END AS request_id
), given_up AS (
  SELECT org_id, step_created_at, step_id, jsonb_object_agg(id::text, jsonb_build_object('outcome', status,
           'attempt', attempts, 'at', assent.now(), 'error', error, 'ambiguous', true)) AS evidence
    FROM rescued WHERE status = 'dead_letter' GROUP BY 1, 2, 3
), shown AS (
  UPDATE assent.workflow_step_executions s
     SET output_json = coalesce(s.output_json, '{}')
                       || jsonb_build_object('evidence', coalesce(s.output_json -> 'evidence', '{}') || d.evidence)
    FROM given_up d
   WHERE s.org_id = d.org_id AND s.created_at = d.step_created_at AND s.id = d.step_id
), notified AS (
  SELECT pg_notify('assent_effects', '') FROM rescued WHERE status = 'pending' LIMIT 1
)
SELECT r.*, (SELECT count(*) FROM notified) AS notifications FROM rescued r;

-- name: list_dead_effects
-- What was given up, newest first.
SELECT org_id, created_at, id, instance_id, step_id, effect_type AS type, destination, awaited,
       ambiguous, attempts, error, response_json AS evidence, trace_id
  FROM assent.workflow_side_effects_outbox
 WHERE org_id = $1 AND status = 'dead_letter' AND ($2::text IS NULL OR destination = $2)
 ORDER BY created_at DESC, id DESC LIMIT $3;

-- name: revive_effects
-- Puts dead letters back, one or all of a destination or of the org, with all their attempts, and wakes the workers. For
-- one that was awaited nobody waits any more; its step is what is tried again.
WITH revived AS (
  UPDATE assent.workflow_side_effects_outbox
     SET status = 'pending', attempts = 0, error = NULL, next_retry_at = NULL, ambiguous = false
   WHERE org_id = $1 AND status = 'dead_letter' AND NOT awaited
     AND ($2::uuid IS NULL OR id = $2) AND ($3::text IS NULL OR destination = $3)
  RETURNING id
)
SELECT count(*) AS revived, CASE WHEN count(*) > 0 THEN pg_notify('assent_effects', '') END FROM revived;

-- name: find_dead_effect
-- Whether this dead letter is there, and was awaited.
SELECT awaited FROM assent.workflow_side_effects_outbox WHERE org_id = $1 AND id = $2 AND status = 'dead_letter';
