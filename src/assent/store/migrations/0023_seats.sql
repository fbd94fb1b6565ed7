-- Who may fill a seat: the rule of `assent.engine.seats`, said again where the database can know it.

-- Nobody makes themselves the stand-in of another. Those who did before stand in no more.
UPDATE assent.approval_delegations SET revoked_at = assent.now()
 WHERE created_by = to_user AND revoked_at IS NULL;
ALTER TABLE assent.approval_delegations ADD CONSTRAINT nobody_makes_themselves_a_stand_in
  CHECK (created_by <> to_user OR revoked_at IS NOT NULL);

-- What waits for a reader in the seats of an owner, themselves or whom they stand in for: the open seats that they could
-- fill now, approvals and forms alike. `is_present` says whether the owner is active now, `held` which roles they hold;
-- the caller asked the directory, which need not be `members`. LATERAL and OFFSET 0: look-ups by key for each seat, in
-- the order of the seats, whatever the statistics say.
DROP FUNCTION assent.waiting_for(text, text, text, timestamptz);
CREATE FUNCTION assent.waiting_for(of_org text, reader text, seated text, at timestamptz, is_present boolean, held text[])
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
             o.title, o.figure, o.due_at, o.requested_by, o.claimed_by, o.originators, o.may_repeat, o.slot, o.generation
        FROM assent.approval_requests o WHERE s.kind = 'approval' AND o.org_id = s.org_id AND o.id = s.request_id
      UNION ALL
      -- Nobody is too close to a form to fill it in.
      SELECT o.node_id, o.node_name, o.entity_type, o.entity_id, o.entity_version, o.title, o.figure, o.due_at,
             o.requested_by, o.claimed_by, '{}', true, NULL, NULL
        FROM assent.workflow_forms o WHERE s.kind = 'form' AND o.org_id = s.org_id AND o.id = s.request_id
      OFFSET 0) AS r
   CROSS JOIN LATERAL (
      SELECT * FROM assent.workflow_instances o WHERE o.org_id = s.org_id AND o.id = s.instance_id OFFSET 0) AS i
   WHERE s.org_id = of_org AND s.user_id = seated AND s.status = 'open'
     AND NOT r.originators && ARRAY[reader, seated]
     AND (r.may_repeat OR NOT EXISTS (
           SELECT FROM assent.approval_requests o
            WHERE o.org_id = s.org_id AND o.instance_id = s.instance_id AND o.slot = r.slot
              AND o.generation = r.generation AND o.status NOT IN ('void', 'cancelled')
              AND EXISTS (SELECT FROM assent.approval_decisions d
                           WHERE d.org_id = o.org_id AND d.request_id = o.id
                             AND (d.approver_id IN (reader, seated) OR d.on_behalf_of IN (reader, seated)) OFFSET 0)
           OFFSET 0))
     AND (seated = reader OR EXISTS (
           SELECT FROM assent.approval_delegations d
            WHERE d.org_id = of_org AND d.to_user = reader AND d.from_user = seated AND d.revoked_at IS NULL
              AND d.starts_at <= at AND (d.ends_at IS NULL OR d.ends_at > at)
              AND (d.entity_types = '{}' OR r.entity_type = ANY (d.entity_types))
              AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows))))
     AND (s.via = 'starter' OR (is_present AND (NOT starts_with(s.via, 'role:') OR substr(s.via, 6) = ANY (held))))
$$;

-- A decision is given on a request that is open, in a seat that is asked, by its owner or by somebody who stands in for
-- them now; never by somebody who had a part in what is to be approved, who fills another seat of the round, or who was
-- found among the members and is not what they were asked as any more. Also when somebody writes it by hand.
CREATE OR REPLACE FUNCTION assent.guard_decision() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  asked assent.approval_requests;
  seat assent.workflow_seats;
  owner CONSTANT text := coalesce(NEW.on_behalf_of, NEW.approver_id);
  names CONSTANT text[] := ARRAY[NEW.approver_id, owner];
BEGIN
  SELECT * INTO asked FROM assent.approval_requests r WHERE r.org_id = NEW.org_id AND r.id = NEW.request_id;
  IF NOT FOUND THEN
    RETURN NEW; -- row security or the foreign key refuses it
  END IF;
  IF asked.status <> 'pending' THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('approval request %s is %s: nobody decides it any more', asked.id, asked.status);
  END IF;
  IF asked.originators && names THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s had a part in what request %s is about', NEW.approver_id, asked.id);
  END IF;
  IF NOT asked.may_repeat AND EXISTS (
       SELECT FROM assent.approval_requests o
         JOIN assent.approval_decisions d ON d.org_id = o.org_id AND d.request_id = o.id
        WHERE o.org_id = asked.org_id AND o.instance_id = asked.instance_id AND o.slot = asked.slot
          AND o.generation = asked.generation AND o.status NOT IN ('void', 'cancelled')
          AND ARRAY[d.approver_id, d.on_behalf_of] && names) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s fills another seat of the round of request %s', NEW.approver_id, asked.id);
  END IF;
  -- The engine writes that a seat is decided before it writes the decision.
  SELECT * INTO seat FROM assent.workflow_seats s
   WHERE s.org_id = NEW.org_id AND s.id = NEW.seat_id AND s.request_id = NEW.request_id AND s.user_id = owner
     AND s.status IN ('open', 'decided');
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s has no seat at request %s', owner, asked.id);
  END IF;
  -- A minute each way, because the clock by which a delegation holds need not be the server's.
  IF owner <> NEW.approver_id AND NOT EXISTS (
       SELECT FROM assent.approval_delegations d
         JOIN assent.workflow_instances i ON i.org_id = asked.org_id AND i.id = asked.instance_id
        WHERE d.org_id = asked.org_id AND d.to_user = NEW.approver_id AND d.from_user = owner AND d.revoked_at IS NULL
          AND d.starts_at <= assent.now() + interval '1 minute'
          AND (d.ends_at IS NULL OR d.ends_at > assent.now() - interval '1 minute')
          AND (d.entity_types = '{}' OR asked.entity_type = ANY (d.entity_types))
          AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows))) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s does not stand in for %s at request %s', NEW.approver_id, owner, asked.id);
  END IF;
  -- Only where they were found among the members: an application may keep its people elsewhere.
  IF asked.approvers @> '{"directory": "members"}' AND (
       EXISTS (SELECT FROM assent.members m WHERE m.org_id = asked.org_id AND m.user_id = ANY (names) AND NOT m.active)
       OR (starts_with(seat.via, 'role:') AND NOT EXISTS (
             SELECT FROM assent.members m
              WHERE m.org_id = asked.org_id AND m.user_id = owner AND m.roles @> ARRAY[substr(seat.via, 6)]))) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s is not what they were asked as at request %s any more (%s)', owner, asked.id, seat.via);
  END IF;
  RETURN NEW;
END
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.waiting_for(text, text, text, timestamptz, boolean, text[]) TO assent_engine;
