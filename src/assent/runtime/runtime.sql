-- name: lock_instances
-- Waits for each instance's lock, in the order of their ids (WF-01, D11).
SELECT pg_advisory_xact_lock(hashtextextended(id::text, 0))
  FROM (SELECT DISTINCT unnest($1::uuid[]) AS id ORDER BY 1) AS wanted;

-- name: try_lock_instances
-- Takes the locks of those instances that are free, and returns which.
SELECT id FROM (SELECT DISTINCT unnest($1::uuid[]) AS id ORDER BY 1) AS wanted
 WHERE pg_try_advisory_xact_lock(hashtextextended(id::text, 0));

-- name: load_instances
-- Instances by id, as far as they are there, with what is pending for those that get a command (D18), and whether
-- they have asked people in their present generation. The first of each org also tells what the org is set to, and
-- whether people of it stand in for each other.
SELECT wanted.org_id AS wanted_org, wanted.id AS wanted_id, i.*,
       CASE WHEN wanted.drains THEN ARRAY(
         SELECT e FROM assent.workflow_events_outbox e
          WHERE e.org_id = wanted.org_id AND e.instance_id = wanted.id AND e.status NOT IN ('completed', 'dead', 'processing')
          ORDER BY e.created_at, e.id) END AS pending,
       EXISTS (SELECT FROM assent.approval_requests r
                WHERE r.org_id = i.org_id AND r.instance_id = i.id AND r.generation = i.generation) AS has_asked,
       CASE WHEN wanted.tells THEN (
         SELECT o.settings FROM assent.orgs o WHERE o.org_id = wanted.org_id) END AS settings,
       CASE WHEN wanted.tells THEN EXISTS (
         SELECT FROM assent.approval_delegations d
          WHERE d.org_id = wanted.org_id AND d.revoked_at IS NULL) END AS has_delegations
  FROM unnest($1::text[], $2::uuid[], $3::boolean[], $4::boolean[]) AS wanted (org_id, id, drains, tells)
 -- OFFSET 0 keeps it a look-up for each, whatever the statistics say: a hash of all instances is no plan of ours.
  LEFT JOIN LATERAL (
    SELECT * FROM assent.workflow_instances o WHERE o.org_id = wanted.org_id AND o.id = wanted.id OFFSET 0) AS i ON true;

-- name: open_targets
-- The instances that commands are for, by what they name, with their locks (WF-01) and all that is read of them.
SELECT * FROM assent.open_targets($1::text, $2::text[], $3::uuid[], $4::text[], $5::boolean);

-- name: open_targets_of_orgs
-- The same for commands of several orgs, each org's under its own row security; locks that are not free are left.
SELECT * FROM assent.open_targets_of_orgs($1::text[], $2::text[], $3::uuid[], $4::text[]);

-- name: take_start_keys
-- Takes the keys of starts whose instances' locks are held, and returns those that were taken before: what they were
-- taken for, and whether the instance is still there. The answer does not see what this statement takes.
WITH wanted AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::text[]) AS w (org_id, key, instance_id, request_hash)
), taken AS (
  INSERT INTO assent.workflow_start_keys (org_id, key, instance_id, request_hash) SELECT * FROM wanted
  ON CONFLICT DO NOTHING
)
SELECT k.instance_id, k.request_hash, EXISTS (
         SELECT FROM assent.workflow_instances i WHERE i.org_id = k.org_id AND i.id = k.instance_id) AS is_there
  FROM wanted w JOIN assent.workflow_start_keys k ON k.org_id = w.org_id AND k.key = w.key;

-- name: find_busy_entities
-- Tries the locks of the instances that entities belong to, and returns which entities another transaction has locked (D28).
SELECT e.id FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, id) JOIN assent.entities e USING (org_id, id)
 WHERE e.instance_id IS NOT NULL AND NOT pg_try_advisory_xact_lock(hashtextextended(e.instance_id::text, 0));

-- name: find_signed_keys
-- Those of these keys, each of its org, that belong to a source of signed events.
SELECT DISTINCT asked.org_id, asked.key
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, key)
  JOIN assent.event_sources s ON s.org_id = asked.org_id AND starts_with(asked.key, s.key_prefix);

-- name: load_rules_by_name
-- The enabled rules of some orgs, for `rule` nodes.
SELECT org_id, id, name, entity_type, timing, condition, outcome, outcome_json
  FROM assent.workflow_rules WHERE org_id = ANY ($1::text[]) AND name = ANY ($2::text[]) AND enabled;

