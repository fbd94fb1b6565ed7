-- name: enqueue_effects
-- Inserts the effects whose receipt is new (WF-11), and wakes the workers once.
WITH incoming AS MATERIALIZED (
  -- An effect without a step keeps its receipt under the nil UUID, as an event without an instance does.
  SELECT *, coalesce(instance_id, '00000000-0000-0000-0000-000000000000') AS receipt_of FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, instance_id uuid, step_id uuid, step_created_at timestamptz, type text,
    payload jsonb, key text, destination text, awaited boolean, retry_ambiguous boolean, attempts_max integer,
    trace_id text)
), fresh AS (
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  SELECT org_id, receipt_of, 'side_effects', key, assent.now() FROM incoming
  ON CONFLICT DO NOTHING
  RETURNING org_id, instance_id, event_idempotency_key
), new AS MATERIALIZED (
  SELECT i.* FROM incoming i
    JOIN fresh f ON f.org_id = i.org_id AND f.instance_id = i.receipt_of AND f.event_idempotency_key = i.key
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
       CASE WHEN e.payload ? 'mail' THEN (
         SELECT jsonb_build_object('org', o.name, 'name', r.name, 'mails', p.mails, 'time_zone', p.time_zone,
                  'language', p.language, 'links_to', p.links_to, 'settings', jsonb_build_object('mail_language', o.settings -> 'mail_language',
                    'mail_time_zone', o.settings -> 'mail_time_zone', 'mail_links', o.settings -> 'mail_links'),
                  'templates', (SELECT jsonb_agg(jsonb_build_object('kind', t.kind, 'language', t.language,
                                         'subject', t.subject, 'text', t.text, 'html', t.html))
                                  FROM assent.mail_templates t
                                 WHERE t.org_id = e.org_id AND t.kind IN (e.payload -> 'mail' ->> 'kind', 'asked')))
           FROM (SELECT 1) AS one
           LEFT JOIN assent.orgs o ON o.org_id = e.org_id
           LEFT JOIN assent.members r ON r.org_id = e.org_id AND r.user_id = e.payload ->> 'user'
           LEFT JOIN assent.member_preferences p ON p.org_id = e.org_id AND p.user_id = e.payload ->> 'user') END AS mail,
       (SELECT coalesce(array_agg(s.secret ORDER BY s.created_at DESC, s.id DESC), '{}') FROM assent.effect_secrets s
         WHERE s.org_id = e.org_id AND s.retired_at IS NULL AND e.type = 'webhook') AS secrets,
       (SELECT jsonb_agg(jsonb_build_object('name', n.name, 'value', n.value, 'hosts', n.hosts))
          FROM assent.named_secrets n
         WHERE e.type = 'webhook' AND e.payload ? 'secrets' AND n.org_id = e.org_id
           AND n.name IN (SELECT jsonb_array_elements_text(e.payload -> 'secrets'))) AS named_secrets,
       (SELECT jsonb_build_object('id', u.id, 'key', u.key, 'expires_at', u.expires_at) FROM assent.upload_links u
         WHERE e.payload ? 'upload' AND u.org_id = e.org_id AND u.request_id = (e.payload ->> 'upload')::uuid
           AND u.made_by IS NULL AND u.revoked_at IS NULL
         ORDER BY u.created_at LIMIT 1) AS upload
  FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS j (org_id, id, n)
  JOIN assent.effects e ON e.org_id = j.org_id AND e.id = j.id
  LEFT JOIN assent.members m
    ON m.org_id = e.org_id AND m.user_id = coalesce(nullif(e.payload ->> 'to', ''), e.payload ->> 'user')
   AND m.active AND e.type = 'email'
 ORDER BY j.n;

-- name: list_effects_of_instance
-- The newest effects of an instance, each with the state of its job and every attempt, in order.
SELECT e.id, e.type, j.lane AS destination, e.step_id, s.node_id, j.status, j.resolved, e.awaited, e.created_at, j.ended_at,
       j.attempts, j.attempts_max, CASE WHEN j.status IN ('queued', 'retrying') THEN j.run_at END AS next_at,
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
                 'attempt', a.attempt, 'outcome', a.outcome, 'code', a.code, 'error', a.error, 'ambiguous', a.ambiguous,
                 'answer', a.output, 'started_at', a.started_at, 'ended_at', a.ended_at) ORDER BY a.attempt), '[]')
          FROM assent.job_attempts a WHERE a.org_id = e.org_id AND a.job_id = e.id) AS tried
  FROM assent.effects e
  JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
  LEFT JOIN assent.workflow_step_executions s
    ON s.org_id = e.org_id AND s.id = e.step_id AND s.created_at = e.step_created_at
 WHERE e.org_id = $1 AND e.instance_id = $2 ORDER BY e.id DESC LIMIT $3;

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

-- name: list_mail_templates
-- What an org writes in place of our mails; of one kind and language, where these are given.
SELECT kind, language, subject, text, html, updated_by, updated_at FROM assent.mail_templates
 WHERE org_id = $1 AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR language = $3)
 ORDER BY kind, language;

-- name: put_mail_template
-- Keeps a template, in place of the one of this kind and language.
INSERT INTO assent.mail_templates AS t (org_id, kind, language, subject, text, html, updated_by, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (org_id, kind, language) DO UPDATE
   SET subject = excluded.subject, text = excluded.text, html = excluded.html, updated_by = excluded.updated_by,
       updated_at = excluded.updated_at
RETURNING kind, language, subject, text, html, updated_by, updated_at;

-- name: delete_mail_template
-- Forgets a template: our words are sent again.
DELETE FROM assent.mail_templates WHERE org_id = $1 AND kind = $2 AND language = $3
RETURNING kind, language, subject, text, html, updated_by, updated_at;

-- name: find_addressed
-- Those of these people who are active members with an address.
SELECT m.org_id, m.user_id FROM unnest($1::text[], $2::text[]) AS p (org_id, user_id)
  JOIN assent.members m ON m.org_id = p.org_id AND m.user_id = p.user_id
 WHERE m.active AND m.kind = 'user' AND coalesce(m.email, '') <> '';
