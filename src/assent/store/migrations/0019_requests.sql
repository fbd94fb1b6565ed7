-- What is asked of outside parties, what they send back, and what it points to.
--
-- Rows that change are narrow: what was asked and what was sent, as it was, is in request_history, which only grows. Nothing
-- here is ever deleted, so that a key, and a cargo, is taken once for ever.

-- Which status may follow which. See assent.model.moves, which says the same.
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
  WHEN 'outside:pending'       THEN ARRAY['partial', 'completed', 'failed', 'expired', 'cancelled']
  WHEN 'outside:partial'       THEN ARRAY['completed', 'failed', 'expired', 'cancelled']
  WHEN 'delivery:pending'      THEN ARRAY['processed', 'dead_letter']
  WHEN 'delivery:dead_letter'  THEN ARRAY['pending']
  ELSE ARRAY[]::text[]
END);

-- Whether a text points to something: to a thing of ours by its id, or to something of an outside system. One thing has
-- one spelling, for it is taken once. See assent.model.cargo, which says the same.
CREATE FUNCTION assent.is_cargo(pointer text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pointer ~ '^((version|document|entity|screening)://assent/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|external://[a-z0-9][a-z0-9._-]{0,62}/[!-~]{1,255})$';

CREATE TABLE assent.requests (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  partition_id      text,
  instance_id       uuid        NOT NULL,
  step_execution_id uuid        NOT NULL,           -- the step that waits
  node_id           text        NOT NULL,
  token_id          text        NOT NULL,
  entity_type       text,
  entity_id         uuid,
  name              text        NOT NULL,           -- what was asked: the workflow and the node
  expected          integer     NOT NULL DEFAULT 1, -- how many items make it complete
  received          integer     NOT NULL DEFAULT 0, -- completed items
  failed            integer     NOT NULL DEFAULT 0, -- items that failed or expired
  status            text        NOT NULL DEFAULT 'pending',
  error             text,                           -- the last that was told
  trace_id          text,
  expires_at        timestamptz,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  ended_at          timestamptz,
  CONSTRAINT requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT outside_request_name_is_short CHECK (length(name) BETWEEN 1 AND 500),
  CONSTRAINT outside_request_expects_something CHECK (expected BETWEEN 1 AND 500),
  CONSTRAINT results_are_counted CHECK (received >= 0 AND failed >= 0),
  CONSTRAINT outside_request_status_is_known
    CHECK (status IN ('pending', 'partial', 'completed', 'failed', 'expired', 'cancelled')),
  CONSTRAINT completed_request_has_what_it_expected CHECK (status <> 'completed' OR received >= expected),
  CONSTRAINT partial_request_has_something CHECK (status <> 'partial' OR received BETWEEN 1 AND expected - 1),
  CONSTRAINT outside_request_ends_when_its_status_says_so
    CHECK ((status IN ('pending', 'partial')) = (ended_at IS NULL))
);
CREATE INDEX requests_by_time ON assent.requests (org_id, created_at, id);
CREATE INDEX requests_by_status ON assent.requests (org_id, status, created_at, id);
CREATE INDEX requests_by_instance ON assent.requests (org_id, instance_id);
CREATE INDEX requests_by_step ON assent.requests (org_id, step_execution_id);
CREATE INDEX requests_to_expire ON assent.requests (expires_at) WHERE status IN ('pending', 'partial');

CREATE TRIGGER outside_request_status_moves_forward BEFORE UPDATE ON assent.requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('outside');

-- What may change of a request: where it stands; nothing once it has ended, and what was received stays received.
CREATE FUNCTION assent.guard_outside_request() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] := '{status,received,failed,error,ended_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('request %s keeps what it asks, and who waits', OLD.id);
  END IF;
  IF OLD.ended_at IS NOT NULL AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('request %s is %s and stays as it is', OLD.id, OLD.status);
  END IF;
  IF NEW.received < OLD.received OR NEW.failed < OLD.failed THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('what request %s received stays received', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER outside_requests_keep_what_they_ask BEFORE UPDATE ON assent.requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_outside_request();

-- One row for each bundle that came: the queue while it is pending, and for ever the proof that its key was taken.
CREATE TABLE assent.request_deliveries (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,                -- also of its bundle, in request_history
  position     bigint      GENERATED BY DEFAULT AS IDENTITY,  -- the order in which they came
  request_id   uuid        NOT NULL,
  key          text        NOT NULL,                -- the sender's own: the same again changes nothing
  source       text        NOT NULL,
  pushed_by    text,                                -- the member who brought it, where one did
  status       text        NOT NULL DEFAULT 'pending',
  late         boolean     NOT NULL DEFAULT false,  -- it came when the request had ended, and counts for nothing
  attempts     integer     NOT NULL DEFAULT 0,
  next_try_at  timestamptz NOT NULL DEFAULT assent.now(),
  error        text,
  received_at  timestamptz NOT NULL DEFAULT assent.now(),
  processed_at timestamptz,
  CONSTRAINT request_deliveries_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT delivery_key_is_taken_once UNIQUE (org_id, request_id, key),
  CONSTRAINT delivery_is_to_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.requests (org_id, id),
  CONSTRAINT delivery_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT delivery_source_is_known CHECK (source IN ('http', 'callback', 'sql', 'python')),
  CONSTRAINT delivery_status_is_known CHECK (status IN ('pending', 'processed', 'dead_letter')),
  CONSTRAINT delivery_attempts_are_counted CHECK (attempts >= 0),
  CONSTRAINT delivery_is_processed_at_a_time CHECK ((status = 'processed') = (processed_at IS NOT NULL)),
  CONSTRAINT only_what_was_processed_is_late CHECK (NOT late OR status = 'processed')
);
CREATE INDEX deliveries_to_process ON assent.request_deliveries (org_id, next_try_at, position)
  WHERE status = 'pending';
CREATE INDEX deliveries_dead ON assent.request_deliveries (org_id, received_at, id) WHERE status = 'dead_letter';

CREATE TRIGGER delivery_status_moves_forward BEFORE UPDATE ON assent.request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('delivery');
CREATE TRIGGER deliveries_are_never_deleted BEFORE DELETE ON assent.request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER deliveries_are_never_emptied BEFORE TRUNCATE ON assent.request_deliveries
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

CREATE FUNCTION assent.guard_delivery() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] := '{status,late,attempts,next_try_at,error,processed_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('delivery %s keeps its key, and its request', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER deliveries_keep_their_key BEFORE UPDATE ON assent.request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.guard_delivery();

