-- Forms that people fill in: what is asked, of whom, who has taken it on, and what they have written so far.
--
-- The step is the truth about how a form ended; this row is what people work with until then, and goes with its
-- instance when retention deletes it.

CREATE TABLE assent.workflow_forms (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,          -- of the step; seats refer to it as their request
  instance_id    uuid        NOT NULL,
  node_id        text        NOT NULL,
  node_name      text        NOT NULL,
  label          text,
  entity_type    text,
  entity_id      uuid,
  entity_version integer     NOT NULL DEFAULT 0,
  partition_id   text,
  title          text,                          -- what the inbox shows of the entity as it was then
  figure         numeric,
  schema_json    jsonb       NOT NULL,          -- JSON Schema 2020-12 of what is to be filled in
  answers        text[]      NOT NULL,          -- the events with which it can be sent
  assignee       jsonb       NOT NULL,          -- who was sought, found and skipped: frozen, whoever is reassigned later
  requested_by   text        NOT NULL,
  status         text        NOT NULL DEFAULT 'open',
  reason         text,                          -- why it ended as it did
  claimed_by     text,
  claimed_at     timestamptz,
  draft_json     jsonb,
  draft_by       text,
  draft_at       timestamptz,
  draft_problems jsonb,
  due_at         timestamptz,
  created_at     timestamptz NOT NULL DEFAULT assent.now(),
  ended_at       timestamptz,
  CONSTRAINT workflow_forms_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT form_status_is_known CHECK (status IN ('open', 'answered', 'cancelled')),
  CONSTRAINT form_ends_when_its_status_says_so CHECK ((status = 'open') = (ended_at IS NULL)),
  CONSTRAINT form_claim_is_dated CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  CONSTRAINT form_draft_is_signed_dated_and_checked
    CHECK (num_nulls(draft_json, draft_by, draft_at, draft_problems) IN (0, 4))
);
CREATE INDEX forms_by_instance ON assent.workflow_forms (org_id, instance_id);

CREATE TRIGGER form_status_moves_forward BEFORE UPDATE ON assent.workflow_forms
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('form');

-- What may change of a form: where it stands, who has claimed it, and the draft; nothing once it has ended.
CREATE FUNCTION assent.guard_form() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] :=
    '{status,reason,claimed_by,claimed_at,draft_json,draft_by,draft_at,draft_problems,ended_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s keeps what it asks, and of whom', OLD.id);
  END IF;
  IF OLD.status <> 'open' AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s is %s and stays as it is', OLD.id, OLD.status);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER forms_keep_what_they_ask BEFORE UPDATE ON assent.workflow_forms
  FOR EACH ROW EXECUTE FUNCTION assent.guard_form();

-- What waits for a reader in the seats of somebody, themselves or whom they stand in for: the open seats with what they
-- ask, approvals and forms alike. Whoever had a part in what is to be approved, or has answered it, is not asked by it any
-- more. LATERAL and OFFSET 0: look-ups by key for each seat, in the order of the seats, whatever the statistics say.
CREATE FUNCTION assent.waiting_for(of_org text, reader text, seated text, at timestamptz)
RETURNS TABLE (id uuid, kind text, bucket text, user_id text, created_at timestamptz, via text, group_name text,
  request_id uuid, instance_id uuid, workflow text, node_id text, node_name text, entity_type text, entity_id uuid,
  entity_version integer, state text, title text, figure numeric, due_at timestamptz, requested_by text, claimed_by text)
LANGUAGE sql STABLE AS $$
  SELECT s.id, s.kind, CASE WHEN seated <> reader THEN 'delegated'
                            WHEN starts_with(s.via, 'role:') THEN 'roles' ELSE 'mine' END,
         s.user_id, s.created_at, s.via, s.group_name, s.request_id, s.instance_id, i.workflow_id, r.node_id,
         r.node_name, r.entity_type, r.entity_id, r.entity_version,
         (SELECT e.state FROM assent.entities e WHERE e.org_id = s.org_id AND e.id = r.entity_id), r.title, r.figure,
         r.due_at, r.requested_by, r.claimed_by
    FROM assent.workflow_seats s
   CROSS JOIN LATERAL (
      SELECT o.node_id, coalesce(o.node_name, o.node_id) AS node_name, o.entity_type, o.entity_id, o.entity_version,
             o.title, o.figure, o.due_at, o.requested_by, o.claimed_by, o.originators
        FROM assent.approval_requests o WHERE s.kind = 'approval' AND o.org_id = s.org_id AND o.id = s.request_id
      UNION ALL
      -- Nobody is too close to a form to fill it in.
      SELECT o.node_id, o.node_name, o.entity_type, o.entity_id, o.entity_version, o.title, o.figure, o.due_at,
             o.requested_by, o.claimed_by, '{}'
        FROM assent.workflow_forms o WHERE s.kind = 'form' AND o.org_id = s.org_id AND o.id = s.request_id
      OFFSET 0) AS r
   CROSS JOIN LATERAL (
      SELECT * FROM assent.workflow_instances o WHERE o.org_id = s.org_id AND o.id = s.instance_id OFFSET 0) AS i
   WHERE s.org_id = of_org AND s.user_id = seated AND s.status = 'open'
     AND reader <> ALL (r.originators)
     AND NOT EXISTS (SELECT FROM assent.approval_decisions d
                      WHERE d.org_id = s.org_id AND d.request_id = s.request_id AND d.approver_id = reader)
     AND (seated = reader OR EXISTS (
           SELECT FROM assent.approval_delegations d
            WHERE d.org_id = of_org AND d.to_user = reader AND d.from_user = seated AND d.revoked_at IS NULL
              AND d.starts_at <= at AND (d.ends_at IS NULL OR d.ends_at > at)
              AND (d.entity_types = '{}' OR r.entity_type = ANY (d.entity_types))
              AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows))))
$$;

-- Deletes instances that ended longer ago than their org keeps them, with all that is theirs alone: also their forms
-- and those forms' seats. Approvals stay: they are evidence about the entity. See 0009.
CREATE OR REPLACE FUNCTION assent.delete_ended_instances(instances_max integer)
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
  ), of_forms AS (
    DELETE FROM assent.workflow_forms f
     USING ended x WHERE f.org_id = x.org_id AND f.instance_id = x.id RETURNING f.org_id, f.id
  ), of_seats AS (
    DELETE FROM assent.workflow_seats s
     USING of_forms f WHERE s.org_id = f.org_id AND s.request_id = f.id AND s.kind = 'form'
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

SELECT assent.guard_by_org('assent.workflow_forms');
GRANT SELECT, INSERT,
      UPDATE (status, reason, claimed_by, claimed_at, draft_json, draft_by, draft_at, draft_problems, ended_at)
   ON assent.workflow_forms TO assent_engine;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.waiting_for(text, text, text, timestamptz) TO assent_engine;
