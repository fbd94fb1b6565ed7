-- Approvals: chains are templates, requests are what is asked at one version, decisions are what people decided. These tables
-- are the authority; a step only refers to its request.

CREATE TABLE assent.approval_chains (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  name        text        NOT NULL,
  entity_type text,                             -- null: for any
  active      boolean     NOT NULL DEFAULT true,
  created_at  timestamptz NOT NULL DEFAULT assent.now(),
  updated_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_chains_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT approval_chain_name_is_unique UNIQUE (org_id, name)
);
CREATE TRIGGER chains_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chains FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain', 'create', 'delete', 'id', 'name', 'entity_type active');
SELECT assent.guard_by_org('assent.approval_chains');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.approval_chains TO assent_engine;
GRANT SELECT ON assent.approval_chains TO assent_client;

CREATE TABLE assent.approval_chain_steps (
  org_id      text    NOT NULL,
  chain_id    uuid    NOT NULL,
  position    integer NOT NULL,
  name        text    NOT NULL,
  approvers   jsonb   NOT NULL,
  mode        text    NOT NULL DEFAULT 'any',
  quorum      integer,
  due_seconds integer,
  CONSTRAINT approval_chain_steps_pkey PRIMARY KEY (org_id, chain_id, position),
  CONSTRAINT chain_step_is_of_a_chain FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
    ON DELETE CASCADE,
  CONSTRAINT chain_step_position_counts_from_one CHECK (position >= 1),
  CONSTRAINT chain_step_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence')),
  CONSTRAINT chain_step_quorum_goes_with_its_modes
    CHECK ((quorum IS NOT NULL) = (mode IN ('quorum', 'percentage')) AND quorum >= 1
      AND (mode <> 'percentage' OR quorum <= 100)),
  CONSTRAINT chain_step_due_is_in_the_future CHECK (due_seconds > 0)
);
CREATE TRIGGER chain_steps_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chain_steps FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain_step', 'create', 'delete', 'chain_id', 'position',
    'name approvers mode quorum due_seconds');
SELECT assent.guard_by_org('assent.approval_chain_steps');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.approval_chain_steps TO assent_engine;
GRANT SELECT ON assent.approval_chain_steps TO assent_client;

-- Whose turn it was last, for approvers who are picked from a role in turn.
CREATE TABLE assent.approval_turns (
  org_id  text        NOT NULL,
  role    text        NOT NULL,
  user_id text        NOT NULL,
  last_at timestamptz NOT NULL,
  CONSTRAINT approval_turns_pkey PRIMARY KEY (org_id, role, user_id)
);
SELECT assent.guard_by_org('assent.approval_turns');
GRANT SELECT, INSERT, UPDATE (last_at) ON assent.approval_turns TO assent_engine;

