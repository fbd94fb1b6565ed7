-- What the effects worker needs to send each effect to where it goes, once, and to say what became of it.

ALTER TABLE assent.workflow_side_effects_outbox
  ADD COLUMN step_created_at timestamptz,                       -- the step's partition, for its evidence
  ADD COLUMN destination     text    NOT NULL DEFAULT '',       -- whoever gets it, and only so much of it at a time
  ADD COLUMN awaited         boolean NOT NULL DEFAULT false,    -- whether its step rests until the answer is there
  ADD COLUMN retry_ambiguous boolean NOT NULL DEFAULT true,     -- whether it may be sent again when it may have arrived
  ADD COLUMN ambiguous       boolean NOT NULL DEFAULT false,    -- whether an attempt was sent and never answered
  ADD COLUMN worker_id       uuid,                              -- the worker that has claimed it
  ADD COLUMN losses          integer NOT NULL DEFAULT 0,        -- how many workers were lost while they had it
  ADD COLUMN suspect         boolean NOT NULL DEFAULT false,    -- whether it may have killed one
  ADD CONSTRAINT effect_under_way_is_claimed_by_a_worker CHECK ((status = 'processing') = (worker_id IS NOT NULL)),
  DROP CONSTRAINT effect_type_is_known,
  ADD CONSTRAINT effect_type_is_known
    CHECK (effect_type IN ('webhook', 'email', 'sms', 'in_app', 'chat', 'integration'));
UPDATE assent.workflow_side_effects_outbox SET step_created_at = created_at;
ALTER TABLE assent.workflow_side_effects_outbox ALTER COLUMN step_created_at SET NOT NULL;

-- The claim goes from destination to destination, and takes from each what is due first.
CREATE INDEX effects_of_destination_to_process ON assent.workflow_side_effects_outbox
  (org_id, destination, (coalesce(next_retry_at, created_at)), id) WHERE status IN ('pending', 'failed');
CREATE INDEX effects_suspect ON assent.workflow_side_effects_outbox ((coalesce(next_retry_at, created_at)), id)
  WHERE status IN ('pending', 'failed') AND suspect;
CREATE INDEX effects_of_worker ON assent.workflow_side_effects_outbox (worker_id) WHERE status = 'processing';
CREATE INDEX effects_dead ON assent.workflow_side_effects_outbox (org_id, created_at, id) WHERE status = 'dead_letter';

-- What an org's webhooks are signed with. Settings of the org can be read by expressions, so these are not there; the
-- engine's role has no right to this table at all. Two may be active, while receivers change from one to the other.
CREATE TABLE assent.effect_secrets (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  secret     text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  retired_at timestamptz,
  CONSTRAINT effect_secrets_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_secret_is_one_of_standard_webhooks CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$')
);
SELECT assent.guard_by_org('assent.effect_secrets');
