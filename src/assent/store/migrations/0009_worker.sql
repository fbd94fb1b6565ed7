-- What the background duties need to find their work without looking at everything else.

-- An integer of milliseconds ends after 24 days; people and timers take longer.
ALTER TABLE assent.workflow_step_executions ALTER COLUMN duration_ms TYPE bigint;

-- Timers are found across orgs by their time; steps_to_resume has the org first.
CREATE INDEX steps_due ON assent.workflow_step_executions (resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';

-- Which expiries were told.
CREATE INDEX events_of_expiry ON assent.workflow_events_outbox (org_id, instance_id)
  WHERE event_type = 'on_expired';

-- Who waits for somebody or something. An index of its own: of an instance's steps nearly all have ended.
CREATE INDEX steps_resting ON assent.workflow_step_executions (org_id, instance_id) WHERE status = 'pending';

-- A claim is dated by the database, so that no worker can forget to, and a lease has a beginning.
ALTER TABLE assent.workflow_events_outbox ADD COLUMN claimed_at timestamptz;
ALTER TABLE assent.workflow_side_effects_outbox ADD COLUMN claimed_at timestamptz;
UPDATE assent.workflow_events_outbox SET claimed_at = assent.now() WHERE status = 'processing';
UPDATE assent.workflow_side_effects_outbox SET claimed_at = assent.now() WHERE status = 'processing';

CREATE FUNCTION assent.date_claim() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.claimed_at := assent.now();
  RETURN NEW;
END
$$;
CREATE TRIGGER event_claim_is_dated BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status <> 'processing') EXECUTE FUNCTION assent.date_claim();
CREATE TRIGGER effect_claim_is_dated BEFORE UPDATE ON assent.workflow_side_effects_outbox
  FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status <> 'processing') EXECUTE FUNCTION assent.date_claim();

CREATE INDEX events_claimed ON assent.workflow_events_outbox (claimed_at) WHERE status = 'processing';

-- Finished rows by age, for pruning.
CREATE INDEX events_completed ON assent.workflow_events_outbox (completed_at) WHERE status = 'completed';
CREATE INDEX effects_completed ON assent.workflow_side_effects_outbox (completed_at) WHERE status = 'completed';

-- Ended instances stay, so that which of them still have receipts must be known without asking each.
ALTER TABLE assent.workflow_instances ADD COLUMN receipts_pruned_at timestamptz;
CREATE INDEX instances_to_prune ON assent.workflow_instances (completed_at)
  WHERE completed_at IS NOT NULL AND receipts_pruned_at IS NULL;

-- Deletes the receipts of instances that ended before a time, a number of instances at once. Terminal is final (D27):
-- what comes late is ignored without a receipt.
CREATE FUNCTION assent.prune_receipts(ended_before timestamptz, instances_max integer)
RETURNS TABLE (instances bigint, step_receipts bigint, outbox_receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH ended AS MATERIALIZED (
    SELECT org_id, id FROM assent.workflow_instances
     WHERE completed_at < ended_before AND receipts_pruned_at IS NULL
     ORDER BY completed_at LIMIT instances_max
     FOR NO KEY UPDATE SKIP LOCKED
  ), marked AS (
    UPDATE assent.workflow_instances i SET receipts_pruned_at = assent.now()
      FROM ended e WHERE i.org_id = e.org_id AND i.id = e.id
    RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  ), of_outboxes AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM marked), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_outboxes);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- How far the evidence of each org's old steps has been compacted: through this step, in the order of the primary key.
CREATE TABLE assent.step_compactions (
  org_id          text        NOT NULL,
  step_created_at timestamptz NOT NULL,
  step_id         uuid        NOT NULL,
  CONSTRAINT step_compactions_pkey PRIMARY KEY (org_id)
);
SELECT assent.guard_by_org('assent.step_compactions');

-- Approvals outlive the instance that asked for them, when retention deletes it: like versions and audit they are
-- evidence about the entity. Their reference to the step was a plain id from the beginning.
ALTER TABLE assent.approval_requests DROP CONSTRAINT request_is_of_an_instance;

-- Deletes instances that ended longer ago than their org keeps them, with all that is theirs alone. An org without a
-- policy keeps everything. An instance with a dead letter, or with something still to be done, stays.
CREATE FUNCTION assent.delete_ended_instances(instances_max integer)
RETURNS TABLE (instances bigint, steps bigint, events bigint, effects bigint, receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH policy AS MATERIALIZED (
    -- A setting is whatever an org wrote there: one that is no such number of days is no policy, and no error.
    SELECT org_id, assent.now() - make_interval(days => days::integer) AS ended_before
      FROM assent.orgs
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'retention_days')
                                  WHEN 'number' THEN (settings ->> 'retention_days')::numeric END) AS told (days)
     WHERE days BETWEEN 1 AND 36500
  ), ended AS MATERIALIZED (
    SELECT i.org_id, i.id
      FROM policy p
      JOIN assent.workflow_instances i ON i.org_id = p.org_id
       AND i.status IN ('completed', 'failed', 'cancelled') AND i.updated_at < p.ended_before
     WHERE i.completed_at < p.ended_before
       AND NOT EXISTS (SELECT FROM assent.workflow_events_outbox e
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status <> 'completed')
       AND NOT EXISTS (SELECT FROM assent.workflow_side_effects_outbox e
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status <> 'completed')
     LIMIT instances_max
     FOR UPDATE OF i SKIP LOCKED
  ), of_instances AS (
    DELETE FROM assent.workflow_instances i USING ended x WHERE i.org_id = x.org_id AND i.id = x.id RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_executions s
     USING ended x WHERE s.org_id = x.org_id AND s.instance_id = x.id RETURNING 1
  ), of_events AS (
    DELETE FROM assent.workflow_events_outbox e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING 1
  ), of_effects AS (
    DELETE FROM assent.workflow_side_effects_outbox e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING 1
  ), step_receipts AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  ), outbox_receipts AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  )
  SELECT (SELECT count(*) FROM of_instances), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_events),
         (SELECT count(*) FROM of_effects),
         (SELECT count(*) FROM step_receipts) + (SELECT count(*) FROM outbox_receipts);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