-- name: take_receipts
-- Permits what was never done before (WF-02, WF-14, WF-16), or raises AS014 with the first step whose receipt was taken.
WITH wanted AS MATERIALIZED (
  SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::uuid[]) AS w (org_id, instance_id, key, step_id)
), taken AS (
  INSERT INTO assent.workflow_step_receipts (org_id, instance_id, idempotency_key, step_id, created_at)
  SELECT org_id, instance_id, key, step_id, $5::timestamptz FROM wanted
  ON CONFLICT DO NOTHING
  RETURNING step_id
)
SELECT assent.fail('AS014', 'a receipt was taken before', step_id::text)
  FROM wanted WHERE step_id NOT IN (SELECT step_id FROM taken) LIMIT 1;

-- name: insert_steps
-- New steps, for the engine's role, which may not COPY under row security.
INSERT INTO assent.workflow_step_executions (org_id, created_at, id, instance_id, node_id, node_type, token_id,
       entity_version, status, run_as, idempotency_key, started_at, completed_at, duration_ms, input_json, output_json,
       error, actor_user_id, resume_at, waiting_for_event_key, approval_request_id, snapshot_version_id)
SELECT org_id, created_at, id, instance_id, node_id, node_type, token_id, entity_version, status, run_as,
       idempotency_key, started_at, completed_at, duration_ms, input_json, output_json, error, actor_user_id, resume_at,
       waiting_for_event_key, approval_request_id, snapshot_version_id
  FROM jsonb_to_recordset($1::jsonb) AS s (
    org_id text, created_at timestamptz, id uuid, instance_id uuid, node_id text, node_type text, token_id text,
    entity_version integer, status text, run_as text, idempotency_key text, started_at timestamptz,
    completed_at timestamptz, duration_ms bigint, input_json jsonb, output_json jsonb, error text, actor_user_id text,
    resume_at timestamptz, waiting_for_event_key text, approval_request_id uuid, snapshot_version_id uuid);

-- name: set_times_of_steps
-- The next time that something is due at steps which rest on.
UPDATE assent.workflow_step_executions s SET resume_at = u.resume_at
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[], $4::timestamptz[]) AS u (org_id, created_at, id, resume_at)
 WHERE s.org_id = u.org_id AND s.created_at = u.created_at AND s.id = u.id AND s.status = 'pending';

-- name: end_steps
-- Ends resting steps with their results; evidence of what they sent meanwhile stays, and why people were asked.
UPDATE assent.workflow_step_executions s
   SET status = e.status, completed_at = e.completed_at, error = e.error, applied = coalesce(e.applied, s.applied),
       output_json = CASE WHEN s.output_json ? 'evidence' THEN jsonb_build_object('evidence', s.output_json -> 'evidence')
                     ELSE '{}' END
                  || CASE WHEN s.output_json ? 'expressions'
                     THEN jsonb_build_object('expressions', s.output_json -> 'expressions') ELSE '{}' END
                  || e.output_json,
       duration_ms = round(extract(epoch FROM e.completed_at - s.created_at) * 1000), resume_at = NULL
  FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, created_at timestamptz, id uuid, status text, completed_at timestamptz, output_json jsonb, error text,
    applied boolean)
 WHERE s.org_id = e.org_id AND s.created_at = e.created_at AND s.id = e.id AND s.status IN ('pending', 'running');

-- name: insert_instances
-- New instances.
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
       entity_type, entity_id, entity_version, partition_id, subject_id, status, active_tokens, current_nodes,
       context_json, version, generation, chain_length, incident, originators, idempotency_key, last_step_id,
       started_at, updated_at, completed_at, expires_at)
SELECT org_id, id, definition_id, definition_version, definition_hash, workflow_id, entity_type, entity_id,
       entity_version, partition_id, subject_id, status, active_tokens, current_nodes, context_json, version, generation,
       chain_length, incident, originators, idempotency_key, last_step_id, started_at, updated_at, completed_at,
       expires_at
  FROM jsonb_to_recordset($1::jsonb) AS i (
    org_id text, id uuid, definition_id uuid, definition_version integer, definition_hash text, workflow_id text,
    entity_type text, entity_id uuid, entity_version integer, partition_id text, subject_id text, status text,
    active_tokens jsonb, current_nodes text[], context_json jsonb, version integer, generation integer,
    chain_length integer, incident jsonb, originators jsonb, idempotency_key text, last_step_id uuid, started_at timestamptz,
    updated_at timestamptz, completed_at timestamptz, expires_at timestamptz);

