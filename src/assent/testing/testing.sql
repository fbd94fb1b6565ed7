-- name: lock_templates
-- Waits until no other session is building a template on this server.
SELECT pg_advisory_lock(7310868735421118);

-- name: unlock_templates
-- Lets the next one look whether there is a template.
SELECT pg_advisory_unlock(7310868735421118);

-- name: find_database
-- Whether there is a database of this name.
SELECT true FROM pg_database WHERE datname = $1;

-- name: text_of_create
-- How a database is made: names cannot be parameters of the statement itself.
SELECT format('CREATE DATABASE %I', $1::text);

-- name: text_of_copy
-- How a database is made from a template. Measured, with opening and dropping: 29 ms by FILE_COPY, 38 by WAL_LOG; for
-- two workers 32 and 60.
SELECT format('CREATE DATABASE %I TEMPLATE %I STRATEGY file_copy', $1::text, $2::text);

-- name: text_of_rename
-- How a database gets another name.
SELECT format('ALTER DATABASE %I RENAME TO %I', $1::text, $2::text);

-- name: text_of_drop
-- The statement that drops a database with the sessions that are connected to it.
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', $1::text);

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

-- name: answer_awaited_effect
-- Ends the effect that a step awaits as if it had been sent and answered; a step that awaits results awaits no answer.
WITH awaited AS MATERIALIZED (
  SELECT e.org_id, e.id, e.instance_id, e.step_id, e.trace_id FROM assent.effects e
    JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
   WHERE e.org_id = $1 AND e.step_id = $2 AND e.awaited AND j.status = 'queued'
     AND NOT (e.type = 'webhook' AND e.payload ? 'request')
), kept AS (
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, worker_id, started_at, ended_at)
  SELECT org_id, id, 1, 'effect', 'done', $3::jsonb, gen_random_uuid(), assent.now(), assent.now() FROM awaited
)
UPDATE assent.jobs j SET status = 'done', attempts = 1, ended_at = assent.now()
  FROM awaited a WHERE j.org_id = a.org_id AND j.id = a.id
RETURNING a.org_id, a.id, a.instance_id, a.step_id, a.trace_id;

-- name: find_request_of_step
-- What a step asked of an outside party.
SELECT id FROM assent.outside_requests WHERE org_id = $1 AND step_id = $2;

-- name: find_next_moment
-- The first moment after now, and not after the one that is asked about, at which something is due.
SELECT min(moment) FROM (
  SELECT min(resume_at) AS moment FROM assent.workflow_step_executions
   WHERE status = 'pending' AND resume_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.workflow_instances
   WHERE status = 'running' AND expires_at > assent.now()
  UNION ALL
  SELECT min(retry_at) FROM assent.workflow_events_outbox
   WHERE status IN ('pending', 'failed') AND retry_at > assent.now()
  UNION ALL
  SELECT min(expires_at) FROM assent.outside_requests
   WHERE status IN ('pending', 'partial') AND expires_at > assent.now()
  UNION ALL
  SELECT min(next_at) FROM assent.schedules WHERE NOT paused AND next_at > assent.now()
  UNION ALL
  SELECT min(run_at) FROM assent.jobs
   WHERE status IN ('queued', 'retrying') AND run_at > assent.now()
) AS due WHERE moment <= $1;

-- name: find_instances_of
-- The instances of an entity, the newest first.
SELECT id FROM assent.workflow_instances WHERE org_id = $1 AND entity_id = $2 ORDER BY started_at DESC, id DESC;

-- name: find_requests_of
-- What an instance has asked people, the newest first.
SELECT id, node_id, status, reason FROM assent.approval_requests
 WHERE org_id = $1 AND instance_id = $2 ORDER BY created_at DESC, id DESC;

-- name: find_open_seats_of
-- Who can answer what an instance asks now: of approvals by their request, of forms by their step.
SELECT request_id, array_agg(DISTINCT user_id ORDER BY user_id) AS people FROM assent.workflow_seats
 WHERE org_id = $1 AND instance_id = $2 AND status = 'open' GROUP BY request_id;

-- name: find_effects_of
-- What instances have put into the outbox, in order.
SELECT type AS effect_type, payload AS payload_json FROM assent.effects
 WHERE org_id = $1 AND instance_id = ANY ($2::uuid[]) ORDER BY created_at, id;

-- name: find_steps_of
-- What instances did last, the newest first, with the evidence that compaction took out.
SELECT coalesce(s.completed_at, s.created_at) AS at, s.node_id, s.node_type, s.status, s.actor_user_id,
       assent.whole_output(s.output_json, e.evidence) AS output_json, s.error
  FROM assent.workflow_step_executions s
  LEFT JOIN assent.step_evidence e ON e.org_id = s.org_id AND e.step_created_at = s.created_at AND e.step_id = s.id
 WHERE s.org_id = $1 AND s.instance_id = ANY ($2::uuid[])
 ORDER BY coalesce(s.completed_at, s.created_at) DESC, (s.output_json ->> 'n')::integer DESC NULLS FIRST, s.id DESC
 LIMIT $3;

-- name: find_failures_of
-- Events of instances that could not be taken, with their errors.
SELECT event_type, status, attempts, retry_at, error FROM assent.workflow_events_outbox
 WHERE org_id = $1 AND instance_id = ANY ($2::uuid[]) AND status IN ('failed', 'dead') ORDER BY created_at, id;

-- name: text_of_insert
-- How rows are put into a table of the application: names cannot be parameters of the statement itself.
SELECT format('INSERT INTO %s (%s) SELECT %s FROM jsonb_populate_recordset(NULL::%s, $1::jsonb)', $1::text::regclass, list,
         list, $1::text::regclass)
  FROM (SELECT string_agg(quote_ident(name), ', ') AS list FROM unnest($2::text[]) AS name) AS columns;

-- name: text_of_rows
-- How the rows of a table of the application are read.
SELECT format('SELECT to_jsonb(t) AS found FROM %s AS t LIMIT $1', $1::text::regclass);
