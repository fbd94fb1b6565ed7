-- name: enqueue_effects
-- Inserts the effects whose receipt is new (WF-11), and wakes the workers once.
WITH incoming AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, instance_id uuid, step_id uuid, step_created_at timestamptz, type text,
    payload jsonb, key text, destination text, awaited boolean, retry_ambiguous boolean, attempts_max integer,
    trace_id text)
), fresh AS (
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  SELECT org_id, instance_id, 'side_effects', key, assent.now() FROM incoming
  ON CONFLICT DO NOTHING
  RETURNING org_id, instance_id, event_idempotency_key
), new AS MATERIALIZED (
  SELECT i.* FROM incoming i
    JOIN fresh f ON f.org_id = i.org_id AND f.instance_id = i.instance_id AND f.event_idempotency_key = i.key
), queued AS (
  INSERT INTO assent.jobs (org_id, id, kind, lane, attempts_max, repeatable)
  SELECT org_id, id, 'effect', destination, attempts_max, retry_ambiguous FROM new
), written AS (
  INSERT INTO assent.effects (org_id, id, instance_id, step_id, step_created_at, type, payload, key, awaited, attempts_max,
         trace_id)
  SELECT org_id, id, instance_id, step_id, step_created_at, type, payload, key, awaited, attempts_max, trace_id FROM new
  RETURNING id
)
SELECT count(*) AS written, pg_notify('assent_effects', '') FROM written HAVING count(*) > 0;

-- name: read_effects
-- What is needed to send claimed effects, in their order.
SELECT e.instance_id, e.step_id, e.type, e.payload, e.key, e.awaited, e.trace_id, m.email AS member_email,
       (SELECT coalesce(array_agg(s.secret ORDER BY s.created_at DESC, s.id DESC), '{}') FROM assent.effect_secrets s
         WHERE s.org_id = e.org_id AND s.retired_at IS NULL AND e.type = 'webhook') AS secrets,
       (SELECT jsonb_agg(jsonb_build_object('name', n.name, 'value', n.value, 'hosts', n.hosts))
          FROM assent.named_secrets n
         WHERE e.type = 'webhook' AND e.payload ? 'secrets' AND n.org_id = e.org_id
           AND n.name IN (SELECT jsonb_array_elements_text(e.payload -> 'secrets'))) AS named_secrets
  FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS j (org_id, id, n)
  JOIN assent.effects e ON e.org_id = j.org_id AND e.id = j.id
  LEFT JOIN assent.members m
    ON m.org_id = e.org_id AND m.user_id = coalesce(nullif(e.payload ->> 'to', ''), e.payload ->> 'user')
   AND m.active AND e.type = 'email'
 ORDER BY j.n;

-- name: show_evidence
-- Has steps show how their effects ended, and when.
WITH ended AS MATERIALIZED (
  SELECT e.org_id, e.step_created_at, e.step_id,
         jsonb_object_agg(e.id::text, s.evidence || jsonb_build_object('at', assent.now())) AS evidence
    FROM unnest($1::text[], $2::uuid[], $3::jsonb[]) AS s (org_id, id, evidence)
    JOIN assent.effects e ON e.org_id = s.org_id AND e.id = s.id
   GROUP BY 1, 2, 3
)
UPDATE assent.workflow_step_executions s
   SET output_json = coalesce(s.output_json, '{}')
                     || jsonb_build_object('evidence', coalesce(s.output_json -> 'evidence', '{}') || d.evidence)
  FROM ended d
 WHERE s.org_id = d.org_id AND s.created_at = d.step_created_at AND s.id = d.step_id;

-- name: find_requests_of_effects
-- The outside requests that effects take to their parties, of those effects that take one.
SELECT e.id, (e.payload ->> 'request')::uuid AS request_id
  FROM unnest($1::text[], $2::uuid[]) AS j (org_id, id)
  JOIN assent.effects e ON e.org_id = j.org_id AND e.id = j.id
 WHERE e.type = 'webhook' AND e.payload ? 'request';

-- name: put_secret
-- Keeps a secret, in place of the one of this name.
INSERT INTO assent.named_secrets AS s (org_id, name, value, hosts, created_by, created_at, changed_at)
VALUES ($1, $2, $3, $4::text[], $5, $6, $6)
ON CONFLICT (org_id, name) DO UPDATE SET value = excluded.value, hosts = excluded.hosts, changed_at = excluded.changed_at
RETURNING s.name, s.hosts, s.created_by, s.created_at, s.changed_at;

-- name: list_secrets
-- The secrets of an org by name, without their values.
SELECT name, hosts, created_by, created_at, changed_at FROM assent.named_secrets
 WHERE org_id = $1 AND ($2::text IS NULL OR name > $2) ORDER BY name LIMIT $3;

-- name: delete_secret
-- Forgets a secret.
DELETE FROM assent.named_secrets WHERE org_id = $1 AND name = $2
RETURNING name, hosts, created_by, created_at, changed_at;

-- name: keep_secret
-- A new secret of an org, to sign its webhooks with from now on.
INSERT INTO assent.effect_secrets (org_id, id, secret, created_at) VALUES ($1, $2, $3, $4);

-- name: retire_secrets_but_two
-- Of the active secrets of an org the two newest stay, so that receivers can change from one to the other.
UPDATE assent.effect_secrets SET retired_at = $2
 WHERE org_id = $1 AND retired_at IS NULL AND id NOT IN (
   SELECT id FROM assent.effect_secrets WHERE org_id = $1 AND retired_at IS NULL
    ORDER BY created_at DESC, id DESC LIMIT 2);

-- name: retire_secrets_but_newest
-- Every receiver knows the newest: the others sign nothing any more.
UPDATE assent.effect_secrets SET retired_at = $2
 WHERE org_id = $1 AND retired_at IS NULL AND id NOT IN (
   SELECT id FROM assent.effect_secrets WHERE org_id = $1 AND retired_at IS NULL
    ORDER BY created_at DESC, id DESC LIMIT 1);

-- name: list_signing_secrets
-- When the signing secrets of an org were made and retired, newest first; never the secrets.
SELECT id, created_at, retired_at FROM assent.effect_secrets
 WHERE org_id = $1 AND ($2::uuid IS NULL OR id < $2) ORDER BY id DESC LIMIT $3;
