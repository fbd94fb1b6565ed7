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
