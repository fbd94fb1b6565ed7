-- name: lock_reply
-- Serializes requests under one key: a request that waited here finds the reply of the first.
SELECT pg_advisory_xact_lock(hashtextextended($1, 4));

-- name: find_reply
-- The kept reply under a key, if it has not expired.
SELECT request_hash, status, headers, media_type, body, about FROM assent.http_replies
 WHERE org_id = $1 AND actor_id = $2 AND key = $3 AND expires_at > $4;

-- name: keep_reply
-- Stores a reply, in place of one that has expired, and deletes a few others that have expired.
WITH forgotten AS (
  DELETE FROM assent.http_replies r
   USING (SELECT org_id, actor_id, key FROM assent.http_replies
           WHERE org_id = $1 AND expires_at <= $10 AND (actor_id, key) <> ($2, $3)
           ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED) AS old
   WHERE r.org_id = old.org_id AND r.actor_id = old.actor_id AND r.key = old.key
)
INSERT INTO assent.http_replies (org_id, actor_id, key, request_hash, status, headers, media_type, body, about, created_at,
       expires_at)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9::jsonb, $10, $11)
ON CONFLICT (org_id, actor_id, key) DO UPDATE
   SET request_hash = excluded.request_hash, status = excluded.status, headers = excluded.headers,
       media_type = excluded.media_type, body = excluded.body, about = excluded.about, created_at = excluded.created_at,
       expires_at = excluded.expires_at;
