-- Approvals that mean this content: who is asked, who stands in for whom, and what an edit does to a request.
--
-- content_hash is of what people wrote, without the fields that only the workflow writes: what an approver approves.
-- A request is pinned to a version and holds for its content, so the workflow's own notes do not void it (D19) and
-- anybody's edit does, in the transaction of the edit, whoever runs or does not run at that time.

ALTER TABLE assent.entities ADD COLUMN content_hash text;
SELECT set_config('assent.door', 'advance', true);
UPDATE assent.entities SET content_hash = data_hash;
SELECT set_config('assent.door', '', true);
ALTER TABLE assent.entities ALTER COLUMN content_hash SET NOT NULL;

CREATE OR REPLACE VIEW assent.current_entities WITH (security_invoker = true) AS
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash
  FROM assent.entities e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version;

-- What a write may do to an entity's row. Reads the window that the row has under its lock (D17). A window moves without
-- the content that is approved, too.
CREATE OR REPLACE FUNCTION assent.guard_entity_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.entity_type, NEW.partition_id, NEW.amended_from_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.entity_type, OLD.partition_id, OLD.amended_from_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('entity %s keeps its identity', OLD.id);
  END IF;
  IF current_setting('assent.door', true) = 'advance' THEN
    IF (NEW.version, NEW.state, NEW.data_hash, NEW.content_hash)
       IS DISTINCT FROM (OLD.version, OLD.state, OLD.data_hash, OLD.content_hash) THEN
      RAISE EXCEPTION USING ERRCODE = 'AS002',
        MESSAGE = format('the window of entity %s moves without its content', OLD.id);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.version <> OLD.version + 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'AS008',
      MESSAGE = format('entity %s is at version %s and cannot go to %s', OLD.id, OLD.version, NEW.version);
  END IF;
  IF NEW.data_hash <> OLD.data_hash AND OLD.edit_window = 'locked' AND NOT EXISTS (
       SELECT FROM assent.workflow_instances i
        WHERE i.org_id = OLD.org_id AND i.id = NEW.written_by_instance AND i.entity_id = OLD.id
          AND i.status = 'running') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS007',
      MESSAGE = format('entity %s is locked: its content cannot be edited', OLD.id),
      HINT = 'Amend it: the amendment is a new entity that refers to this one.';
  END IF;
  IF NEW.edit_window <> OLD.edit_window AND (NEW.state = OLD.state OR OLD.instance_id IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('the window of entity %s moves only with its state, or with its instance', OLD.id);
  END IF;
  RETURN NEW;
END
$$;

-- Writes changes of entities: head, version and audit row of each, or nothing. An entity that changes more than once
-- in a set has its changes in successive layers; nearly always there is one layer.
CREATE OR REPLACE FUNCTION assent.write_entities(changes jsonb, layers integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  wanted integer;
  written integer;
  disguised integer;
BEGIN
  PERFORM set_config('assent.door', 'mutate', true);
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT c ->> 'org_id' FROM jsonb_array_elements(changes) c) AS asked (org);
  PERFORM FROM jsonb_to_recordset(changes) AS c (layer integer, from_version integer, version integer)
    WHERE coalesce(c.layer NOT BETWEEN 1 AND layers, true) OR (c.from_version IS NULL AND c.version > 1);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS008',
      MESSAGE = 'a change is in no layer, or begins an entity at another version than its first';
  END IF;

  FOR current_layer IN 1 .. layers LOOP
    WITH change AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(changes) AS c (
        layer integer, org_id text, entity_id uuid, version_id uuid, audit_id uuid, entity_type text,
        contract_version integer, partition_id text, from_version integer, version integer, from_state text,
        state text, data jsonb, data_hash text, content_hash text, edit_window text, instance_id uuid, written_by_instance uuid,
        amended_from_id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], on_behalf_of text[],
        contributors text[], action text, changed jsonb, place text, reason text, channel text, trace_id text)
       WHERE c.layer = current_layer
    ), created AS (
      INSERT INTO assent.entities (org_id, id, entity_type, contract_version, partition_id, state, version, data_hash,
             content_hash, edit_window, instance_id, written_by_instance, amended_from_id, created_at, updated_at)
      SELECT org_id, entity_id, entity_type, contract_version, partition_id, state, version, data_hash,
             content_hash, edit_window, instance_id, written_by_instance, amended_from_id, at, at
        FROM change WHERE from_version IS NULL
      ON CONFLICT (org_id, id) DO NOTHING
      RETURNING 1
    ), changed AS (
      UPDATE assent.entities e
         SET version = c.version, state = c.state, data_hash = c.data_hash, content_hash = c.content_hash,
             edit_window = c.edit_window, contract_version = c.contract_version, written_by_instance = c.written_by_instance, updated_at = c.at
        FROM change c
       WHERE e.org_id = c.org_id AND e.id = c.entity_id AND e.version = c.from_version
      RETURNING 1
    ), versioned AS (
      INSERT INTO assent.entity_versions (org_id, id, entity_id, version, entity_type, state, data, data_hash,
             created_at, created_by)
      SELECT org_id, version_id, entity_id, version, entity_type, state, data, data_hash, at, actor_id FROM change
      ON CONFLICT (org_id, entity_id, version) DO NOTHING
    ), audited AS (
      INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
             from_version, to_version, from_state, to_state, changes, place, reason, channel, instance_id, trace_id,
             on_behalf_of, contributors)
      SELECT org_id, audit_id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
             from_version, version, from_state, state, changed, place, reason, channel, written_by_instance, trace_id,
             on_behalf_of,
             -- Whose word the content is, where the caller does not say: the actor's own.
             coalesce(contributors, CASE WHEN written_by_instance IS NULL AND actor_kind <> 'system'
                                         THEN ARRAY[actor_id] ELSE '{}' END)
        FROM change
    )
    SELECT (SELECT count(*) FROM change), (SELECT count(*) FROM created) + (SELECT count(*) FROM changed),
           (SELECT count(*) FROM change c
              JOIN assent.entity_versions v
                ON v.org_id = c.org_id AND v.entity_id = c.entity_id AND v.version = c.from_version
             WHERE v.data_hash = c.data_hash AND v.data <> c.data)
      INTO wanted, written, disguised;
    -- Zero rows is a value: somebody was first. Whoever reads again will be told so properly.
    IF written <> wanted THEN
      RAISE serialization_failure USING
        MESSAGE = format('%s of %s entities have moved on since they were read', wanted - written, wanted);
    END IF;
    -- The guard of the rows knows an edit by its hash, so an edit must not come under the old one.
    IF disguised > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'AS002',
        MESSAGE = format('%s of %s entities have other content under the hash of the version before', disguised, wanted);
    END IF;
  END LOOP;
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- The lives of requests, seats and forms join those of the others; assent.model.moves is the same table in Python.
CREATE OR REPLACE FUNCTION assent.status_may_move(life text, old_status text, new_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN new_status = ANY (CASE life || ':' || old_status
  WHEN 'instance:running'      THEN ARRAY['paused', 'completed', 'failed', 'cancelled']
  WHEN 'instance:paused'       THEN ARRAY['running', 'failed', 'cancelled']
  WHEN 'step:pending'          THEN ARRAY['running', 'cancelled', 'skipped', 'failed']
  WHEN 'step:running'          THEN ARRAY['completed', 'failed', 'skipped', 'cancelled']
  WHEN 'outbox:pending'        THEN ARRAY['processing', 'completed', 'failed', 'dead_letter']
  WHEN 'outbox:processing'     THEN ARRAY['completed', 'failed', 'dead_letter', 'pending']
  WHEN 'outbox:failed'         THEN ARRAY['pending', 'processing', 'completed', 'dead_letter']
  WHEN 'outbox:dead_letter'    THEN ARRAY['pending']
  WHEN 'definition:draft'      THEN ARRAY['published', 'archived']
  WHEN 'definition:published'  THEN ARRAY['archived']
  WHEN 'definition:archived'   THEN ARRAY['published']
  WHEN 'request:pending'       THEN ARRAY['approved', 'rejected', 'returned', 'void', 'cancelled']
  WHEN 'request:approved'      THEN ARRAY['void']
  WHEN 'seat:later'            THEN ARRAY['open', 'closed']
  WHEN 'seat:open'             THEN ARRAY['decided', 'closed']
  WHEN 'form:open'             THEN ARRAY['answered', 'cancelled']
  ELSE ARRAY[]::text[]
END);

ALTER TABLE assent.approval_requests
  ADD COLUMN token_id     text    NOT NULL DEFAULT '0',
  ADD COLUMN generation   integer NOT NULL DEFAULT 0,   -- of the root token: one round of asking (D21)
  ADD COLUMN slot         text    NOT NULL DEFAULT '',
  ADD COLUMN content_hash text,                         -- what the approvers see, and what alone it holds for
  ADD COLUMN originators  text[]  NOT NULL DEFAULT '{}',-- who may not approve it
  ADD COLUMN partition_id text,
  ADD COLUMN title        text,                         -- what the inbox shows of the entity at this version
  ADD COLUMN figure       numeric,
  ADD COLUMN node_name    text,                         -- and of the step that asks
  ADD COLUMN reason       text,                         -- why it ended as it did
  ADD COLUMN applied_step_id uuid,                      -- the gate's step that consumed it
  ADD COLUMN may_repeat   boolean NOT NULL DEFAULT false, -- whether one person may fill several seats
  ADD COLUMN claimed_by   text,
  ADD COLUMN claimed_at   timestamptz,
  DROP CONSTRAINT request_status_is_known,
  ADD CONSTRAINT request_status_is_known
    CHECK (status IN ('pending', 'approved', 'rejected', 'returned', 'void', 'cancelled')),
  ADD CONSTRAINT request_about_an_entity_has_its_content CHECK ((entity_id IS NULL) = (content_hash IS NULL)),
  ADD CONSTRAINT request_claim_is_dated CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  ADD CONSTRAINT only_what_was_applied_has_its_step CHECK (applied_step_id IS NULL OR applied_at IS NOT NULL);
-- The inbox goes by seats.
DROP INDEX assent.approval_requests_open;
-- By entity, for voiding, for who wrote since the last approval, and for evidence. An entity has few requests; and an
-- index that knows nothing of their status leaves room for updates in place.
CREATE INDEX approval_requests_by_entity ON assent.approval_requests (org_id, entity_id, entity_version)
  WHERE entity_id IS NOT NULL;
-- Only what may change, like everything of people's: what was asked stays.
REVOKE UPDATE ON assent.approval_requests FROM assent_engine;
GRANT UPDATE (status, reason, applied_at, applied_step_id, decided_at, claimed_by, claimed_at, originators)
  ON assent.approval_requests TO assent_engine;

-- One person who is asked. An approval asks approvers, a form its assignees.
CREATE TABLE assent.workflow_seats (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  kind        text        NOT NULL DEFAULT 'approval',
  request_id  uuid        NOT NULL,             -- the approval request, or the step of the form
  instance_id uuid        NOT NULL,
  user_id     text        NOT NULL,
  group_name  text        NOT NULL,
  position    integer     NOT NULL,
  via         text        NOT NULL,             -- how this person came to be asked
  email       text,                             -- where they are told
  status      text        NOT NULL DEFAULT 'open',
  replaces_id uuid,                             -- the seat that was reassigned to this one
  note        text,
  created_at  timestamptz NOT NULL DEFAULT assent.now(),
  closed_at   timestamptz,
  CONSTRAINT workflow_seats_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT seat_kind_is_known CHECK (kind IN ('approval', 'form')),
  CONSTRAINT seat_status_is_known CHECK (status IN ('later', 'open', 'decided', 'closed'))
);
CREATE INDEX seats_by_request ON assent.workflow_seats (org_id, request_id);
CREATE INDEX seats_open ON assent.workflow_seats (org_id, user_id, created_at, id) WHERE status = 'open';
CREATE TRIGGER seat_status_moves_forward BEFORE UPDATE ON assent.workflow_seats
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('seat');

CREATE FUNCTION assent.guard_seat() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.kind, NEW.request_id, NEW.instance_id, NEW.user_id, NEW.group_name, NEW.position, NEW.via,
      NEW.email, NEW.replaces_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.kind, OLD.request_id, OLD.instance_id, OLD.user_id, OLD.group_name, OLD.position, OLD.via,
      OLD.email, OLD.replaces_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('seat %s stays whose it is', OLD.id),
      HINT = 'Reassigning closes it and opens another.';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER seats_keep_their_identity BEFORE UPDATE ON assent.workflow_seats
  FOR EACH ROW EXECUTE FUNCTION assent.guard_seat();

ALTER TABLE assent.approval_decisions
  ADD COLUMN seat_id uuid,
  ADD COLUMN outcome text,                      -- an answer of the node's own, when the decision is `returned`
  DROP CONSTRAINT one_decision_per_approver, -- of a seat; who may fill several, the trigger below asks
  DROP CONSTRAINT decision_is_known,
  ADD CONSTRAINT decision_is_known CHECK (decision IN ('approved', 'rejected', 'abstained', 'returned')),
  ADD CONSTRAINT returned_says_as_what CHECK ((decision = 'returned') = (outcome IS NOT NULL)),
  ADD CONSTRAINT one_decision_per_seat UNIQUE (org_id, seat_id);
-- What was answered to a request, also for the guard below.
CREATE INDEX decisions_by_request ON assent.approval_decisions (org_id, request_id);

-- A decision is given on a request that is open, by whoever has the seat or stands in for them, and never by somebody who
-- had a part in what is to be approved: also when somebody writes it by hand.
CREATE FUNCTION assent.guard_decision() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  asked assent.approval_requests;
BEGIN
  SELECT * INTO asked FROM assent.approval_requests r WHERE r.org_id = NEW.org_id AND r.id = NEW.request_id;
  IF NOT FOUND THEN
    RETURN NEW; -- row security or the foreign key refuses it
  END IF;
  IF asked.status <> 'pending' THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('approval request %s is %s: nobody decides it any more', asked.id, asked.status);
  END IF;
  IF asked.originators && ARRAY[NEW.approver_id, NEW.on_behalf_of] THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s had a part in what request %s is about', NEW.approver_id, asked.id);
  END IF;
  IF NOT asked.may_repeat AND EXISTS (
       SELECT FROM assent.approval_decisions d
        WHERE d.org_id = NEW.org_id AND d.request_id = NEW.request_id
          AND ARRAY[d.approver_id, d.on_behalf_of] && ARRAY[NEW.approver_id, NEW.on_behalf_of]) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s fills another seat of request %s', NEW.approver_id, asked.id);
  END IF;
  IF NOT EXISTS (SELECT FROM assent.workflow_seats s
                  WHERE s.org_id = NEW.org_id AND s.id = NEW.seat_id AND s.request_id = NEW.request_id
                    AND s.user_id = coalesce(NEW.on_behalf_of, NEW.approver_id)) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s has no seat at request %s', coalesce(NEW.on_behalf_of, NEW.approver_id), asked.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER decisions_are_of_those_who_are_asked BEFORE INSERT ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.guard_decision();

-- What may change of a request: where it stands, and who has claimed it. Consumed is consumed (WF-03), and only what
-- was approved as it stands now can be.
CREATE FUNCTION assent.guard_request() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(NEW) - '{status,reason,applied_at,applied_step_id,decided_at,claimed_by,claimed_at,originators}'::text[])
     IS DISTINCT FROM
     (to_jsonb(OLD) - '{status,reason,applied_at,applied_step_id,decided_at,claimed_by,claimed_at,originators}'::text[]) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('approval request %s keeps what it asks, of whom, and about which version', OLD.id);
  END IF;
  IF NOT NEW.originators @> OLD.originators THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('approval request %s keeps its originators; others may join them', OLD.id);
  END IF;
  IF OLD.applied_at IS NOT NULL AND (NEW.applied_at, NEW.applied_step_id, NEW.status)
     IS DISTINCT FROM (OLD.applied_at, OLD.applied_step_id, OLD.status) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009', MESSAGE = format('approval request %s was consumed before', OLD.id);
  END IF;
  IF NEW.applied_at IS NOT NULL AND OLD.applied_at IS NULL AND NEW.entity_id IS NOT NULL AND NOT EXISTS (
       SELECT FROM assent.entities e
        WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id AND e.content_hash = NEW.content_hash) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009',
      MESSAGE = format('approval request %s is about another content than entity %s has', OLD.id, OLD.entity_id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER requests_keep_what_they_ask BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_request();
CREATE TRIGGER request_status_moves_forward BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('request');

-- An edit voids what is open or unapplied, in the edit's own transaction.
CREATE FUNCTION assent.void_approvals_of_old_content() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  WITH edited AS MATERIALIZED (
    SELECT n.org_id, n.id, n.version, n.updated_at FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
     WHERE n.content_hash <> o.content_hash
  ), void AS (
    UPDATE assent.approval_requests r
       SET status = 'void', reason = format('edited: version %s', e.version), decided_at = coalesce(r.decided_at, e.updated_at)
      FROM edited e
     WHERE r.org_id = e.org_id AND r.entity_id = e.id AND r.status IN ('pending', 'approved') AND r.applied_at IS NULL
    RETURNING r.org_id, r.id
  )
  UPDATE assent.workflow_seats s SET status = 'closed', closed_at = assent.now()
    FROM void v WHERE s.org_id = v.org_id AND s.request_id = v.id AND s.status IN ('later', 'open');
  RETURN NULL;
END
$$;
CREATE TRIGGER edits_void_approvals AFTER UPDATE ON assent.entities
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.void_approvals_of_old_content();

-- Who stands in for whom, for how long, and in what.
CREATE TABLE assent.approval_delegations (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  from_user    text        NOT NULL,
  to_user      text        NOT NULL,
  starts_at    timestamptz NOT NULL,
  ends_at      timestamptz,                     -- null: until it is revoked
  entity_types text[]      NOT NULL DEFAULT '{}',
  workflows    text[]      NOT NULL DEFAULT '{}',
  reason       text,
  created_by   text        NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  revoked_at   timestamptz,
  CONSTRAINT approval_delegations_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT nobody_stands_in_for_themselves CHECK (from_user <> to_user),
  CONSTRAINT delegation_ends_after_it_starts CHECK (ends_at > starts_at)
);
CREATE INDEX delegations_by_delegate ON assent.approval_delegations (org_id, to_user) WHERE revoked_at IS NULL;
CREATE INDEX delegations_by_person ON assent.approval_delegations (org_id, from_user) WHERE revoked_at IS NULL;

-- Who has a role is asked of all members: those who have left are recorded as skipped.
DROP INDEX assent.members_by_role;
CREATE INDEX members_by_role ON assent.members USING gin (roles);

-- Whose turn it was last, for approvers who are picked from a role in turn.
CREATE TABLE assent.approval_turns (
  org_id  text        NOT NULL,
  role    text        NOT NULL,
  user_id text        NOT NULL,
  last_at timestamptz NOT NULL,
  CONSTRAINT approval_turns_pkey PRIMARY KEY (org_id, role, user_id)
);

SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.workflow_seats', 'assent.approval_delegations',
  'assent.approval_turns']::regclass[]) t;
GRANT SELECT, INSERT, UPDATE (status, closed_at, note) ON assent.workflow_seats TO assent_engine;
GRANT SELECT, INSERT, UPDATE (revoked_at) ON assent.approval_delegations TO assent_engine;
GRANT SELECT, INSERT, UPDATE (last_at) ON assent.approval_turns TO assent_engine;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
