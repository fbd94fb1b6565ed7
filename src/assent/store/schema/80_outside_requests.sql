-- Outside requests: what is asked of outside parties, what they send back, and what it points to.
--
-- Rows that change are narrow: what was asked and what was sent, as it was, is in outside_request_history, which only grows.
-- Nothing here is ever deleted, so that a key, and a cargo, is taken once for ever.

-- Whether a text points to something: to a thing of ours by its id, or to something of an outside system. One thing has
-- one spelling, for it is taken once. The same as assent.model.outside_request.
CREATE FUNCTION assent.is_cargo(pointer text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pointer ~ '^((version|document|entity|screening)://assent/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|external://[a-z0-9][a-z0-9._-]{0,62}/[!-~]{1,255})$';

CREATE TABLE assent.outside_requests (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  partition_id      text,
  instance_id       uuid,                           -- none where a person asked for the documents of a subject alone
  step_id           uuid,                           -- the step that waits; none where a person asked
  node_id           text,
  token_id          text,
  entity_type       text,
  entity_id         uuid,
  name              text        NOT NULL,           -- what was asked: the workflow and the node
  expected          integer     NOT NULL DEFAULT 1, -- how many items make it complete
  received          integer     NOT NULL DEFAULT 0, -- completed items
  failed            integer     NOT NULL DEFAULT 0, -- items that failed or expired
  status            text        NOT NULL DEFAULT 'pending',
  error             text,                           -- the last one that was reported
  trace_id          text,
  expires_at        timestamptz,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  ended_at          timestamptz,
  CONSTRAINT outside_requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT outside_request_name_is_short CHECK (length(name) BETWEEN 1 AND 500),
  CONSTRAINT step_of_request_is_of_an_instance CHECK (
    (step_id IS NULL) = (node_id IS NULL) AND (step_id IS NULL) = (token_id IS NULL) AND (step_id IS NULL OR instance_id IS NOT NULL)),
  CONSTRAINT outside_request_expects_something CHECK (expected BETWEEN 1 AND 500),
  CONSTRAINT results_are_counted CHECK (received >= 0 AND failed >= 0),
  CONSTRAINT outside_request_status_is_known
    CHECK (status IN ('pending', 'partial', 'completed', 'failed', 'expired', 'cancelled')),
  CONSTRAINT completed_request_has_what_it_expected CHECK (status <> 'completed' OR received >= expected),
  CONSTRAINT partial_request_has_something CHECK (status <> 'partial' OR received BETWEEN 1 AND expected - 1),
  CONSTRAINT outside_request_ends_when_its_status_says_so
    CHECK ((status IN ('pending', 'partial')) = (ended_at IS NULL))
);
CREATE INDEX outside_requests_by_time ON assent.outside_requests (org_id, created_at, id);
CREATE INDEX outside_requests_by_status ON assent.outside_requests (org_id, status, created_at, id);
CREATE INDEX outside_requests_by_instance ON assent.outside_requests (org_id, instance_id);
CREATE INDEX outside_requests_by_step ON assent.outside_requests (org_id, step_id);
CREATE INDEX outside_requests_to_expire ON assent.outside_requests (expires_at) WHERE status IN ('pending', 'partial');
CREATE TRIGGER outside_request_status_moves_forward BEFORE UPDATE ON assent.outside_requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('outside_requests');

-- What may change of a request: its status and counts; nothing once it has ended, and what was received stays received.
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
CREATE TRIGGER outside_requests_keep_what_they_ask BEFORE UPDATE ON assent.outside_requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_outside_request();
SELECT assent.guard_by_org('assent.outside_requests');
GRANT SELECT, INSERT, UPDATE (status, error, ended_at) ON assent.outside_requests TO assent_engine;
GRANT SELECT ON assent.outside_requests TO assent_client;

-- One row for each bundle that came: for ever the proof that its key was taken. Its job folds it.
CREATE TABLE assent.outside_request_deliveries (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,                -- also of its job, and of its bundle in outside_request_history
  position     bigint      GENERATED BY DEFAULT AS IDENTITY,  -- the order in which they came
  request_id   uuid        NOT NULL,
  key          text        NOT NULL,                -- the sender's own: the same again changes nothing
  source       text        NOT NULL,
  pushed_by    text,                                -- the member who brought it, where one did
  people       text[]      NOT NULL DEFAULT '{}',   -- the members whose work it is, the maker of their key among them
  origin       text,                                -- where it was read, of one from a stream: kafka:results/0/1042
  late         boolean     NOT NULL DEFAULT false,  -- it came when the request had ended: only its documents count
  received_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_deliveries_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT delivery_key_is_taken_once UNIQUE (org_id, request_id, key),
  CONSTRAINT delivery_is_to_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.outside_requests (org_id, id),
  CONSTRAINT delivery_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT delivery_key_is_not_blank CHECK (NOT assent.is_blank(key)),
  CONSTRAINT delivery_source_is_known
    CHECK (source IN ('http', 'callback', 'sql', 'python', 'upload', 'table', 'redis', 'kafka', 'nats'))
);
CREATE TRIGGER deliveries_are_never_deleted BEFORE DELETE ON assent.outside_request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER deliveries_are_never_emptied BEFORE TRUNCATE ON assent.outside_request_deliveries
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

CREATE FUNCTION assent.guard_delivery() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(NEW) - 'late') IS DISTINCT FROM (to_jsonb(OLD) - 'late') OR OLD.late AND NOT NEW.late THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('delivery %s keeps its key, and its request', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER deliveries_keep_their_key BEFORE UPDATE ON assent.outside_request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.guard_delivery();
SELECT assent.guard_by_org('assent.outside_request_deliveries');
GRANT SELECT, INSERT ON assent.outside_request_deliveries TO assent_engine;

-- What came, one by one. The first status of a cargo holds.
CREATE TABLE assent.outside_request_items (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  request_id  uuid        NOT NULL,
  delivery_id uuid        NOT NULL,
  cargo       text,
  kind        text,                                 -- what the sender calls it, such as passport
  status      text        NOT NULL,
  error       text,
  received_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_items_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT cargo_is_received_once UNIQUE (org_id, request_id, cargo),
  CONSTRAINT item_is_of_a_delivery FOREIGN KEY (org_id, delivery_id) REFERENCES assent.outside_request_deliveries (org_id, id),
  CONSTRAINT item_status_is_known CHECK (status IN ('completed', 'failed', 'expired')),
  CONSTRAINT completed_item_points_to_something CHECK (status <> 'completed' OR cargo IS NOT NULL),
  CONSTRAINT item_cargo_is_a_pointer CHECK (assent.is_cargo(cargo))
);
CREATE INDEX items_by_request ON assent.outside_request_items (org_id, request_id, id);
CREATE TRIGGER items_are_append_only BEFORE UPDATE OR DELETE ON assent.outside_request_items
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER items_are_never_emptied BEFORE TRUNCATE ON assent.outside_request_items
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.outside_request_items');
GRANT SELECT ON assent.outside_request_items TO assent_engine, assent_client;

-- Everything that happened to a request, as it was: asked, delivered, and how it ended.
CREATE TABLE assent.outside_request_history (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  request_id uuid        NOT NULL,
  what       text        NOT NULL,
  source     text        NOT NULL,
  body       jsonb,                                 -- what was asked, the bundle that came, or why it ended
  payload    jsonb,                                 -- what a sender wants kept with its bundle; never looked at
  at         timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_history_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT history_is_of_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.outside_requests (org_id, id),
  CONSTRAINT history_tells_what_is_known
    CHECK (what IN ('asked', 'delivered', 'completed', 'failed', 'expired', 'cancelled'))
);
CREATE INDEX history_by_request ON assent.outside_request_history (org_id, request_id, at);
CREATE TRIGGER outside_request_history_is_append_only BEFORE UPDATE OR DELETE ON assent.outside_request_history
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER outside_request_history_is_never_emptied BEFORE TRUNCATE ON assent.outside_request_history
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.outside_request_history');
GRANT SELECT, INSERT ON assent.outside_request_history TO assent_engine;

-- Messages of streams that could not be kept as results, as they were read. Each is a dead job of the kind result, under the
-- same id: listed, retried and discarded as every dead letter. A message that is read again is here once.
CREATE TABLE assent.dead_messages (
  org_id    text        NOT NULL,
  id        uuid        NOT NULL,                   -- of its job
  transport text        NOT NULL,
  stream    text        NOT NULL,
  position  text        NOT NULL,                   -- in the stream: 0/1042 is offset 1042 of partition 0
  names     text        NOT NULL DEFAULT '',        -- how the names of requests begin for which the stream may push
  body      bytea       NOT NULL,                   -- of a very long one the beginning
  size      bigint      NOT NULL,                   -- bytes
  hash      bytea       NOT NULL,                   -- SHA-256 of the whole: a stream that was made again counts again
  read_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT dead_messages_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT dead_message_is_kept_once UNIQUE (org_id, transport, stream, position, hash),
  CONSTRAINT dead_message_transport_is_known CHECK (transport IN ('redis', 'kafka', 'nats')),
  CONSTRAINT dead_message_is_short CHECK (length(body) <= least(size, 1048576))
);
CREATE TRIGGER dead_messages_are_append_only BEFORE UPDATE OR DELETE ON assent.dead_messages
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER dead_messages_are_never_emptied BEFORE TRUNCATE ON assent.dead_messages
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.dead_messages');
GRANT SELECT, INSERT ON assent.dead_messages TO assent_engine;

-- Keeps bundles for requests, in the order of the list, each once for its key, and returns the outcome of each: `accepted`;
-- `repeated`, where its key was taken before, or by one before it in the list; `late`, where the request has ended; or why
-- not: NOT_FOUND (no such request), UNKNOWN_VERSION (an item points to a version that is not there), REQUEST_NOT_OF_STREAM (the
-- request's name does not begin with `names`), SIGNATURE_MISSING (a source signs these results, and `unsigned` are refused).
-- Each of the list has org_id, request_id, body (a bundle that was checked), origin and payload. However many there are, it is
-- one statement. It runs as its owner, who alone takes numbers of the sequence, and holds itself to the org by name.
CREATE FUNCTION assent.keep_deliveries(
  bundles jsonb, come_by text, brought_by text DEFAULT NULL, names text DEFAULT '', unsigned boolean DEFAULT true,
  work_of text[] DEFAULT '{}')
RETURNS TABLE (number bigint, outcome text, version uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- Its statement is planned once a session, by index: planning it for each result took longer than keeping one (230 a second, 550).
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  has_work boolean := false;
BEGIN
  PERFORM assent.require_org(b.org_id) FROM (SELECT DISTINCT one ->> 'org_id' AS org_id FROM jsonb_array_elements(bundles) AS one) AS b;
  FOR number, outcome, version IN
    WITH given AS MATERIALIZED (
      SELECT b.number, b.one ->> 'org_id' AS org_id, (b.one ->> 'request_id')::uuid AS request_id, b.one -> 'body' AS body,
             b.one -> 'body' ->> 'key' AS key, b.one ->> 'origin' AS origin, nullif(b.one -> 'payload', 'null') AS payload
        FROM jsonb_array_elements(bundles) WITH ORDINALITY AS b (one, number)
    ), asked AS MATERIALIZED (
      SELECT g.*, r.name, r.partition_id, r.ended_at IS NOT NULL AS is_late
        FROM given g LEFT JOIN assent.outside_requests r ON r.org_id = g.org_id AND r.id = g.request_id
    ), lacking AS MATERIALIZED (
      SELECT DISTINCT ON (p.number) p.number, p.version
        FROM (SELECT a.number, a.org_id, a.partition_id, i.place,
                     substring(i.item ->> 'cargo' FROM '^version://assent/(.*)$')::uuid AS version
                FROM asked a CROSS JOIN LATERAL jsonb_array_elements(a.body -> 'items') WITH ORDINALITY AS i (item, place)
             ) AS p
       WHERE p.version IS NOT NULL AND NOT EXISTS (
         SELECT FROM assent.document_versions v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
          WHERE v.org_id = p.org_id AND v.id = p.version
            AND (d.partition_id IS NULL OR p.partition_id IS NULL OR d.partition_id = p.partition_id))
       ORDER BY p.number, p.place
    ), judged AS MATERIALIZED (
      SELECT a.*, l.version,
             CASE WHEN a.name IS NULL THEN 'NOT_FOUND'
                  WHEN NOT starts_with(a.name, names) THEN 'REQUEST_NOT_OF_STREAM'
                  WHEN NOT unsigned AND EXISTS (
                    SELECT FROM assent.event_sources s
                     WHERE s.org_id = a.org_id AND starts_with('result:' || a.name, s.key_prefix)) THEN 'SIGNATURE_MISSING'
                  WHEN l.version IS NOT NULL THEN 'UNKNOWN_VERSION' END AS problem
        FROM asked a LEFT JOIN lacking l ON l.number = a.number
    ), fresh AS MATERIALIZED (
      -- Positions are taken in the order of the list; rows are inserted in the order of their keys, so that two
      -- transactions with the same keys never wait for each other in a circle.
      SELECT f.*, assent.new_id() AS id, nextval('assent.outside_request_deliveries_position_seq') AS position
        FROM (SELECT * FROM (
                SELECT DISTINCT ON (j.org_id, j.request_id, j.key) j.*
                  FROM judged j WHERE j.problem IS NULL ORDER BY j.org_id, j.request_id, j.key, j.number) AS first
               ORDER BY first.number) AS f
    ), taken AS (
      INSERT INTO assent.outside_request_deliveries
             (org_id, id, position, request_id, key, source, pushed_by, people, origin, late, received_at)
      SELECT f.org_id, f.id, f.position, f.request_id, f.key, come_by, brought_by, work_of, f.origin, f.is_late, assent.now()
        FROM fresh f ORDER BY f.org_id, f.request_id, f.key
      ON CONFLICT (org_id, request_id, key) DO NOTHING
      RETURNING id
    ), queued AS (
      INSERT INTO assent.jobs (org_id, id, kind, lane, status, attempts_max, ended_at)
      SELECT f.org_id, f.id, 'result', left(f.name, 200), 'queued', 5, NULL
        FROM fresh f JOIN taken t ON t.id = f.id
    ), noted AS (
      INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, payload, at)
      SELECT f.org_id, f.id, f.request_id, 'delivered', come_by, f.body, f.payload, assent.now()
        FROM fresh f JOIN taken t ON t.id = f.id
    )
    SELECT j.number, coalesce(j.problem, CASE WHEN t.id IS NULL THEN 'repeated' WHEN j.is_late THEN 'late' ELSE 'accepted' END),
           j.version
      FROM judged j LEFT JOIN fresh f ON f.number = j.number LEFT JOIN taken t ON t.id = f.id
     ORDER BY j.number
  LOOP
    has_work := has_work OR outcome IN ('accepted', 'late');
    RETURN NEXT;
  END LOOP;
  IF has_work THEN
    PERFORM pg_notify('assent_results', '');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.keep_deliveries(jsonb, text, text, text, boolean, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.keep_deliveries(jsonb, text, text, text, boolean, text[]) TO assent_engine;

-- Keeps one bundle for a request of the transaction's org: `accepted`, `repeated`, `late` or UNKNOWN_VERSION, as above; null where
-- there is no such request.
CREATE FUNCTION assent.keep_delivery(to_request uuid, bundle jsonb, come_by text, brought_by text,
  work_of text[] DEFAULT '{}')
RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT nullif(k.outcome, 'NOT_FOUND')
    FROM assent.keep_deliveries(
      jsonb_build_array(jsonb_build_object('org_id', assent.org_id(), 'request_id', to_request, 'body', bundle)),
      come_by, brought_by, work_of => work_of) AS k);

-- What is wrong with an item of a bundle; null where it is right.
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

-- What is wrong with a bundle; null where it is right. The same as assent.model.outside_request.
CREATE FUNCTION assent.bundle_problem(key text, items jsonb, status text, error text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE
  WHEN coalesce(length(key), 0) NOT BETWEEN 1 AND 200 THEN 'a result needs a key of 1 to 200 characters'
  WHEN assent.is_blank(key) THEN 'the key of a result is not blank'
  WHEN status IS NULL OR status NOT IN ('completed', 'failed', 'expired')
    THEN 'the status of a result is completed, failed or expired'
  WHEN length(error) > 2000 THEN 'the error of a result has 2000 characters at most'
  WHEN jsonb_typeof(items) IS DISTINCT FROM 'array' THEN 'the items of a result are a list'
  WHEN jsonb_array_length(items) > 500 THEN 'a result has 500 items at most'
  WHEN status = 'completed' AND items = '[]' THEN 'a completed result has items'
  ELSE (SELECT min(assent.item_problem(item)) FROM jsonb_array_elements(items) AS item)
END;

-- Pushes what an outside party sends for a request: `accepted`, `repeated` where its key was pushed before, or `late` where
-- the request has ended. For programs in any language, in their own transaction. It runs as its owner, since the caller has
-- no right to write, and holds itself to the org of the transaction (`assent.org_id`) by name.
CREATE FUNCTION assent.push_result(
  request_id uuid, key text, items jsonb, status text DEFAULT 'completed', error text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
    request_id, jsonb_build_object('key', key, 'status', status, 'items', items, 'error', error), 'sql', NULL);
  IF pushed IS NULL THEN
    RAISE no_data_found USING MESSAGE = format('no request %s', coalesce(request_id::text, 'without an id'));
  END IF;
  IF pushed = 'UNKNOWN_VERSION' THEN
    RAISE no_data_found USING MESSAGE = format('a result for request %s points to a version that is not there', request_id),
      HINT = 'Create the version first.';
  END IF;
  RETURN pushed;
END
$$;

-- Where programs in any language insert results, row by row or in bulk, in their own transaction. No row stays: what an
-- INSERT brings goes on at its end, by the trigger, to where push_result brings it. A row that cannot be kept is an error of
-- the INSERT, since its program can see why; whatever happens to a result later is no error of the program.
CREATE TABLE assent.incoming_results (
  org_id     text   NOT NULL DEFAULT assent.org_id(),
  number     bigint GENERATED BY DEFAULT AS IDENTITY,  -- the order in which they came
  request_id uuid,
  key        text,                                  -- the sender's own: the same again changes nothing
  status     text   DEFAULT 'completed',
  error      text,
  cargo      text,                                  -- of a result of one item
  kind       text,
  items      jsonb,                                 -- of a result of several
  payload    jsonb,                                 -- whatever the sender wants kept with it, for the record
  CONSTRAINT incoming_results_pkey PRIMARY KEY (org_id, number)
);
SELECT assent.guard_by_org('assent.incoming_results');
GRANT INSERT (org_id, request_id, key, status, error, cargo, kind, items, payload) ON assent.incoming_results TO assent_client;

-- Refuses a result of no org with words that say what to do, before row security refuses it without.
CREATE FUNCTION assent.refuse_result_without_org() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE invalid_parameter_value USING MESSAGE = 'a result needs an org',
    HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
END
$$;
CREATE TRIGGER incoming_results_have_an_org BEFORE INSERT ON assent.incoming_results
  FOR EACH ROW WHEN (NEW.org_id IS NULL) EXECUTE FUNCTION assent.refuse_result_without_org();

-- Takes what one INSERT brought: all of it, or none with an error that names the first row that cannot be kept.
CREATE FUNCTION assent.take_incoming_results() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bundles jsonb;
  refused record;
BEGIN
  SELECT jsonb_agg(jsonb_build_object(
           'org_id', i.org_id, 'request_id', i.request_id, 'payload', i.payload, 'both', i.items IS NOT NULL AND i.cargo IS NOT NULL,
           'body', jsonb_build_object('key', i.key, 'status', i.status, 'error', i.error, 'items',
             CASE WHEN i.items IS NOT NULL THEN i.items
                  WHEN i.cargo IS NULL AND i.kind IS NULL THEN '[]'
                  ELSE jsonb_build_array(jsonb_build_object('cargo', i.cargo, 'kind', i.kind, 'status', i.status)) END))
           ORDER BY i.number) INTO bundles
    FROM inserted i;
  IF bundles IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT b.one, p.problem INTO refused
    FROM jsonb_array_elements(bundles) WITH ORDINALITY AS b (one, number)
   CROSS JOIN LATERAL (SELECT CASE
     WHEN (b.one ->> 'both')::boolean THEN 'a result has items, or the cargo of its one item, and not both'
     ELSE assent.bundle_problem(b.one #>> '{body,key}', b.one #> '{body,items}', b.one #>> '{body,status}',
                                b.one #>> '{body,error}') END) AS p (problem)
   WHERE p.problem IS NOT NULL ORDER BY b.number LIMIT 1;
  IF FOUND THEN
    RAISE invalid_parameter_value USING MESSAGE = refused.problem,
      DETAIL = format('Found in the row for request %s with the key %L.', refused.one ->> 'request_id', refused.one #>> '{body,key}');
  END IF;
  SELECT k.outcome, k.version, bundles -> (k.number - 1)::integer AS one INTO refused
    FROM assent.keep_deliveries(bundles, 'table', NULL) AS k
   WHERE k.outcome NOT IN ('accepted', 'repeated', 'late') ORDER BY k.number LIMIT 1;
  IF FOUND THEN
    RAISE no_data_found USING
      MESSAGE = CASE refused.outcome WHEN 'UNKNOWN_VERSION' THEN format('no version %s', refused.version)
                ELSE format('no request %s', coalesce(refused.one ->> 'request_id', 'without an id')) END,
      DETAIL = format('Found in the row for request %s with the key %L.', refused.one ->> 'request_id', refused.one #>> '{body,key}');
  END IF;
  DELETE FROM assent.incoming_results r USING inserted i WHERE r.org_id = i.org_id AND r.number = i.number;
  RETURN NULL;
END
$$;
CREATE TRIGGER incoming_results_are_taken AFTER INSERT ON assent.incoming_results
  REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION assent.take_incoming_results();
GRANT EXECUTE ON FUNCTION assent.is_cargo(text), assent.item_problem(jsonb),
                          assent.bundle_problem(text, jsonb, text, text),
                          assent.keep_delivery(uuid, jsonb, text, text, text[]) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.push_result(uuid, text, jsonb, text, text) TO assent_engine, assent_client;
