-- Replies that the HTTP API keeps under the keys that callers gave to their requests, to return them again.

-- A key is the caller's own: another caller's key may look the same.
CREATE TABLE assent.http_replies (
  org_id       text        NOT NULL,
  actor_id     text        NOT NULL,
  key          text        NOT NULL,
  request_hash text        NOT NULL,
  status       integer     NOT NULL,
  headers      jsonb       NOT NULL DEFAULT '{}',
  media_type   text        NOT NULL DEFAULT 'application/json',
  body         text        NOT NULL,            -- as it was sent, to the byte
  about        jsonb       NOT NULL DEFAULT '[]', -- what it shows: returned again only to a caller who may still read that
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  expires_at   timestamptz NOT NULL,
  CONSTRAINT http_replies_pkey PRIMARY KEY (org_id, actor_id, key),
  CONSTRAINT reply_key_is_short CHECK (length(key) BETWEEN 1 AND 255),
  CONSTRAINT request_is_kept_as_sha256 CHECK (request_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT reply_has_a_status_of_http CHECK (status BETWEEN 200 AND 599),
  CONSTRAINT reply_is_kept_for_a_time CHECK (expires_at > created_at)
);
CREATE INDEX http_replies_to_forget ON assent.http_replies (org_id, expires_at);
SELECT assent.guard_by_org('assent.http_replies');
GRANT SELECT, INSERT, UPDATE (request_hash, status, headers, media_type, body, about, created_at, expires_at), DELETE
  ON assent.http_replies TO assent_engine;
