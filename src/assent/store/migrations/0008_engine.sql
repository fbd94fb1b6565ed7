-- What the engine keeps beside its steps, and the indexes of its claims.

-- `version` of an instance counts the effects of its steps; generation and chain_length are part of the projection.
ALTER TABLE assent.workflow_instances
  ADD COLUMN originators jsonb NOT NULL DEFAULT '{"ids": [], "approved": false}', -- whose work is approved next
  ADD COLUMN generation   integer NOT NULL DEFAULT 0,   -- of the newest root token (D3, D24)
  ADD COLUMN chain_length integer NOT NULL DEFAULT 0,   -- automatic calls since somebody or something was waited for
  ADD COLUMN incident     jsonb;                        -- why it is paused or failed: code, message, node

-- The claim goes org by org, oldest first, so that one org's backlog is not another's wait. What is due at once and what
-- is to be tried again at some time are two indexes: so a claim finds the orgs that have work now, without a look at those
-- that have not. What waits for a pause to end (infinity) is in neither.
CREATE INDEX events_of_org_due ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND next_retry_at IS NULL;
CREATE INDEX events_of_org_to_retry ON assent.workflow_events_outbox (org_id, next_retry_at)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND next_retry_at < 'infinity';
-- The same of events under a key, which are of no instance yet.
CREATE INDEX arrivals_of_org ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NULL;

-- What is open for an instance, in order: read under its lock, by workers and by commands.
CREATE INDEX events_of_instance_to_process ON assent.workflow_events_outbox (org_id, instance_id, created_at, id)
  WHERE status IN ('pending', 'failed');

-- An event under a key that nobody waits for yet (D32): kept for the first who will.
CREATE TABLE assent.workflow_kept_events (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  event_key  text        NOT NULL,
  payload    jsonb       NOT NULL,
  created_at timestamptz NOT NULL,
  CONSTRAINT workflow_kept_events_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT kept_event_key_is_not_blank CHECK (NOT assent.is_blank(event_key))
);
CREATE INDEX kept_events_by_key ON assent.workflow_kept_events (org_id, event_key, id);
SELECT assent.guard_by_org('assent.workflow_kept_events');
GRANT SELECT, INSERT, DELETE ON assent.workflow_kept_events TO assent_engine;

-- Keys under which flows were started. A key stands for one start for good: it outlives the instance, which retention
-- may delete, and is never used for another flow or input.
CREATE TABLE assent.workflow_start_keys (
  org_id       text        NOT NULL,
  key          text        NOT NULL,  -- as in workflow_instances.idempotency_key: behind its partition, if it is of one
  instance_id  uuid        NOT NULL,  -- no foreign key: the instance may be gone
  request_hash text        NOT NULL,  -- of the flow and the input
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_start_keys_pkey PRIMARY KEY (org_id, key),
  CONSTRAINT start_key_is_not_blank CHECK (NOT assent.is_blank(key))
);
CREATE TRIGGER start_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_start_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER start_keys_are_never_emptied BEFORE TRUNCATE ON assent.workflow_start_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_start_keys');
GRANT SELECT, INSERT ON assent.workflow_start_keys TO assent_engine;

-- A worker notes whose events it is about to process before it starts (D26). A note whose worker is gone names the
-- instances that may have killed it; they are run again one by one.
CREATE TABLE assent.workflow_batches (
  id           uuid        NOT NULL,
  instance_ids uuid[]      NOT NULL,
  started_at   timestamptz NOT NULL,
  CONSTRAINT workflow_batches_pkey PRIMARY KEY (id)
);
ALTER TABLE assent.workflow_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.workflow_batches USING (false);
