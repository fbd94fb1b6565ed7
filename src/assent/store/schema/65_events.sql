-- Events that advance instances, the receipts of events and effects, and the sources of events from outside.

CREATE TABLE assent.workflow_events_outbox (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid,                   -- null: an event under a key, for the instances that wait for it
  entity_version        integer     NOT NULL DEFAULT 0,
  definition_version    integer,
  event_type            text        NOT NULL,
  payload_json          jsonb       NOT NULL DEFAULT '{}',
  event_idempotency_key text        NOT NULL,
  trace_id              text,
  status                text        NOT NULL DEFAULT 'pending',
  attempts              integer     NOT NULL DEFAULT 0,
  attempts_max          integer     NOT NULL DEFAULT 5,
  retry_at              timestamptz,
  claimed_at            timestamptz,
  completed_at          timestamptz,
  error                 text,
  CONSTRAINT workflow_events_outbox_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT event_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'dead')),
  CONSTRAINT event_attempts_are_counted CHECK (attempts >= 0 AND attempts_max >= 1)
) PARTITION BY RANGE (created_at);
CREATE INDEX events_to_process ON assent.workflow_events_outbox (status, retry_at, created_at)
  WHERE status IN ('pending', 'failed');
CREATE INDEX events_by_instance ON assent.workflow_events_outbox (org_id, instance_id);
-- The claim goes org by org, oldest first, so that one org's backlog is not another's wait. What is due at once and what
-- is to be tried again at some time are two indexes: so a claim finds the orgs that have work now, without a look at those
-- that have not. What waits for a pause to end (infinity) is in neither.
CREATE INDEX events_of_org_due ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at IS NULL;
CREATE INDEX events_of_org_to_retry ON assent.workflow_events_outbox (org_id, retry_at)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at < 'infinity';
-- The same of events under a key, which are of no instance yet.
CREATE INDEX arrivals_of_org ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NULL;
-- What is open for an instance, in order: read under its lock, by workers and by commands. Their statements say NOT IN too,
-- which matches no other index: by the statistics of a quiet server nothing is open, and events_to_process, with whatever is
-- open in all orgs, looks as good.
CREATE INDEX events_of_instance_to_process ON assent.workflow_events_outbox (org_id, instance_id, created_at, id)
  WHERE status NOT IN ('completed', 'dead', 'processing');
-- Which expiries were emitted.
CREATE INDEX events_of_expiry ON assent.workflow_events_outbox (org_id, instance_id)
  WHERE event_type = 'on_expired';
CREATE INDEX events_claimed ON assent.workflow_events_outbox (claimed_at) WHERE status = 'processing';
-- Finished rows by age, for pruning.
CREATE INDEX events_completed ON assent.workflow_events_outbox (completed_at) WHERE status = 'completed';
-- The same of one org, for its latency.
CREATE INDEX events_of_org_completed ON assent.workflow_events_outbox (org_id, completed_at) WHERE status = 'completed';
-- Dead letters are found without reading the events that went well.
CREATE INDEX events_dead ON assent.workflow_events_outbox (org_id, created_at, id) WHERE status = 'dead';
CREATE TRIGGER event_status_moves_forward BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_events_outbox');
CREATE TRIGGER event_claim_is_dated BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status <> 'processing') EXECUTE FUNCTION assent.date_claim();
CREATE TABLE assent.workflow_events_outbox_default PARTITION OF assent.workflow_events_outbox DEFAULT;
SELECT assent.guard_by_org('assent.workflow_events_outbox');
SELECT assent.guard_by_org('assent.workflow_events_outbox_default');
GRANT SELECT, INSERT, UPDATE ON assent.workflow_events_outbox TO assent_engine;

-- An event without an instance keeps its receipt under the nil UUID.
CREATE TABLE assent.workflow_outbox_receipts (
  org_id                text        NOT NULL,
  instance_id           uuid        NOT NULL,
  source_table          text        NOT NULL,
  event_idempotency_key text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_outbox_receipts_pkey PRIMARY KEY (org_id, instance_id, source_table, event_idempotency_key),
  CONSTRAINT receipt_is_for_events_or_side_effects CHECK (source_table IN ('events', 'side_effects'))
);
-- Append-only; prune_receipts and delete_ended_instances alone delete.
CREATE TRIGGER outbox_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_outbox_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER outbox_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_outbox_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_outbox_receipts');
GRANT SELECT, INSERT ON assent.workflow_outbox_receipts TO assent_engine;

