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