-- No foreign key to the instance, nor to the step: when retention deletes the instance its approvals stay, for like versions
-- and audit entries they are evidence about the entity.
CREATE TABLE assent.approval_requests (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  instance_id         uuid        NOT NULL,
  step_id             uuid        NOT NULL,
  node_id             text        NOT NULL,
  node_name           text,                     -- what the inbox shows of the step that asks
  token_id            text        NOT NULL DEFAULT '0',
  generation          integer     NOT NULL DEFAULT 0, -- of the root token: one round of asking
  slot                text        NOT NULL DEFAULT '',
  partition_id        text,
  entity_type         text,
  entity_id           uuid,
  entity_version      integer     NOT NULL,     -- approved means this version
  snapshot_version_id uuid,
  content_hash        text,                     -- what the approvers see, and what alone it holds for
  title               text,                     -- what the inbox shows of the entity at this version
  figure              numeric,
  currency            text,                     -- of the figure, where it is money with a currency
  chain_id            uuid,
  mode                text        NOT NULL DEFAULT 'any',
  approvers           jsonb       NOT NULL,     -- resolved once, frozen
  originators         text[]      NOT NULL DEFAULT '{}', -- who may not approve it
  may_repeat          boolean     NOT NULL DEFAULT false, -- whether one person may fill several seats
  requested_by        text        NOT NULL,
  status              text        NOT NULL DEFAULT 'pending',
  reason              text,                     -- why it ended as it did
  claimed_by          text,
  claimed_at          timestamptz,
  applied_at          timestamptz,              -- when a gate consumed it (WF-03)
  applied_step_id     uuid,                     -- the gate's step that consumed it
  applied_xid         xid8,                     -- the transaction that consumed it: the database's own word
  due_at              timestamptz,
  questions           integer     NOT NULL DEFAULT 0, -- how many its approvers have asked those whose work it is
  created_at          timestamptz NOT NULL DEFAULT assent.now(),
  decided_at          timestamptz,
  CONSTRAINT approval_requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT approval_request_status_is_known
    CHECK (status IN ('pending', 'approved', 'rejected', 'returned', 'void', 'cancelled')),
  CONSTRAINT approval_request_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence', 'groups')),
  CONSTRAINT approval_request_claim_is_dated CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  CONSTRAINT only_an_approved_request_is_applied CHECK (applied_at IS NULL OR status = 'approved'),
  CONSTRAINT only_what_was_applied_has_its_step CHECK (applied_step_id IS NULL OR applied_at IS NOT NULL),
  CONSTRAINT approval_request_about_an_entity_has_its_snapshot CHECK ((entity_id IS NULL) = (snapshot_version_id IS NULL)),
  CONSTRAINT approval_request_about_an_entity_has_its_content CHECK ((entity_id IS NULL) = (content_hash IS NULL)),
  CONSTRAINT approval_request_snapshot_is_a_version FOREIGN KEY (org_id, snapshot_version_id)
    REFERENCES assent.entity_versions (org_id, id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT approval_request_chain_exists FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
);
CREATE INDEX approval_requests_by_instance ON assent.approval_requests (org_id, instance_id);
-- By entity, for voiding, for who wrote since the last approval, and for evidence. An entity has few requests; and an
-- index that knows nothing of their status leaves room for updates in place.
CREATE INDEX approval_requests_by_entity ON assent.approval_requests (org_id, entity_id, entity_version)
  WHERE entity_id IS NOT NULL;
CREATE TRIGGER approval_request_status_moves_forward BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('approval_requests');
SELECT assent.guard_by_org('assent.approval_requests');
-- Only what may change: what was asked stays.
GRANT SELECT, INSERT,
      UPDATE (status, reason, applied_at, applied_step_id, decided_at, claimed_by, claimed_at, originators, questions)
   ON assent.approval_requests TO assent_engine;
GRANT SELECT ON assent.approval_requests TO assent_client;

CREATE TABLE assent.approval_decisions (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  request_id     uuid        NOT NULL,
  seat_id        uuid,
  approver_id    text        NOT NULL,
  on_behalf_of   text,                          -- the owner of the seat, where a delegate decided
  decision       text        NOT NULL,
  outcome        text,                          -- an outcome of the node's own, when the decision is `returned`
  reason         text,
  entity_version integer     NOT NULL,
  decided_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_decisions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT one_decision_per_seat UNIQUE (org_id, seat_id), -- guard_decision checks who may fill several seats
  CONSTRAINT decision_is_known CHECK (decision IN ('approved', 'rejected', 'abstained', 'returned')),
  CONSTRAINT returned_says_as_what CHECK ((decision = 'returned') = (outcome IS NOT NULL)),
  CONSTRAINT decision_is_on_a_request FOREIGN KEY (org_id, request_id)
    REFERENCES assent.approval_requests (org_id, id)
);
CREATE INDEX decisions_by_request ON assent.approval_decisions (org_id, request_id);
CREATE TRIGGER decisions_are_append_only BEFORE UPDATE OR DELETE ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER decisions_are_never_emptied BEFORE TRUNCATE ON assent.approval_decisions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.approval_decisions');
GRANT SELECT, INSERT ON assent.approval_decisions TO assent_engine;
GRANT SELECT ON assent.approval_decisions TO assent_client;

-- Which links in mails have decided: each person once on a request, whatever mails they got.
CREATE TABLE assent.decision_link_uses (
  org_id     text        NOT NULL,
  request_id uuid        NOT NULL,
  user_id    text        NOT NULL,
  used_at    timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT decision_link_uses_pkey PRIMARY KEY (org_id, request_id, user_id)
);
CREATE TRIGGER decision_link_uses_are_append_only BEFORE UPDATE OR DELETE ON assent.decision_link_uses
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER decision_link_uses_are_never_emptied BEFORE TRUNCATE ON assent.decision_link_uses
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.decision_link_uses');
GRANT SELECT, INSERT ON assent.decision_link_uses TO assent_engine;

-- What may change of a request: its status, its claim and how often its approvers asked back. Consumed is consumed (WF-03),
-- and only what was approved for the present content can be.
CREATE FUNCTION assent.guard_approval_request() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  changing CONSTANT text[] :=
    '{status,reason,applied_at,applied_step_id,decided_at,claimed_by,claimed_at,originators,questions}';
BEGIN
  IF (to_jsonb(NEW) - changing) IS DISTINCT FROM (to_jsonb(OLD) - changing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('approval request %s keeps what it asks, its approvers and its version', OLD.id);
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
CREATE TRIGGER approval_requests_keep_what_they_ask BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_approval_request();

-- A request shows a version, and holds for the content of that version and no other.
CREATE FUNCTION assent.guard_asked_content() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM FROM assent.entities e WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id;
  IF NOT FOUND THEN
    RETURN NEW; -- the foreign key of its snapshot asks at the commit
  END IF;
  PERFORM FROM assent.entities e
     JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = NEW.entity_version
    WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id AND e.content_hash = NEW.content_hash
      AND v.id = NEW.snapshot_version_id
      AND (v.version = e.version OR NOT coalesce(
             assent.content_of(e.org_id, e.id, v.version, e.entity_type, e.contract_version)
             <> assent.content_of(e.org_id, e.id, e.version, e.entity_type, e.contract_version), false));
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009',
      MESSAGE = format('approval request %s is about another content than entity %s has, or shows another', NEW.id, NEW.entity_id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER approval_requests_show_what_they_are_about BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.entity_id IS NOT NULL AND NEW.status = 'pending') EXECUTE FUNCTION assent.guard_asked_content();

CREATE FUNCTION assent.note_consumption() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.applied_xid := CASE WHEN NEW.applied_at IS NOT NULL THEN pg_current_xact_id() END;
  RETURN NEW;
END
$$;
-- After approval_requests_keep_what_they_ask, by its name: that one compares what the caller changed.
CREATE TRIGGER approval_requests_note_who_consumed_them BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_at IS NOT NULL AND OLD.applied_at IS NULL) EXECUTE FUNCTION assent.note_consumption();
CREATE TRIGGER approval_requests_begin_unconsumed BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_xid IS NOT NULL OR NEW.applied_at IS NOT NULL)
  EXECUTE FUNCTION assent.note_consumption();