-- What came, one by one. What was said of a cargo first is what holds.
CREATE TABLE assent.request_items (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  request_id  uuid        NOT NULL,
  delivery_id uuid        NOT NULL,
  cargo       text,
  kind        text,                                 -- what the sender calls it, such as passport
  status      text        NOT NULL,
  error       text,
  received_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT request_items_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT cargo_is_received_once UNIQUE (org_id, request_id, cargo),
  CONSTRAINT item_is_of_a_delivery FOREIGN KEY (org_id, delivery_id) REFERENCES assent.request_deliveries (org_id, id),
  CONSTRAINT item_status_is_known CHECK (status IN ('completed', 'failed', 'expired')),
  CONSTRAINT completed_item_points_to_something CHECK (status <> 'completed' OR cargo IS NOT NULL),
  CONSTRAINT item_cargo_is_a_pointer CHECK (assent.is_cargo(cargo))
);
CREATE INDEX items_by_request ON assent.request_items (org_id, request_id, id);
CREATE TRIGGER items_are_append_only BEFORE UPDATE OR DELETE ON assent.request_items
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER items_are_never_emptied BEFORE TRUNCATE ON assent.request_items
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- Everything that happened to a request, as it was: asked, delivered, and how it ended.
CREATE TABLE assent.request_history (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  request_id uuid        NOT NULL,
  what       text        NOT NULL,
  source     text        NOT NULL,
  body       jsonb,                                 -- what was asked, the bundle that came, or why it ended
  at         timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT request_history_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT history_is_of_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.requests (org_id, id),
  CONSTRAINT history_tells_what_is_known
    CHECK (what IN ('asked', 'delivered', 'completed', 'failed', 'expired', 'cancelled'))
);
CREATE INDEX history_by_request ON assent.request_history (org_id, request_id, at);
CREATE TRIGGER request_history_is_append_only BEFORE UPDATE OR DELETE ON assent.request_history
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER request_history_is_never_emptied BEFORE TRUNCATE ON assent.request_history
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- Keeps a bundle for a request of the transaction's org: `accepted`; `repeated`, where its key was taken before; `late`, where
-- the request has ended; nothing where there is no such request. It runs as whoever calls it, under row security.
CREATE FUNCTION assent.keep_delivery(to_request uuid, its_key text, bundle jsonb, come_by text, brought_by text)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  org text := assent.org_id();
  delivery uuid := gen_random_uuid();
  is_late boolean;
