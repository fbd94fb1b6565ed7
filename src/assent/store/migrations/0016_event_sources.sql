-- Who tells us of events, and how we know that it is them: an event whose key begins so is taken only with a signature.

-- Row security and the application's missing rights are those of effect_secrets: what signs is the owner's to read. Two
-- secrets hold, while a sender changes from one to the other.
CREATE TABLE assent.event_sources (
  org_id        text        NOT NULL,
  name          text        NOT NULL,
  key_prefix    text        NOT NULL,
  secret        text        NOT NULL,
  former_secret text,
  created_by    text        NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT assent.now(),
  rotated_at    timestamptz,
  CONSTRAINT event_sources_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT event_source_prefix_is_unique UNIQUE (org_id, key_prefix),
  CONSTRAINT event_source_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT event_source_prefix_is_not_blank CHECK (NOT assent.is_blank(key_prefix)),
  CONSTRAINT event_source_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT event_source_prefix_is_short CHECK (length(key_prefix) BETWEEN 1 AND 200),
  CONSTRAINT event_source_secret_is_one_of_standard_webhooks CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$'),
  CONSTRAINT former_event_secret_is_one_of_standard_webhooks
    CHECK (former_secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$')
);
SELECT assent.guard_by_org('assent.event_sources');