-- name: update_instances_if_unchanged
-- The projection after its steps; raises an error where an instance moved on meanwhile.
WITH done AS (
UPDATE assent.workflow_instances i
   SET status = u.status, active_tokens = u.active_tokens, current_nodes = u.current_nodes,
       context_json = coalesce(u.context_json, i.context_json), version = u.version, generation = u.generation,
       chain_length = u.chain_length, incident = u.incident, originators = u.originators,
       entity_version = u.entity_version,
       last_step_id = coalesce(u.last_step_id, i.last_step_id),
       definition_id = u.definition_id, definition_version = u.definition_version, definition_hash = u.definition_hash,
       updated_at = u.updated_at, completed_at = u.completed_at
  FROM jsonb_to_recordset($1::jsonb) AS u (
    org_id text, id uuid, from_version integer, status text, active_tokens jsonb, current_nodes text[],
    context_json jsonb, version integer, generation integer, chain_length integer, incident jsonb,
    originators jsonb, entity_version integer, last_step_id uuid, definition_id uuid, definition_version integer,
    definition_hash text, updated_at timestamptz, completed_at timestamptz)
 WHERE i.org_id = u.org_id AND i.id = u.id AND i.version = u.from_version
RETURNING 1
)
SELECT assent.fail('40001', 'an instance moved on although its lock was held',
                   format('%s of %s instances were unchanged', count(*), jsonb_array_length($1::jsonb)))
  FROM done HAVING count(*) <> jsonb_array_length($1::jsonb);

-- name: begin_ends_of_paused_instances
-- A paused instance that went on and completed in one transaction passes through running.
UPDATE assent.workflow_instances i SET status = 'running'
  FROM unnest($1::text[], $2::uuid[]) AS resumed (org_id, id)
 WHERE i.org_id = resumed.org_id AND i.id = resumed.id AND i.status = 'paused';

-- name: overwrite_projection
-- An instance's row as its steps make it.
UPDATE assent.workflow_instances i
   SET status = u.status, active_tokens = u.active_tokens, current_nodes = u.current_nodes,
       context_json = u.context_json, version = u.version, generation = u.generation, chain_length = u.chain_length,
       incident = u.incident, entity_version = u.entity_version, updated_at = u.updated_at,
       completed_at = coalesce(i.completed_at, u.completed_at)
  FROM jsonb_to_recordset($1::jsonb) AS u (
    org_id text, id uuid, status text, active_tokens jsonb, current_nodes text[], context_json jsonb, version integer,
    generation integer, chain_length integer, incident jsonb, entity_version integer, updated_at timestamptz,
    completed_at timestamptz)
 WHERE i.org_id = u.org_id AND i.id = u.id;

-- name: set_edit_windows
-- The strictest window of each instance's tokens, onto its entity (D17).
SELECT assent.set_edit_windows($1::jsonb);

-- name: claim_instances
-- Locks instances with events that are due, of the first $1 orgs behind org $2 that have some; new events of before $3 are not
-- looked at.
SELECT * FROM assent.claim_instances($1::integer, $2::text, $3::timestamptz);

-- name: try_named
-- In the message that begins a transaction: takes the lock of a batch that is not noted yet ($1), and of some instances ($2,
-- with commas between them) those locks that are free. Which, the next statement sees: it begins after this one.
SELECT pg_try_advisory_xact_lock(hashtextextended($1, 2)),
       set_config('assent.held', coalesce((
         SELECT string_agg(free.id, ',')
           FROM (SELECT id FROM (SELECT DISTINCT unnest(string_to_array($2, ',')) AS id ORDER BY 1) AS wanted
                  WHERE pg_try_advisory_xact_lock(hashtextextended(id, 0))) AS free), ''), true);

-- name: load_named_events
-- The open events of instances that a notification named, and whose locks were taken with BEGIN, in the order in which they
-- happened. Batches that run hold their instances' locks; of those that died, recovery finds out which event did it.
SELECT e.org_id, e.created_at, e.id, e.instance_id, e.entity_version, e.event_type, e.payload_json, e.attempts,
       e.attempts_max, coalesce(e.retry_at <= assent.now(), true) AS is_due, e.trace_id
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, instance_id)
 CROSS JOIN LATERAL (
    SELECT * FROM assent.workflow_events_outbox o
     WHERE o.org_id = wanted.org_id AND o.instance_id = wanted.instance_id AND o.status NOT IN ('completed', 'dead', 'processing')
    OFFSET 0) AS e
 WHERE wanted.instance_id::text = ANY (string_to_array(current_setting('assent.held'), ','))
   AND wanted.instance_id NOT IN (SELECT unnest(instance_ids) FROM assent.workflow_batches)
 ORDER BY e.created_at, e.id;

