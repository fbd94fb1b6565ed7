-- Seats, one for each person who is asked, and forms that people fill in.

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
  email       text,                             -- where they are notified
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
-- Whether a person was ever asked in an instance, also in a seat that is closed.
CREATE INDEX seats_of_instance ON assent.workflow_seats (org_id, instance_id, user_id);
CREATE TRIGGER seat_status_moves_forward BEFORE UPDATE ON assent.workflow_seats
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_seats');

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
SELECT assent.guard_by_org('assent.workflow_seats');
GRANT SELECT, INSERT, UPDATE (status, closed_at, note) ON assent.workflow_seats TO assent_engine;
GRANT SELECT ON assent.workflow_seats TO assent_client;

-- A form: what is asked, the people who are asked, who has claimed it, and the draft. The step is the truth about how a form ended; this row
-- is what people work with until then, and goes with its instance when retention deletes it.
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
  currency       text,
  schema_json    jsonb       NOT NULL,          -- JSON Schema 2020-12 of what is to be filled in
  answers        text[]      NOT NULL,          -- the events with which it can be sent
  assignee       jsonb       NOT NULL,          -- who was sought, found and skipped: frozen, also when it is reassigned
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
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_forms');

-- What may change of a form: its status, its claim and the draft; nothing once it has ended.
CREATE FUNCTION assent.guard_form() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] :=
    '{status,reason,claimed_by,claimed_at,draft_json,draft_by,draft_at,draft_problems,ended_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s keeps what it asks, and its assignees', OLD.id);
  END IF;
  IF OLD.status <> 'open' AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s is %s and stays as it is', OLD.id, OLD.status);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER forms_keep_what_they_ask BEFORE UPDATE ON assent.workflow_forms
  FOR EACH ROW EXECUTE FUNCTION assent.guard_form();
SELECT assent.guard_by_org('assent.workflow_forms');
GRANT SELECT, INSERT,
      UPDATE (status, reason, claimed_by, claimed_at, draft_json, draft_by, draft_at, draft_problems, ended_at)
   ON assent.workflow_forms TO assent_engine;
GRANT SELECT (org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id, entity_version, partition_id,
              title, figure, currency, schema_json, answers, assignee, requested_by, status, reason, claimed_by, claimed_at,
              due_at, created_at, ended_at) ON assent.workflow_forms TO assent_client;