-- An event under a key for which nothing waits yet: kept for the first step that will.
CREATE TABLE assent.workflow_kept_events (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  event_key    text        NOT NULL,
  partition_id text,                            -- the partition that it was emitted in; null: the whole org
  payload      jsonb       NOT NULL,
  created_at   timestamptz NOT NULL,
  CONSTRAINT workflow_kept_events_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT kept_event_key_is_not_blank CHECK (NOT assent.is_blank(event_key))
);
CREATE INDEX kept_events_by_key ON assent.workflow_kept_events (org_id, event_key, id);
-- Kept events that nothing waited for are found by their age.
CREATE INDEX kept_events_by_age ON assent.workflow_kept_events (created_at);
SELECT assent.guard_by_org('assent.workflow_kept_events');
GRANT SELECT, INSERT, DELETE ON assent.workflow_kept_events TO assent_engine;

-- Who emits events to us, and how we verify it: an event whose key begins so is taken only with a signature. Like
-- effect_secrets the table is the owner's to read. Two secrets hold, while a sender changes from one to the other.
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
CREATE TRIGGER event_sources_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.event_sources FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('event_source', 'create', 'delete', 'name', 'key_prefix',
    'key_prefix rotated_at');
SELECT assent.guard_by_org('assent.event_sources');
-- Which keys need a signature, for steps that emit events; the secrets stay with the owner.
GRANT SELECT (org_id, key_prefix) ON assent.event_sources TO assent_engine;

-- Emits an event under a key; false where this cause emitted it before (WF-11). For programs in any language, in their own
-- transaction. It runs as its owner, since the caller has no right to write, and holds itself to the org of the transaction
-- (`assent.org_id`) by name.
CREATE FUNCTION assent.emit_event(key text, data jsonb DEFAULT NULL, cause text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  org text := assent.org_id();
  event_id uuid := gen_random_uuid();
  emitted_by text := coalesce(cause, event_id::text);
  receipt text;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF coalesce(assent.is_blank(key), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs a key', DETAIL = format('Found %L.', key);
  END IF;
  IF assent.is_blank(cause) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the cause of an event is not blank',
      DETAIL = format('Found %L.', cause), HINT = 'Leave it out where there is none.';
  END IF;
  -- As assent.model.ids.arrival_key makes it: an event is its key and its cause, by whichever way it comes.
  receipt := encode(sha256(convert_to(
    format('7:arrival0:%s:%s%s:%s', length(key), key, length(emitted_by), emitted_by), 'UTF8')), 'hex');
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  VALUES (org, '00000000-0000-0000-0000-000000000000', 'events', receipt, assent.now())
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, event_type, payload_json, event_idempotency_key)
  VALUES (org, assent.now(), event_id, 'on_event', jsonb_build_object('cause', emitted_by, 'key', key, 'data', data), receipt);
  PERFORM pg_notify('assent_events', '');
  RETURN true;
END
$$;
GRANT EXECUTE ON FUNCTION assent.emit_event(text, jsonb, text) TO assent_engine, assent_client;

-- The claims of workers. Each goes from org to org by one step in an index. A server that was quiet has statistics by which
-- nothing is open: then sorting whatever is open looks as cheap to PostgreSQL as the first row by index, and each step reads the
-- whole backlog. So sorts are no choice here, and with that the plan is the same for all arguments and made once a session.

-- Locks instances with events that are due and whose locks are free, of the first orgs behind one that have such events: each
-- org a fair share of the batch, oldest first. Every org that was looked at is in the answer, also where all its instances are
-- busy; so the caller knows where to go on. Two workers never claim the same. New events of before `since` are not looked at: the
-- index still has an entry of each that was processed while another session's snapshot may see it.
CREATE FUNCTION assent.claim_instances(batch_max integer, behind text, since timestamptz)
RETURNS TABLE (org_id text, instance_id uuid, created_at timestamptz)
LANGUAGE plpgsql SET enable_sort = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE fresh (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at IS NULL AND org_id > behind
        AND created_at >= since
      ORDER BY org_id, created_at, id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL AND e.retry_at IS NULL
               AND e.org_id > fresh.org_id AND e.created_at >= since
             ORDER BY e.org_id, e.created_at, e.id LIMIT 1), fresh.n + 1
      FROM fresh WHERE fresh.org_id IS NOT NULL AND fresh.n < batch_max
  ), retried (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at < 'infinity'
        AND retry_at <= (SELECT assent.now()) AND org_id > behind
      ORDER BY org_id, retry_at LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL AND e.retry_at < 'infinity'
               AND e.retry_at <= (SELECT assent.now()) AND e.org_id > retried.org_id
             ORDER BY e.org_id, e.retry_at LIMIT 1), retried.n + 1
      FROM retried WHERE retried.org_id IS NOT NULL AND retried.n < batch_max
  ), org AS MATERIALIZED (
    SELECT org_id FROM (SELECT org_id FROM fresh UNION SELECT org_id FROM retried) AS found
     WHERE org_id IS NOT NULL ORDER BY org_id LIMIT batch_max
  ), share AS (SELECT greatest(1, batch_max / greatest(1, count(*)::integer)) AS events FROM org)
  SELECT org.org_id, due.instance_id, min(due.created_at) AS created_at
    FROM org CROSS JOIN share LEFT JOIN LATERAL (
      SELECT first.instance_id, first.created_at FROM (
        -- Not sorted together: that would read all of a backlog. What is tried again was there before what is new.
        (SELECT e.instance_id, NULL::timestamptz AS created_at FROM assent.workflow_events_outbox e
          WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL
            AND e.retry_at < 'infinity' AND e.retry_at <= (SELECT assent.now())
            -- Batches that run hold their instances' locks; of those that died, recovery finds out which event did it.
            AND e.instance_id NOT IN (SELECT unnest(instance_ids) FROM assent.workflow_batches)
          -- The limit keeps the locks above it: below, a plan that sorts would lock the whole backlog. Others may hold
          -- the oldest, so more are looked at than are wanted.
          ORDER BY e.retry_at LIMIT share.events * 50)
        UNION ALL
        (SELECT e.instance_id, e.created_at FROM assent.workflow_events_outbox e
          WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL
            AND e.retry_at IS NULL AND e.created_at >= since
            AND e.instance_id NOT IN (SELECT unnest(instance_ids) FROM assent.workflow_batches)
          ORDER BY e.created_at, e.id LIMIT share.events * 50)) AS first
       WHERE pg_try_advisory_xact_lock(hashtextextended(first.instance_id::text, 0))
       LIMIT share.events) AS due ON true
   GROUP BY 1, 2 ORDER BY 1;