-- What people write beside the work: comments on an entity, and questions of approvers to a person whose work they are to
-- approve, with the answer. A question moves nothing: its request stays open, and its approvers and originators as they are.
CREATE TABLE assent.comments (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  kind           text        NOT NULL,
  author_id      text        NOT NULL,
  text           text        NOT NULL,
  mentions       text[]      NOT NULL DEFAULT '{}', -- members that the text names, and who were notified
  partition_id   text,
  entity_type    text,
  entity_id      uuid,
  entity_version integer     NOT NULL DEFAULT 0, -- the version that it was written at
  request_id     uuid,                          -- of a question: the approval request
  instance_id    uuid,
  asks           text,                          -- of a question: who is to answer
  answer         text,
  answered_at    timestamptz,
  closed_at      timestamptz,                   -- when the request ended without an answer
  created_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT comments_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT comment_kind_is_known CHECK (kind IN ('comment', 'question')),
  CONSTRAINT comment_is_about_an_entity CHECK (kind = 'question' OR entity_id IS NOT NULL),
  CONSTRAINT commented_entity_has_its_type CHECK ((entity_id IS NULL) = (entity_type IS NULL)),
  CONSTRAINT question_is_of_a_request_to_a_member
    CHECK (num_nulls(request_id, instance_id, asks) = CASE kind WHEN 'question' THEN 0 ELSE 3 END),
  CONSTRAINT question_is_to_another CHECK (asks <> author_id),
  CONSTRAINT answer_is_dated CHECK ((answer IS NULL) = (answered_at IS NULL)),
  CONSTRAINT only_a_question_ends CHECK (kind = 'question' OR num_nonnulls(answered_at, closed_at) = 0),
  CONSTRAINT question_is_answered_or_closed CHECK (num_nonnulls(answered_at, closed_at) < 2),
  CONSTRAINT question_is_of_an_approval_request FOREIGN KEY (org_id, request_id)
    REFERENCES assent.approval_requests (org_id, id)
);
CREATE INDEX comments_of_entity ON assent.comments (org_id, entity_id, created_at, id) WHERE entity_id IS NOT NULL;
CREATE INDEX questions_of_request ON assent.comments (org_id, request_id, created_at, id) WHERE kind = 'question';
CREATE INDEX questions_open ON assent.comments (org_id, asks, created_at, id)
  WHERE kind = 'question' AND answered_at IS NULL AND closed_at IS NULL;