-- name: load_open_events
-- The open events of instances whose lock is held, in the order in which they happened.
SELECT e.org_id, e.created_at, e.id, e.instance_id, e.entity_version, e.event_type, e.payload_json, e.attempts,
       e.attempts_max, coalesce(e.retry_at <= assent.now(), true) AS is_due, e.trace_id
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, instance_id)
 CROSS JOIN LATERAL (
    SELECT * FROM assent.workflow_events_outbox o
     WHERE o.org_id = wanted.org_id AND o.instance_id = wanted.instance_id AND o.status NOT IN ('completed', 'dead', 'processing')
    OFFSET 0) AS e
 ORDER BY e.created_at, e.id;

-- name: complete_events
-- Events that were handled; what was too late says so.
UPDATE assent.workflow_events_outbox e
   SET status = 'completed', completed_at = $5::timestamptz, error = done.note, attempts = e.attempts + 1
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[], $4::text[]) AS done (org_id, created_at, id, note)
 WHERE e.org_id = done.org_id AND e.created_at = done.created_at AND e.id = done.id;

-- name: defer_events
-- Events of paused instances wait, without using attempts, until the instance goes on (D27).
UPDATE assent.workflow_events_outbox e SET retry_at = 'infinity'
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) AS waiting (org_id, created_at, id)
 WHERE e.org_id = waiting.org_id AND e.created_at = waiting.created_at AND e.id = waiting.id;

-- name: release_deferred_events
-- The instance goes on: what waited for it is due.
UPDATE assent.workflow_events_outbox e SET retry_at = NULL
  FROM unnest($1::text[], $2::uuid[]) AS resumed (org_id, instance_id)
 WHERE e.org_id = resumed.org_id AND e.instance_id = resumed.instance_id AND e.status NOT IN ('completed', 'dead', 'processing')
   AND e.retry_at = 'infinity';

-- name: ignore_open_events
-- The instance has ended: whatever is still open for it is too late, and no attempt was made.
UPDATE assent.workflow_events_outbox e
   SET status = 'completed', completed_at = $3::timestamptz, error = 'ignored', retry_at = NULL
  FROM unnest($1::text[], $2::uuid[]) AS ended (org_id, instance_id)
 WHERE e.org_id = ended.org_id AND e.instance_id = ended.instance_id AND e.status NOT IN ('completed', 'dead', 'processing');

-- name: record_failure
-- An attempt failed: how long to wait before the next one, or a dead letter.
UPDATE assent.workflow_events_outbox
   SET status = $4, attempts = attempts + 1, error = $5, retry_at = assent.now() + $6::interval
 WHERE org_id = $1 AND created_at = $2 AND id = $3 AND status IN ('pending', 'failed');

-- name: put_off_events
-- What stands behind an event that must wait, waits with it.
UPDATE assent.workflow_events_outbox e SET retry_at = first.retry_at
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::uuid[])
         AS behind (org_id, created_at, id, first_created_at, first_id)
  JOIN assent.workflow_events_outbox first ON first.org_id = behind.org_id
   AND first.created_at = behind.first_created_at AND first.id = behind.first_id
 WHERE e.org_id = behind.org_id AND e.created_at = behind.created_at AND e.id = behind.id;

-- name: revive_dead_letters
-- Their instances are tried again, and so are they.
UPDATE assent.workflow_events_outbox e SET status = 'pending', attempts = 0, error = NULL, retry_at = NULL
  FROM unnest($1::text[], $2::uuid[]) AS retried (org_id, instance_id)
 WHERE e.org_id = retried.org_id AND e.instance_id = retried.instance_id AND e.status = 'dead';

-- name: revive_dead_letter
-- Returns a dead event to the queue with all its attempts, at the request of an operator.
UPDATE assent.workflow_events_outbox SET status = 'pending', attempts = 0, error = NULL, retry_at = NULL
 WHERE org_id = $1 AND id = $2 AND status = 'dead'
RETURNING instance_id;