END
$$;

-- Claims events under a key that are of no instance yet, of the first orgs behind one that have such events: each org a fair
-- share, oldest first. Every org that was looked at is in the answer.
CREATE FUNCTION assent.claim_arrivals(batch_max integer, behind text, since timestamptz)
RETURNS TABLE (org_id text, created_at timestamptz, id uuid, payload_json jsonb, trace_id text)
LANGUAGE plpgsql SET enable_sort = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE found (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NULL AND event_type = 'on_event'
        AND (retry_at IS NULL OR retry_at <= (SELECT assent.now())) AND org_id > behind AND created_at >= since
      ORDER BY org_id, created_at, id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NULL AND e.event_type = 'on_event'
               AND (e.retry_at IS NULL OR e.retry_at <= (SELECT assent.now())) AND e.org_id > found.org_id
               AND e.created_at >= since
             ORDER BY e.org_id, e.created_at, e.id LIMIT 1), found.n + 1
      FROM found WHERE found.org_id IS NOT NULL AND found.n < batch_max
  ), org AS MATERIALIZED (SELECT org_id FROM found WHERE org_id IS NOT NULL),
  share AS (SELECT greatest(1, batch_max / greatest(1, count(*)::integer)) AS events FROM org)
  SELECT org.org_id, arrival.created_at, arrival.id, arrival.payload_json, arrival.trace_id
    FROM org CROSS JOIN share LEFT JOIN LATERAL (
      SELECT e.created_at, e.id, e.payload_json, e.trace_id FROM assent.workflow_events_outbox e
       WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NULL
         AND e.event_type = 'on_event' AND (e.retry_at IS NULL OR e.retry_at <= (SELECT assent.now())) AND e.created_at >= since
       ORDER BY e.created_at, e.id LIMIT share.events FOR UPDATE SKIP LOCKED) AS arrival ON true
   ORDER BY 1, 2, 3;
END
$$;