-- What was written stays. A question is answered once, or closed.
CREATE FUNCTION assent.guard_comment() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  changing CONSTANT text[] := '{answer,answered_at,closed_at}';
BEGIN
  IF (to_jsonb(NEW) - changing) IS DISTINCT FROM (to_jsonb(OLD) - changing) OR num_nonnulls(OLD.answered_at, OLD.closed_at) > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('comment %s stays as it was written', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER comments_stay_as_written BEFORE UPDATE ON assent.comments
  FOR EACH ROW EXECUTE FUNCTION assent.guard_comment();
CREATE TRIGGER comments_are_never_deleted BEFORE DELETE ON assent.comments
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER comments_are_never_emptied BEFORE TRUNCATE ON assent.comments
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.comments');
GRANT SELECT, INSERT, UPDATE (answer, answered_at, closed_at) ON assent.comments TO assent_engine;

CREATE FUNCTION assent.close_questions() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE assent.comments SET closed_at = assent.now()
   WHERE org_id = NEW.org_id AND request_id = NEW.id AND kind = 'question' AND answered_at IS NULL AND closed_at IS NULL;
  RETURN NULL;
END
$$;
-- The condition costs a request without questions nothing.
CREATE TRIGGER approval_requests_close_their_questions AFTER UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending' AND NEW.questions > 0)
  EXECUTE FUNCTION assent.close_questions();

-- Whether this is enough: the name of a group that has agreed, or all or any of several such.
CREATE FUNCTION assent.is_enough(wanted jsonb, agreed text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF jsonb_typeof(wanted) = 'string' THEN
    RETURN wanted #>> '{}' = ANY (agreed);
  END IF;
  IF wanted ? 'any' THEN
    RETURN (SELECT coalesce(bool_or(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'any') part);
  END IF;
  RETURN (SELECT coalesce(bool_and(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'all') part);
END
$$;

-- The groups of a request that have agreed, by the decisions in the seats of those who were found, or who replaced one of
-- them. Where one is enough, the first who said yes or no has decided.
CREATE FUNCTION assent.agreed_groups(asked assent.approval_requests) RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(g.name), '{}')
    FROM jsonb_to_recordset(asked.approvers -> 'groups') AS g (name text, mode text, needed integer)
   CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE d.decision = 'approved') AS yes,
             (array_agg(d.decision ORDER BY d.id) FILTER (WHERE d.decision IN ('approved', 'rejected')))[1] AS first
        FROM assent.approval_decisions d
        JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.id = d.seat_id AND s.request_id = d.request_id
        LEFT JOIN assent.workflow_seats before ON before.org_id = s.org_id AND before.id = s.replaces_id
              AND before.request_id = s.request_id AND before.group_name = s.group_name
       WHERE d.org_id = asked.org_id AND d.request_id = asked.id AND s.group_name = g.name
         AND (before.id IS NOT NULL OR asked.approvers -> 'people'
                @> jsonb_build_array(jsonb_build_object('user', s.user_id, 'group', s.group_name)))) decided
   WHERE CASE g.mode WHEN 'any' THEN decided.first = 'approved' ELSE decided.yes >= g.needed END
$$;
-- Triggers run as the role that writes, and call both.
GRANT EXECUTE ON FUNCTION assent.is_enough(jsonb, text[]), assent.agreed_groups(assent.approval_requests) TO assent_engine;

-- A request becomes approved only where the decisions of those who were asked add up to what was declared to be enough when
-- they were asked, or where its time is over and that is its default. Also when the status is written by hand.
CREATE FUNCTION assent.guard_approval() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  agreed CONSTANT text[] := assent.agreed_groups(NEW);
BEGIN
  -- After an escalation one approver of that group is enough.
  IF 'escalation' = ANY (agreed) OR assent.is_enough(NEW.approvers -> 'enough', agreed) THEN
    RETURN NEW;
  END IF;
  -- A minute, because the clock by which its time was over need not be the server's.
  IF NEW.approvers #>> '{default,status}' = 'approved'
     AND least(NEW.decided_at, assent.now() + interval '1 minute') >= (NEW.approvers #>> '{default,at}')::timestamptz THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS011',
    MESSAGE = format('approval request %s is not approved: of what is enough (%s) only %s agreed', NEW.id,
                     NEW.approvers -> 'enough', agreed),
    HINT = 'Approvals are given by decisions of those who are asked.';
END
$$;
CREATE TRIGGER approval_requests_begin_unapproved BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved') EXECUTE FUNCTION assent.guard_approval();
CREATE TRIGGER approval_requests_are_approved_by_those_who_are_asked BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved' AND OLD.status <> 'approved') EXECUTE FUNCTION assent.guard_approval();

-- A decision is given on a request that is open, in a seat that is asked, by its owner or by a delegate of the owner; never
-- by a person who had a part in what is to be approved, who fills another seat of the round, or who was found among the
-- members and is not what they were asked as any more. Also when it is written by hand. The rule of assent.engine.consent,
-- where the database can know it.
CREATE FUNCTION assent.guard_decision() RETURNS trigger
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
      MESSAGE = format('approval request %s is %s and takes no more decisions', asked.id, asked.status);
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
CREATE TRIGGER decisions_are_of_those_who_are_asked BEFORE INSERT ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.guard_decision();

-- What a person may read: the seats that wait for them, and the instances that they take part in.

-- The open seats of an owner that a reader, the owner or a delegate, could fill now, approvals and forms alike. `is_present`
-- says whether the owner is active now, `held` which roles they hold; the caller asked the directory, which need not be
-- `members`. LATERAL and OFFSET 0: look-ups by key for each seat, in the order of the seats, whatever the statistics say.
CREATE FUNCTION assent.waiting_for(of_org text, reader text, seated text, at timestamptz, is_present boolean, held text[])
RETURNS TABLE (id uuid, kind text, bucket text, user_id text, created_at timestamptz, via text, group_name text,
  request_id uuid, instance_id uuid, workflow text, node_id text, node_name text, entity_type text, entity_id uuid,
  entity_version integer, state text, title text, figure numeric, currency text, due_at timestamptz, requested_by text,
  claimed_by text, questions integer, question text)
LANGUAGE sql STABLE AS $$
  SELECT s.id, s.kind, CASE WHEN seated <> reader THEN 'delegated'
                            WHEN starts_with(s.via, 'role:') THEN 'roles' ELSE 'mine' END,
         s.user_id, s.created_at, s.via, s.group_name, s.request_id, s.instance_id, i.workflow_id, r.node_id,
         r.node_name, r.entity_type, r.entity_id, r.entity_version,
         (SELECT e.state FROM assent.entities e WHERE e.org_id = s.org_id AND e.id = r.entity_id), r.title, r.figure,
         r.currency, r.due_at, r.requested_by, r.claimed_by, r.questions, NULL::text
    FROM assent.workflow_seats s
   CROSS JOIN LATERAL (
      SELECT o.node_id, coalesce(o.node_name, o.node_id) AS node_name, o.entity_type, o.entity_id, o.entity_version,
             o.title, o.figure, o.currency, o.due_at, o.requested_by, o.claimed_by, o.originators, o.may_repeat, o.slot,
             o.generation, o.questions
        FROM assent.approval_requests o WHERE s.kind = 'approval' AND o.org_id = s.org_id AND o.id = s.request_id
      UNION ALL
      -- A form has no originators: everyone who is asked may fill it in.
      SELECT o.node_id, o.node_name, o.entity_type, o.entity_id, o.entity_version, o.title, o.figure, o.currency, o.due_at,
             o.requested_by, o.claimed_by, '{}', true, NULL, NULL, 0
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
GRANT EXECUTE ON FUNCTION assent.waiting_for(text, text, text, timestamptz, boolean, text[]) TO assent_engine;

-- The open questions to a reader, as items of an inbox. A question is for its addressee, and for no delegate: it asks what they
-- did. Not a part of `waiting_for`: the planner takes no order from within a UNION ALL of joins, and a page would read everything.
CREATE FUNCTION assent.questions_to(of_org text, reader text, seated text, is_present boolean)
RETURNS TABLE (id uuid, kind text, bucket text, user_id text, created_at timestamptz, via text, group_name text,
  request_id uuid, instance_id uuid, workflow text, node_id text, node_name text, entity_type text, entity_id uuid,
  entity_version integer, state text, title text, figure numeric, currency text, due_at timestamptz, requested_by text,
  claimed_by text, questions integer, question text)
LANGUAGE sql STABLE AS $$
  SELECT c.id, c.kind, 'mine', c.asks, c.created_at, 'question', '', c.id, c.instance_id, i.workflow_id, r.node_id,
         coalesce(r.node_name, r.node_id), c.entity_type, c.entity_id, c.entity_version,
         (SELECT e.state FROM assent.entities e WHERE e.org_id = c.org_id AND e.id = c.entity_id), r.title, r.figure,
         r.currency, r.due_at, c.author_id, NULL::text, r.questions, c.text
    FROM assent.comments c
   CROSS JOIN LATERAL (
      SELECT * FROM assent.approval_requests o WHERE o.org_id = c.org_id AND o.id = c.request_id OFFSET 0) AS r
   CROSS JOIN LATERAL (
      SELECT * FROM assent.workflow_instances o WHERE o.org_id = c.org_id AND o.id = c.instance_id OFFSET 0) AS i
   WHERE c.org_id = of_org AND c.asks = seated AND c.kind = 'question' AND c.answered_at IS NULL AND c.closed_at IS NULL
     AND seated = reader AND is_present
$$;
GRANT EXECUTE ON FUNCTION assent.questions_to(text, text, text, boolean) TO assent_engine;

-- Whether a person takes part in an instance: they started it, are or were asked in it, or are a delegate of one who is.
CREATE FUNCTION assent.takes_part(i assent.workflow_instances, person text, at timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT i.subject_id = person
      OR EXISTS (SELECT FROM assent.workflow_seats s
                  WHERE s.org_id = i.org_id AND s.user_id = person AND s.instance_id = i.id AND s.status <> 'later')
      OR EXISTS (SELECT FROM assent.approval_delegations d
                   JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.user_id = d.from_user
                    AND s.instance_id = i.id AND s.status = 'open'
                  WHERE d.org_id = i.org_id AND d.to_user = person AND d.revoked_at IS NULL AND d.starts_at <= at
                    AND (d.ends_at IS NULL OR d.ends_at > at)
                    AND (d.entity_types = '{}' OR i.entity_type = ANY (d.entity_types))
                    AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows)))
$$;

-- Whether an instance is one of those that a reader of lists may see: an entity's by its type, a flow's by its definition
-- or because they take part in it.
CREATE FUNCTION assent.is_readable(i assent.workflow_instances, hidden_types text[], all_flows boolean,
  definitions uuid[], person text, at timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN i.entity_type IS NOT NULL THEN i.entity_type <> ALL (hidden_types)
              ELSE all_flows OR i.definition_id = ANY (definitions) OR assent.takes_part(i, person, at) END
$$;
GRANT EXECUTE ON FUNCTION assent.takes_part(assent.workflow_instances, text, timestamptz),
  assent.is_readable(assent.workflow_instances, text[], boolean, uuid[], text, timestamptz) TO assent_engine;