-- name: discard_event_if_dead
-- A person decides that a dead event is not processed any more.
UPDATE assent.workflow_events_outbox SET status = 'completed', completed_at = assent.now(), error = 'discarded: ' || error
 WHERE org_id = $1 AND id = $2 AND status = 'dead'
RETURNING id;

-- name: postpone_event
-- Postpones an event without counting an attempt.
UPDATE assent.workflow_events_outbox SET error = $4, retry_at = assent.now() + $5::interval
 WHERE org_id = $1 AND created_at = $2 AND id = $3 AND status IN ('pending', 'failed');

-- name: lock_event_keys
-- Steps that wait for a key and events under it take the same lock, in the order of their keys.
SELECT pg_advisory_xact_lock(hashtextextended(key, 1))
  FROM (SELECT DISTINCT org_id || ':' || event_key AS key
          FROM unnest($1::text[], $2::text[]) AS k (org_id, event_key) ORDER BY 1) AS wanted;

-- name: take_kept_events
-- Kept events of the keys that are waited for now, at most one for each who waits; they are theirs. Those who wait in a
-- partition take its events and those of the whole org, the oldest first; others take the latter only.
WITH wait AS MATERIALIZED (
  SELECT org_id, event_key, partition_id, row_number() OVER (PARTITION BY org_id, event_key, partition_id) AS turn, place
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w (org_id, event_key, partition_id, place)
), own AS MATERIALIZED (
  -- What is for one partition only goes first.
  SELECT w.place, w.org_id, kept.id
    FROM wait w CROSS JOIN LATERAL (
      SELECT o.id FROM assent.workflow_kept_events o
       WHERE o.org_id = w.org_id AND o.event_key = w.event_key AND o.partition_id = w.partition_id
       ORDER BY o.id OFFSET w.turn - 1 LIMIT 1) AS kept
), others AS MATERIALIZED (
  SELECT w.place, w.org_id, w.event_key, row_number() OVER (PARTITION BY w.org_id, w.event_key ORDER BY w.place) AS turn
    FROM wait w WHERE NOT EXISTS (SELECT FROM own WHERE own.place = w.place)
), taken AS MATERIALIZED (
  SELECT place, org_id, id FROM own
  UNION ALL
  SELECT w.place, w.org_id, kept.id
    FROM others w CROSS JOIN LATERAL (
      SELECT o.id FROM assent.workflow_kept_events o
       WHERE o.org_id = w.org_id AND o.event_key = w.event_key AND o.partition_id IS NULL
       ORDER BY o.id OFFSET w.turn - 1 LIMIT 1) AS kept
)
DELETE FROM assent.workflow_kept_events k USING taken
 WHERE k.org_id = taken.org_id AND k.id = taken.id
RETURNING taken.place, k.org_id, k.id, k.payload, k.created_at;

-- name: claim_arrivals
-- Claims events under a key that are of no instance yet, of the first $1 orgs behind org $2 that have some; events of before $3
-- are not looked at.
SELECT * FROM assent.claim_arrivals($1::integer, $2::text, $3::timestamptz);

-- name: give_up_arrivals
-- Marks events as dead, and says why: without a key, no step can wait for them.
UPDATE assent.workflow_events_outbox e
   SET status = 'dead', attempts = e.attempts + 1, error = $4
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) AS lost (org_id, created_at, id)
 WHERE e.org_id = lost.org_id AND e.created_at = lost.created_at AND e.id = lost.id;

-- name: postpone_arrivals
-- Events that wait for newer code, without counting an attempt.
UPDATE assent.workflow_events_outbox e SET retry_at = assent.now() + $4::interval
  FROM unnest($1::text[], $2::timestamptz[], $3::uuid[]) AS waiting (org_id, created_at, id)
 WHERE e.org_id = waiting.org_id AND e.created_at = waiting.created_at AND e.id = waiting.id;

-- name: take_waits
-- The steps that wait for some keys, in the partitions of the events; null is all of them. What they waited
-- for is on its way, so they wait for no other.
UPDATE assent.workflow_step_executions s SET waiting_for_event_key = NULL
  FROM (SELECT org_id, event_key, array_agg(DISTINCT partition_id) AS partitions
          FROM unnest($1::text[], $2::text[], $3::text[]) AS k (org_id, event_key, partition_id) GROUP BY 1, 2) AS wanted
 CROSS JOIN LATERAL (
   SELECT w.org_id, w.created_at, w.id, i.partition_id
     FROM assent.workflow_step_executions w
     JOIN assent.workflow_instances i ON i.org_id = w.org_id AND i.id = w.instance_id
    WHERE w.org_id = wanted.org_id AND w.waiting_for_event_key = wanted.event_key AND w.status = 'pending'
      AND (i.partition_id = ANY (wanted.partitions) OR array_position(wanted.partitions, NULL) IS NOT NULL)) AS waiting
 WHERE s.org_id = waiting.org_id AND s.created_at = waiting.created_at AND s.id = waiting.id AND s.status = 'pending'
   AND s.waiting_for_event_key = wanted.event_key