BEGIN
  SELECT ended_at IS NOT NULL INTO is_late FROM assent.requests WHERE org_id = org AND id = to_request;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  INSERT INTO assent.request_deliveries
         (org_id, id, request_id, key, source, pushed_by, status, late, next_try_at, received_at, processed_at)
  VALUES (org, delivery, to_request, its_key, come_by, brought_by, CASE WHEN is_late THEN 'processed' ELSE 'pending' END,
          is_late, assent.now(), assent.now(), CASE WHEN is_late THEN assent.now() END)
  ON CONFLICT (org_id, request_id, key) DO NOTHING;
  IF NOT FOUND THEN
    RETURN 'repeated';
  END IF;
  INSERT INTO assent.request_history (org_id, id, request_id, what, source, body, at)
  VALUES (org, delivery, to_request, 'delivered', come_by, bundle, assent.now());
  IF is_late THEN
    RETURN 'late';
  END IF;
  PERFORM pg_notify('assent_results', '');
  RETURN 'accepted';
END
$$;

-- What is wrong with an item of a bundle; nothing where it is right.
CREATE FUNCTION assent.item_problem(item jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE
  WHEN jsonb_typeof(item) IS DISTINCT FROM 'object' THEN 'an item is an object'
  WHEN item - '{cargo,kind,status,error}'::text[] <> '{}' THEN 'an item has cargo, kind, status and error, and nothing else'
  WHEN EXISTS (SELECT FROM jsonb_each(item) WHERE jsonb_typeof(value) NOT IN ('string', 'null')) THEN 'an item holds texts'
  WHEN coalesce(item ->> 'status', 'completed') NOT IN ('completed', 'failed', 'expired')
    THEN 'the status of an item is completed, failed or expired'
  WHEN item ? 'status' AND item ->> 'status' IS NULL THEN 'the status of an item is completed, failed or expired'
  WHEN NOT assent.is_cargo(item ->> 'cargo')
    THEN 'the cargo of an item is version://assent/<id>, document://…, entity://…, screening://… or external://<system>/<id>'
  WHEN coalesce(item ->> 'status', 'completed') = 'completed' AND item ->> 'cargo' IS NULL
    THEN 'a completed item points to its cargo'
  WHEN length(item ->> 'kind') NOT BETWEEN 1 AND 200 THEN 'the kind of an item has 1 to 200 characters'
  WHEN length(item ->> 'error') > 2000 THEN 'the error of an item has 2000 characters at most'
END;

-- What is wrong with a bundle; nothing where it is right. See assent.model.bundle, which says the same.
CREATE FUNCTION assent.bundle_problem(key text, items jsonb, status text, error text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE
  WHEN coalesce(length(key), 0) NOT BETWEEN 1 AND 200 THEN 'a result needs a key of 1 to 200 characters'
  WHEN status IS NULL OR status NOT IN ('completed', 'failed', 'expired')
    THEN 'the status of a result is completed, failed or expired'
  WHEN length(error) > 2000 THEN 'the error of a result has 2000 characters at most'
  WHEN jsonb_typeof(items) IS DISTINCT FROM 'array' THEN 'the items of a result are a list'
  WHEN jsonb_array_length(items) > 500 THEN 'a result has 500 items at most'
  WHEN status = 'completed' AND items = '[]' THEN 'a completed result has items'
  ELSE (SELECT min(assent.item_problem(item)) FROM jsonb_array_elements(items) AS item)
END;

-- Hands in what an outside party sends for a request: `accepted`, `repeated` where its key was handed in before, or `late` where
-- the request has ended. It runs as whoever calls it, for the org of the transaction (`assent.org_id`), under row security.
CREATE FUNCTION assent.push_result(
  request_id uuid, key text, items jsonb, status text DEFAULT 'completed', error text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  problem text := assent.bundle_problem(key, items, status, error);
  pushed text;
BEGIN
  IF assent.org_id() IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a result needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF problem IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = problem;
  END IF;
  pushed := assent.keep_delivery(
    request_id, key, jsonb_build_object('key', key, 'status', status, 'items', items, 'error', error), 'sql', NULL);
  IF pushed IS NULL THEN
    RAISE no_data_found USING MESSAGE = format('no request %s', coalesce(request_id::text, 'without an id'));
  END IF;
  RETURN pushed;
END
$$;

SELECT assent.guard_by_org(t) FROM unnest(ARRAY['assent.requests', 'assent.request_deliveries', 'assent.request_items',
  'assent.request_history']::regclass[]) AS t;
GRANT SELECT, INSERT, UPDATE (status, error, ended_at) ON assent.requests TO assent_app;
-- To fold deliveries is the worker's; the application hands them in, and has dead letters tried again.
GRANT SELECT, INSERT, UPDATE (status, attempts, next_try_at, error) ON assent.request_deliveries TO assent_app;
GRANT SELECT ON assent.request_items TO assent_app;
GRANT SELECT, INSERT ON assent.request_history TO assent_app;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.is_cargo(text), assent.item_problem(jsonb),
                          assent.bundle_problem(text, jsonb, text, text),
                          assent.keep_delivery(uuid, text, jsonb, text, text),
                          assent.push_result(uuid, text, jsonb, text, text) TO assent_app;