RETURNING s.org_id, wanted.event_key, s.instance_id, s.id AS step_id, s.entity_version, waiting.partition_id;

-- name: keep_events
-- Keeps events that no step waits for yet.
INSERT INTO assent.workflow_kept_events (org_id, id, event_key, partition_id, payload, created_at)
SELECT org_id, id, event_key, partition_id, payload, created_at
  FROM jsonb_to_recordset($1::jsonb) AS k (
    org_id text, id uuid, event_key text, partition_id text, payload jsonb, created_at timestamptz)
ON CONFLICT DO NOTHING;

-- name: load_steps
-- Every step of an instance, for a rebuild of its projection.
SELECT * FROM assent.workflow_step_executions WHERE org_id = $1 AND instance_id = $2;

-- name: note_batch
-- A worker is about to process the events of these instances.
INSERT INTO assent.workflow_batches (id, org_ids, instance_ids, started_at) VALUES ($1, $2::text[], $3::uuid[], $4)
ON CONFLICT (id) DO UPDATE SET org_ids = excluded.org_ids, instance_ids = excluded.instance_ids;

-- name: note_batches_of_one
-- Each of these instances is to be run alone.
INSERT INTO assent.workflow_batches (id, org_ids, instance_ids, started_at)
SELECT id, ARRAY[org_id], ARRAY[instance_id], $4 FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS n (id, org_id, instance_id);

-- name: touch_batch
-- Records when a worker is about to run the batch again.
UPDATE assent.workflow_batches SET started_at = $2 WHERE id = $1;

-- name: hold_batch
-- Held while the batch runs: a worker that finds the note and gets this lock knows that its worker is gone.
SELECT pg_try_advisory_xact_lock(hashtextextended($1::uuid::text, 2));

-- name: forget_batch
-- The batch is done.
DELETE FROM assent.workflow_batches WHERE id = $1::text::uuid;

-- name: hold_batch_from_the_start
-- As hold_batch, in the message that begins a transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended($1, 2));

-- name: find_abandoned_batches
-- Notes whose worker is gone: it held their lock from before they were there.
SELECT id, org_ids, instance_ids, started_at FROM assent.workflow_batches
 WHERE pg_try_advisory_xact_lock(hashtextextended(id::text, 2)) ORDER BY started_at, id LIMIT $1;

-- name: count_lost_attempt
-- The first event of an instance was being processed when its worker died: that was an attempt.
UPDATE assent.workflow_events_outbox e
   SET attempts = e.attempts + 1, error = 'its worker died',
       status = CASE WHEN e.attempts + 1 >= e.attempts_max THEN 'dead' ELSE 'failed' END
  FROM (SELECT org_id, created_at, id FROM assent.workflow_events_outbox
         WHERE org_id = $1 AND instance_id = $2 AND status NOT IN ('completed', 'dead', 'processing')
         ORDER BY created_at, id LIMIT 1) AS first
 WHERE e.org_id = first.org_id AND e.created_at = first.created_at AND e.id = first.id
   AND e.status NOT IN ('completed', 'dead', 'processing')
RETURNING e.status, e.error;

-- name: list_instances
-- Instances of an org, newest first: those of some statuses, of a workflow, of a subject, in a partition; what the reader
-- may not see is left out. Status by status, each by its index: an index scan of several statuses gives no order by id.
SELECT page.*
  FROM (SELECT DISTINCT unnest(coalesce($2::text[], '{running,paused,completed,failed,cancelled}')) AS status) AS wanted
 CROSS JOIN LATERAL (
    SELECT org_id, id, workflow_id, definition_id, definition_version, definition_hash, entity_type, entity_id,
           entity_version, partition_id, subject_id, status, current_nodes, version, incident, started_at, updated_at, completed_at, expires_at
      FROM assent.workflow_instances i
     WHERE org_id = $1 AND status = wanted.status
       AND ($3::text IS NULL OR workflow_id = $3)
       AND ($4::text IS NULL OR subject_id = $4)
       AND ($5::uuid IS NULL OR entity_id = $5)
       AND ($6::text IS NULL OR partition_id = $6)
       AND ($7::uuid IS NULL OR id < $7)
       AND ($9::text IS NULL OR entity_type = $9)
       AND (NOT $10::boolean OR assent.is_readable(i, $11::text[], $12::boolean, $13::uuid[], $14::text, $15::timestamptz))
     ORDER BY id DESC LIMIT $8) AS page
 ORDER BY page.id DESC LIMIT $8;

-- name: count_instances
-- How many instances fit the filters of list_instances, counted up to a number.
SELECT count(*) FROM (
  SELECT FROM assent.workflow_instances i
   WHERE org_id = $1 AND ($2::text[] IS NULL OR status = ANY ($2))
     AND ($3::text IS NULL OR workflow_id = $3)
     AND ($4::text IS NULL OR subject_id = $4)
     AND ($5::uuid IS NULL OR entity_id = $5)
     AND ($6::text IS NULL OR i.partition_id = $6)
     AND ($8::text IS NULL OR i.entity_type = $8)
     AND (NOT $9::boolean OR assent.is_readable(i, $10::text[], $11::boolean, $12::uuid[], $13::text, $14::timestamptz))
   LIMIT $7) AS counted;

-- name: find_flows
-- The flows of an org and everybody's, with the roles that their authors let read them.
SELECT id, key, compiled_json #> '{permissions,read}' AS readers FROM assent.workflow_definitions
 WHERE org_id IN ($1, '*') AND definition_kind = 'flow' AND status <> 'draft';

-- name: takes_part
-- Whether a user takes part in an instance, has answered a step of it, or has a role that its flow lets read it. Who only
-- operated it, as by a pause or a retry, has answered nothing.
SELECT assent.takes_part(i, $3, $5) OR EXISTS (
         SELECT FROM assent.workflow_step_executions s
          WHERE s.org_id = i.org_id AND s.instance_id = i.id AND s.output_json -> 'principal' ->> 'id' = $3) OR EXISTS (
         SELECT FROM assent.workflow_definitions d
          WHERE d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
            AND d.compiled_json #> '{permissions,read}' ?| $4::text[])
  FROM assent.workflow_instances i WHERE i.org_id = $1 AND i.id = $2;

-- name: was_asked
-- Whether a user is or was asked at an approval request or a form, or stands in for one who is.
SELECT EXISTS (SELECT FROM assent.workflow_seats s
                WHERE s.org_id = $1 AND s.request_id = $2 AND s.user_id = $3 AND s.status <> 'later')
    OR EXISTS (SELECT FROM assent.workflow_seats s
                 JOIN assent.workflow_instances i ON i.org_id = s.org_id AND i.id = s.instance_id
                 JOIN assent.approval_delegations d ON d.org_id = s.org_id AND d.from_user = s.user_id
                WHERE s.org_id = $1 AND s.request_id = $2 AND s.status = 'open' AND d.to_user = $3
                  AND d.revoked_at IS NULL AND d.starts_at <= $4 AND (d.ends_at IS NULL OR d.ends_at > $4)
                  AND (d.entity_types = '{}' OR i.entity_type = ANY (d.entity_types))
                  AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows)));

-- name: find_instance
-- One instance as lists show it.
SELECT org_id, id, workflow_id, definition_id, definition_version, definition_hash, entity_type, entity_id,
       entity_version, partition_id, subject_id, status, current_nodes, version, incident, started_at, updated_at, completed_at, expires_at
  FROM assent.workflow_instances WHERE org_id = $1 AND id = $2;

-- name: list_steps
-- The steps of an instance, newest first, with the evidence that compaction took out.
SELECT s.id, s.created_at, s.node_id, s.node_type, s.token_id, s.entity_version, s.status, s.run_as, s.completed_at,
       s.duration_ms, assent.whole_output(s.output_json, e.evidence) AS output_json, s.error, s.actor_user_id,
       s.resume_at, s.waiting_for_event_key, s.approval_request_id
  FROM assent.workflow_step_executions s
  LEFT JOIN assent.step_evidence e ON e.org_id = s.org_id AND e.step_created_at = s.created_at AND e.step_id = s.id
 WHERE s.org_id = $1 AND s.instance_id = $2
   AND ($3::timestamptz IS NULL OR (s.created_at, s.id) < ($3, $4::uuid))
 ORDER BY s.created_at DESC, s.id DESC LIMIT $5;

-- name: list_path
-- The newest steps of an instance, each with the edges that it left by.
SELECT s.id, s.node_id, s.status, s.resume_at, s.waiting_for_event_key,
       assent.whole_output(s.output_json, e.evidence) -> 'chosen_edge_ids' AS edges
  FROM assent.workflow_step_executions s
  LEFT JOIN assent.step_evidence e ON e.org_id = s.org_id AND e.step_created_at = s.created_at AND e.step_id = s.id
 WHERE s.org_id = $1 AND s.instance_id = $2
 ORDER BY s.created_at DESC, s.id DESC LIMIT $3;

-- name: find_step
-- One step of an instance, with the evidence that compaction took out.
SELECT s.id, s.created_at, s.node_id, s.node_type, s.token_id, s.entity_version, s.status, s.run_as, s.completed_at,
       s.duration_ms, s.input_json, assent.whole_output(s.output_json, e.evidence) AS output_json, s.error, s.actor_user_id,
       s.resume_at, s.waiting_for_event_key
  FROM assent.workflow_step_executions s
  LEFT JOIN assent.step_evidence e ON e.org_id = s.org_id AND e.step_created_at = s.created_at AND e.step_id = s.id
 WHERE s.org_id = $1 AND s.instance_id = $2 AND s.id = $3;

-- name: find_instances_between
-- The instances of an org whose id lies in a range, a few at most.
SELECT id FROM assent.workflow_instances WHERE org_id = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4;

-- name: list_event_sources
-- The sources of an org by name, without what they sign with.
SELECT name, key_prefix, created_by, created_at, rotated_at, former_secret IS NOT NULL AS two_secrets
  FROM assent.event_sources WHERE org_id = $1 AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3;

-- name: insert_event_source_if_new
-- A new source; nothing where its name or its prefix is another's.
INSERT INTO assent.event_sources (org_id, name, key_prefix, secret, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING
RETURNING name, key_prefix, created_by, created_at, rotated_at, false AS two_secrets;

-- name: rotate_event_secret
-- A new secret for a source; the one before holds beside it.
UPDATE assent.event_sources SET former_secret = secret, secret = $3, rotated_at = $4
 WHERE org_id = $1 AND name = $2
RETURNING name, key_prefix, created_by, created_at, rotated_at, true AS two_secrets;

-- name: retire_former_event_secret
-- The sender has changed: only the newest secret holds.
UPDATE assent.event_sources SET former_secret = NULL WHERE org_id = $1 AND name = $2
RETURNING name, key_prefix, created_by, created_at, rotated_at, false AS two_secrets;

-- name: delete_event_source
-- From now on events under its keys need no signature.
DELETE FROM assent.event_sources WHERE org_id = $1 AND name = $2
RETURNING name, key_prefix, created_by, created_at, rotated_at, former_secret IS NOT NULL AS two_secrets;

-- name: find_event_source
-- The source that a key belongs to: of several prefixes the longest.
SELECT name, array_remove(ARRAY[secret, former_secret], NULL) AS secrets FROM assent.event_sources
 WHERE org_id = $1 AND starts_with($2, key_prefix) ORDER BY length(key_prefix) DESC LIMIT 1;

-- name: take_delivery_if_new
-- The receipt of a signed delivery, one for each id of a source, whatever it is about.
INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
VALUES ($1, $2, 'events', $3, $4)
ON CONFLICT DO NOTHING
RETURNING true AS taken;

-- name: record_declared_names
-- Says that code declares these names, for another length of time, and returns those that were written. A row that says nearly
-- the same is left alone, so that many workers do not write one after the other.
INSERT INTO assent.declared_names AS d (name, declared_until)
SELECT name, assent.now() + $2::interval FROM unnest($1::text[]) AS given (name) ORDER BY name
ON CONFLICT (name) DO UPDATE SET declared_until = excluded.declared_until
 WHERE d.declared_until < excluded.declared_until - $2::interval / 20
RETURNING d.name;

-- name: forget_declared_names
-- Deletes names that no code has declared for a day.
DELETE FROM assent.declared_names WHERE declared_until < assent.now() - interval '1 day';

-- name: is_declared
-- Whether the code of some worker declares a name.
SELECT assent.is_declared(ARRAY[$1::text]);

-- name: find_declared_names
-- Which of these names the code of some worker declares.
SELECT name FROM assent.declared_names WHERE name = ANY ($1::text[]) AND declared_until > assent.now();
