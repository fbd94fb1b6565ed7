-- Entities and their versions, and the only functions that write them.
--
-- `entities` holds only what changes and is small: state, version, window. Content is in `entity_versions`, which is only
-- inserted into; data_hash ties the two together and lets a trigger see an edit without reading content. assent_engine has
-- no DML on either. It calls write_entities, which writes head, version and audit row of each entity, or nothing.
--
-- content_hash is of what people wrote, without the fields that only the workflow writes: what an approver approves. A
-- request is pinned to a version and holds for its content, so the workflow's own notes do not void it and every
-- other edit does, in the transaction of the edit.

CREATE TABLE assent.entities (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  entity_type         text        NOT NULL,
  contract_version    integer     NOT NULL,
  partition_id        text,
  state               text        NOT NULL,
  version             integer     NOT NULL,
  data_hash           text        NOT NULL,
  content_hash        text        NOT NULL,
  edit_window         text        NOT NULL,
  instance_id         uuid,       -- the instance that runs for it, or is to come
  written_by_instance uuid,       -- set when the version is that instance's own write
  amended_from_id     uuid,
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  CONSTRAINT entities_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT entity_version_counts_from_one CHECK (version >= 1),
  CONSTRAINT edit_window_is_known CHECK (edit_window IN ('editable', 'amend_only', 'locked')),
  CONSTRAINT amendment_is_of_an_entity FOREIGN KEY (org_id, amended_from_id) REFERENCES assent.entities (org_id, id)
) WITH (fillfactor = 80); -- room for versions and windows to be updated in place
-- Lists go by the time of creation; a condition on one value narrows them down without changing that order. No column of
-- them but the state and the time of the change ever changes.
CREATE INDEX entities_by_created ON assent.entities (org_id, entity_type, created_at, id);
CREATE INDEX entities_by_state ON assent.entities (org_id, entity_type, state, created_at, id);
CREATE INDEX entities_by_partition ON assent.entities (org_id, entity_type, partition_id, created_at, id)
  WHERE partition_id IS NOT NULL;
CREATE INDEX entities_by_updated ON assent.entities (org_id, entity_type, updated_at, id);
CREATE INDEX entities_by_amended ON assent.entities (org_id, amended_from_id) WHERE amended_from_id IS NOT NULL;
SELECT assent.guard_by_org('assent.entities');
GRANT SELECT ON assent.entities TO assent_engine, assent_client;

CREATE TABLE assent.entity_versions (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  entity_id   uuid        NOT NULL,
  version     integer     NOT NULL,
  entity_type text        NOT NULL,
  state       text        NOT NULL,
  data        jsonb       NOT NULL,
  data_hash   text        NOT NULL,
  created_at  timestamptz NOT NULL,
  created_by  text        NOT NULL,
  CONSTRAINT entity_versions_pkey PRIMARY KEY (org_id, entity_id, version),
  CONSTRAINT entity_version_id_is_unique UNIQUE (org_id, id),
  CONSTRAINT version_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
);
CREATE TRIGGER versions_are_append_only BEFORE UPDATE OR DELETE ON assent.entity_versions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER versions_are_never_emptied BEFORE TRUNCATE ON assent.entity_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
-- The first version is its creator's.
CREATE INDEX entities_by_creator ON assent.entity_versions (org_id, entity_type, created_by, created_at, entity_id)
  WHERE version = 1;
SELECT assent.guard_by_org('assent.entity_versions');
GRANT SELECT ON assent.entity_versions TO assent_engine, assent_client;

-- Values of fields that the contract declares unique, one row each: two transactions that write the same value meet here.
-- Hashes, because an index holds no long text. Only write_entities writes it. An amendment takes the values of its original.
CREATE TABLE assent.unique_values (
  org_id      text  NOT NULL,
  entity_type text  NOT NULL,
  field       text  NOT NULL,
  value_hash  bytea NOT NULL,
  entity_id   uuid  NOT NULL,
  CONSTRAINT value_is_unique PRIMARY KEY (org_id, entity_type, field, value_hash),
  CONSTRAINT unique_value_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
);
CREATE INDEX unique_values_by_entity ON assent.unique_values (org_id, entity_id);
SELECT assent.guard_by_org('assent.unique_values');

-- The indexes of an entity type, as its newest published contract declares them, for all orgs (`*`). Writers are refused, and
-- try again, if the stamp is not the one that they know. `ready` are the fields whose values are there for every entity; a
-- worker builds the others. It begins when every transaction has ended that could have written without knowing of them:
-- `barrier` is the first transaction id that could not.
CREATE TABLE assent.entity_indexes (
  org_id           text        NOT NULL,
  entity_type      text        NOT NULL,
  contract_version integer     NOT NULL,
  stamp            bigint      NOT NULL,
  fields           jsonb       NOT NULL,   -- field → type
  searched         text[]      NOT NULL,
  ready            text[]      NOT NULL,   -- fields, and * for the words
  built            boolean     NOT NULL,
  barrier          xid8,
  at_org           text,                   -- how far the worker has come
  at_id            uuid,
  done             bigint      NOT NULL DEFAULT 0,
  total            bigint,                 -- entities of the type when it began
  changed_at       timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT entity_indexes_pkey PRIMARY KEY (org_id, entity_type),
  CONSTRAINT indexes_are_of_all_orgs CHECK (org_id = '*')
);
SELECT assent.guard_by_org('assent.entity_indexes');
CREATE POLICY indexes_of_all_orgs_are_readable ON assent.entity_indexes FOR SELECT USING (org_id = '*');
GRANT SELECT ON assent.entity_indexes TO assent_engine;

-- Values of indexed fields as texts that sort as the values do, one row each and the empty text for none; and the words of
-- searched fields, under the field `*`. Only write_entities and the worker that builds an index write it. No foreign key:
-- entities are never deleted, and its check would cost as much as the row.
CREATE TABLE assent.indexed_values (
  org_id      text        NOT NULL,
  entity_type text        NOT NULL,
  field       text        NOT NULL,
  value       text        NOT NULL COLLATE "C",
  created_at  timestamptz NOT NULL,        -- of the entity: lists of one value go by it
  entity_id   uuid        NOT NULL,
  CONSTRAINT indexed_values_pkey PRIMARY KEY (org_id, entity_type, field, value, created_at, entity_id)
);
CREATE INDEX indexed_values_by_entity ON assent.indexed_values (org_id, entity_id, field, value);
SELECT assent.guard_by_org('assent.indexed_values');
GRANT SELECT ON assent.indexed_values TO assent_engine;

-- Replaces the indexed values of entities: `indexed` is field → texts, of the fields that are to be replaced.
CREATE FUNCTION assent.replace_indexed_values(changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM assent.indexed_values v
   USING jsonb_to_recordset(changes) AS c (org_id text, entity_id uuid, indexed jsonb)
   WHERE v.org_id = c.org_id AND v.entity_id = c.entity_id AND c.indexed ? v.field AND NOT c.indexed -> v.field ? v.value;
  INSERT INTO assent.indexed_values (org_id, entity_type, field, value, created_at, entity_id)
  SELECT c.org_id, e.entity_type, f.key, t.value, e.created_at, c.entity_id
    FROM jsonb_to_recordset(changes) AS c (org_id text, entity_id uuid, indexed jsonb)
    JOIN assent.entities e ON e.org_id = c.org_id AND e.id = c.entity_id
   CROSS JOIN LATERAL jsonb_each(c.indexed) f
   CROSS JOIN LATERAL jsonb_array_elements_text(f.value) t
  ON CONFLICT DO NOTHING;
END
$$;

-- The last number that each series has given out; a period, such as a year, begins at one. Only draw_numbers writes it. The
-- row stays locked until the transaction ends: a number that is not committed is the next one's, so there are no gaps.
CREATE TABLE assent.number_series (
  org_id      text   NOT NULL,
  entity_type text   NOT NULL,
  field       text   NOT NULL,
  period      text   NOT NULL,                  -- 2026-11, 2026, or empty
  last_number bigint NOT NULL,
  CONSTRAINT number_series_pkey PRIMARY KEY (org_id, entity_type, field, period),
  CONSTRAINT numbers_count_from_one CHECK (last_number >= 1)
);
SELECT assent.guard_by_org('assent.number_series');

-- What people mean by "the entity": its head, with the content of its current version.
CREATE VIEW assent.current_entities WITH (security_invoker = true) AS
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash
  FROM assent.entities e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version;
GRANT SELECT ON assent.current_entities TO assent_engine, assent_client;

-- Refuses writes that do not come through write_entities or set_edit_windows, also the owner's plain SQL. These two allow
-- themselves by assent.door; nothing allows DELETE or TRUNCATE.
CREATE FUNCTION assent.require_entity_door() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP IN ('DELETE', 'TRUNCATE')
     OR coalesce(current_setting('assent.door', true), '') NOT IN ('mutate', 'advance') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('%s of %s did not come through mutate', TG_OP, TG_TABLE_NAME),
      HINT = 'Change entities with kernel.mutate; it keeps versions, audit and workflows in step.';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER entities_change_only_in_mutate
  BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON assent.entities
  FOR EACH STATEMENT EXECUTE FUNCTION assent.require_entity_door();
CREATE TRIGGER versions_are_made_only_in_mutate BEFORE INSERT ON assent.entity_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.require_entity_door();

-- What a write may do to an entity's row. Reads the window that the row has under its lock. A window moves without the
-- content that is approved, too.
CREATE FUNCTION assent.guard_entity_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.entity_type, NEW.partition_id, NEW.amended_from_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.entity_type, OLD.partition_id, OLD.amended_from_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('entity %s keeps its identity', OLD.id);
  END IF;
  IF NEW.contract_version <> OLD.contract_version AND EXISTS (
       SELECT FROM assent.workflow_definitions d
        WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = OLD.entity_type
          AND d.version = OLD.contract_version) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('entity %s lives by version %s of its contract, not by %s', OLD.id, OLD.contract_version,
                       NEW.contract_version);
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
CREATE TRIGGER entity_rows_are_guarded BEFORE UPDATE ON assent.entities
  FOR EACH ROW EXECUTE FUNCTION assent.guard_entity_row();

-- What people wrote in a version of an entity: its data without the fields that only the workflow writes.
CREATE FUNCTION assent.content_of(of_org text, of_entity uuid, in_version integer, of_type text, by_contract integer)
RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT v.data - ARRAY(SELECT jsonb_array_elements_text(assent.contract_walls(of_type, by_contract) -> 'system'))
          FROM assent.entity_versions v
         WHERE v.org_id = of_org AND v.entity_id = of_entity AND v.version = in_version
           AND assent.contract_walls(of_type, by_contract) IS NOT NULL);

-- Approvals hold for a content hash, so another content must not come under the hash of the one before. The hash itself is
-- made in Python, of a canonical text that jsonb does not have (numbers keep their scale there): the database compares the
-- contents instead, which is the promise that the hash stands for. Only where the data changed and the hash did not is there
-- anything to compare: the workflow's own notes. The other way round, another hash for the same content, only voids approvals.
CREATE FUNCTION assent.guard_changed_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong uuid;
BEGIN
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.data_hash <> o.data_hash AND n.content_hash = o.content_hash
     AND assent.content_of(n.org_id, n.id, n.version, n.entity_type, n.contract_version)
         <> assent.content_of(n.org_id, n.id, o.version, n.entity_type, n.contract_version)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('entity %s has other content under the content hash of the version before', wrong);
  END IF;
  -- A window follows the tokens of the instance, and no token stands where edits are freer than the contract says of the
  -- entity's state.
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.version = o.version AND n.edit_window <> o.edit_window
     AND array_position('{editable,amend_only,locked}'::text[], n.edit_window)
         < array_position('{editable,amend_only,locked}'::text[], assent.contract_walls(n.entity_type, (
             SELECT (d.walls ->> 'envelope_version')::integer
               FROM assent.workflow_instances i
               JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
              WHERE i.org_id = n.org_id AND i.id = coalesce(n.instance_id, o.instance_id))) -> 'windows' ->> n.state)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002', MESSAGE = format('the window of entity %s would be looser than its state', wrong);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER changed_entities_are_guarded AFTER UPDATE ON assent.entities
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_changed_entities();

CREATE FUNCTION assent.guard_new_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong record;
BEGIN
  SELECT born.entity_type, born.state, walls.initial INTO wrong
    FROM (SELECT DISTINCT n.entity_type, n.contract_version, n.state FROM new_rows n) AS born
   CROSS JOIN LATERAL (SELECT assent.contract_walls(born.entity_type, born.contract_version) ->> 'initial') AS walls (initial)
   WHERE walls.initial <> born.state LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s begins as %s, not as %s', wrong.entity_type, wrong.initial, wrong.state);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER new_entities_begin_at_the_beginning AFTER INSERT ON assent.entities
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_new_entities();

-- A state is reached by a way of the contract that the entity's instance is bound to, through that instance; and where every
-- such way takes an approval, one of this entity and instance is consumed in the same transaction and none of its round is
-- still open, or a step that waives it has been completed in the same generation. Checked at the commit: the instance, its
-- steps and its requests are written after the entity.
CREATE FUNCTION assent.guard_gate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  pinned jsonb;
  takes_approval boolean;
BEGIN
  SELECT d.walls INTO pinned
    FROM assent.workflow_instances i
    JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
   WHERE i.org_id = NEW.org_id AND i.id = NEW.written_by_instance AND i.entity_id = NEW.id;
  IF pinned IS NULL THEN
    IF assent.contract_walls(NEW.entity_type, NEW.contract_version) IS NULL THEN
      RETURN NULL; -- a type without a workflow
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s %s moves from %s to %s only by its workflow', NEW.entity_type, NEW.id, OLD.state, NEW.state);
  END IF;

  SELECT bool_and((way -> 'approval')::boolean) INTO takes_approval
    FROM jsonb_array_elements(
           assent.contract_walls(NEW.entity_type, (pinned ->> 'envelope_version')::integer) -> 'ways') AS way
   WHERE way ->> 'from' = OLD.state AND way ->> 'to' = NEW.state;
  IF takes_approval IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('no transition of %s leads from %s to %s', NEW.entity_type, OLD.state, NEW.state);
  END IF;
  IF NOT takes_approval THEN
    RETURN NULL;
  END IF;

  PERFORM FROM assent.approval_requests r
    WHERE r.org_id = NEW.org_id AND r.instance_id = NEW.written_by_instance AND r.entity_id = NEW.id
      AND r.applied_xid = pg_current_xact_id()
      AND NOT EXISTS (SELECT FROM assent.approval_requests o
                       WHERE o.org_id = r.org_id AND o.instance_id = r.instance_id AND o.slot = r.slot
                         AND o.generation = r.generation AND o.status = 'pending');
  IF FOUND THEN
    RETURN NULL;
  END IF;
  IF pinned -> 'waives' <> '[]' THEN
    PERFORM FROM assent.workflow_step_executions gate
       JOIN assent.workflow_step_executions waiver
         ON waiver.org_id = gate.org_id AND waiver.instance_id = gate.instance_id
      WHERE gate.org_id = NEW.org_id AND gate.instance_id = NEW.written_by_instance
        AND gate.node_type = 'lifecycle_gate' AND gate.status = 'completed'
        AND gate.output_json ->> 'entity_version' = NEW.version::text
        AND waiver.status = 'completed' AND pinned -> 'waives' ? waiver.node_id
        AND split_part(waiver.token_id, '/', 1) = split_part(gate.token_id, '/', 1);
    IF FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS012',
    MESSAGE = format('%s %s goes from %s to %s with an approval only, and none was consumed', NEW.entity_type, NEW.id, OLD.state, NEW.state),
    HINT = 'Approvals are given by decisions of those who are asked, and consumed by the gate in the transaction that moves the state.';
END
$$;
CREATE CONSTRAINT TRIGGER states_are_reached_through_their_gates AFTER UPDATE ON assent.entities
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION assent.guard_gate();

-- An edit voids what is open or unapplied, in the edit's own transaction.
CREATE FUNCTION assent.void_approvals_of_old_content() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  -- Most updates move a window, or write fields of the workflow: asking first costs them less than an update of nothing.
  PERFORM FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id WHERE n.content_hash <> o.content_hash;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
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

-- The three functions below are set-based, and check again what the kernel has checked, so that a bug above them cannot
-- write what must not be written.
--
-- They allow their writes by set_config and put back what it was: `SET assent.door` in a function's definition is refused to
-- all but a superuser, since PostgreSQL does not know the parameter. An error rolls the setting back with the rest. The
-- setting keeps the owner's plain SQL out. It is no key: the engine's role has no right to write these tables, whatever it
-- sets.

-- Locks entities and returns their current versions. Locks are taken in the same order everywhere: instances by id, then
-- entity rows by id.
CREATE FUNCTION assent.lock_entities(orgs text[], ids uuid[])
RETURNS SETOF assent.current_entities
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held uuid[];
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT unnest(orgs)) AS asked (org);

  -- LATERAL and OFFSET 0, here and below: a look-up by key for each, whatever the statistics say.
  SELECT coalesce(array_agg(i.instance_id), '{}') INTO held FROM (
    SELECT DISTINCT e.instance_id
      FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
        SELECT o.instance_id FROM assent.entities o
         WHERE o.org_id = asked.org_id AND o.id = asked.id OFFSET 0) e
     WHERE e.instance_id IS NOT NULL ORDER BY e.instance_id) i;
  PERFORM pg_advisory_xact_lock(hashtextextended(i::text, 0)) FROM unnest(held) AS i;

  -- Lock in one statement and read in the next: a join that waits for a row's lock would look for the content of the
  -- version that the row had before, and lose the row.
  PERFORM FROM (SELECT * FROM unnest(orgs, ids) AS given (org_id, id) ORDER BY id) AS asked CROSS JOIN LATERAL (
    SELECT FROM assent.entities o WHERE o.org_id = asked.org_id AND o.id = asked.id FOR UPDATE) e;

  -- An instance that came while we waited is locked now, out of order and so without waiting: a deadlock would be
  -- found too late, a retry finds it first.
  PERFORM FROM (
    SELECT e.instance_id FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
      SELECT o.instance_id FROM assent.entities o
       WHERE o.org_id = asked.org_id AND o.id = asked.id AND o.instance_id IS NOT NULL OFFSET 0) e
    EXCEPT SELECT unnest(held)) AS newcomer
    WHERE NOT pg_try_advisory_xact_lock(hashtextextended(newcomer.instance_id::text, 0));
  IF FOUND THEN
    RAISE serialization_failure USING MESSAGE = 'an instance started while its entity was being locked';
  END IF;

  RETURN QUERY SELECT c.* FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
    SELECT * FROM assent.current_entities o WHERE o.org_id = asked.org_id AND o.id = asked.id OFFSET 0) c;
END
$$;
GRANT EXECUTE ON FUNCTION assent.lock_entities(text[], uuid[]) TO assent_engine;

-- Draws numbers for entities that the caller writes next in its transaction: `amount` of each series, and returns the last.
-- Counters are locked in the order of their keys.
CREATE FUNCTION assent.draw_numbers(draws jsonb)
RETURNS TABLE (org_id text, entity_type text, field text, period text, last_number bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT d ->> 'org_id' FROM jsonb_array_elements(draws) d) AS asked (org);
  RETURN QUERY
  INSERT INTO assent.number_series AS s (org_id, entity_type, field, period, last_number)
  SELECT d.org_id, d.entity_type, d.field, d.period, d.amount
    FROM jsonb_to_recordset(draws) AS d (org_id text, entity_type text, field text, period text, amount bigint)
   WHERE d.amount >= 1
   ORDER BY 1, 2, 3, 4
  ON CONFLICT ON CONSTRAINT number_series_pkey DO UPDATE SET last_number = s.last_number + excluded.last_number
  RETURNING s.org_id, s.entity_type, s.field, s.period, s.last_number;
END
$$;
GRANT EXECUTE ON FUNCTION assent.draw_numbers(jsonb) TO assent_engine;

-- Writes changes of entities: head, version and audit row of each, or nothing. An entity that changes more than once
-- in a set has its changes in successive layers; nearly always there is one layer.
CREATE FUNCTION assent.write_entities(changes jsonb, layers integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  wanted integer;
  written integer;
  disguised integer;
  indexed jsonb;
  taken_field text;
BEGIN
  -- Before the stamps of indexes are looked at: the build of an index waits for all transactions that had an id then.
  PERFORM pg_current_xact_id();
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
        contributors text[], action text, changed jsonb, place text, reason text, channel text, trace_id text, index_stamp bigint)
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
    -- Another transaction was first: the caller reads again and finds the new version.
    IF written <> wanted THEN
      RAISE serialization_failure USING
        MESSAGE = format('%s of %s entities have moved on since they were read', wanted - written, wanted);
    END IF;
    -- The guard of the rows knows an edit by its hash, so an edit must not come under the old one.
    IF disguised > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'AS002',
        MESSAGE = format('%s of %s entities have other content under the hash of the version before', disguised, wanted);
    END IF;
    -- In a statement of its own, behind the one that waited for locks: it sees what was committed meanwhile.
    PERFORM FROM (SELECT DISTINCT c.entity_type, c.index_stamp
                    FROM jsonb_to_recordset(changes) AS c (entity_type text, index_stamp bigint)) k
       LEFT JOIN assent.entity_indexes x ON x.org_id = '*' AND x.entity_type = k.entity_type
      WHERE coalesce(x.stamp, 0) <> coalesce(k.index_stamp, 0);
    IF FOUND THEN
      RAISE serialization_failure USING MESSAGE = 'the indexes of an entity type have changed since they were read';
    END IF;
    IF changes @? '$[*].indexed ? (@ != null)' THEN
      SELECT jsonb_agg(jsonb_build_object('org_id', c.org_id, 'entity_id', c.entity_id, 'indexed', c.indexed)) INTO indexed
        FROM jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_id uuid, indexed jsonb)
       WHERE c.layer = current_layer AND jsonb_typeof(c.indexed) = 'object';
      PERFORM assent.replace_indexed_values(indexed);
    END IF;
    CONTINUE WHEN NOT changes @? '$[*].unique_values ? (@ != null)';
    DELETE FROM assent.unique_values u
     USING jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_id uuid, amended_from_id uuid, unique_values jsonb)
     WHERE c.layer = current_layer AND jsonb_typeof(c.unique_values) = 'object' AND u.org_id = c.org_id
       AND u.entity_id IN (c.entity_id, c.amended_from_id);
    -- ON CONFLICT waits for a transaction that has written the same value and not ended yet.
    WITH value AS MATERIALIZED (
      SELECT c.org_id, c.entity_type, f.key AS field, sha256(convert_to(f.value, 'UTF8')) AS value_hash, c.entity_id
        FROM jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_type text, entity_id uuid, unique_values jsonb),
             jsonb_each_text(CASE jsonb_typeof(c.unique_values) WHEN 'object' THEN c.unique_values ELSE '{}' END) f
       WHERE c.layer = current_layer
       ORDER BY 1, 2, 3, 4
    ), kept AS (
      INSERT INTO assent.unique_values (org_id, entity_type, field, value_hash, entity_id)
      SELECT org_id, entity_type, field, value_hash, entity_id FROM value
      ON CONFLICT ON CONSTRAINT value_is_unique DO NOTHING
      RETURNING field, entity_id
    )
    SELECT v.field INTO taken_field
      FROM value v WHERE NOT EXISTS (SELECT FROM kept k WHERE k.entity_id = v.entity_id AND k.field = v.field)
     LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'AS013', MESSAGE = format('the value of %s is taken', taken_field), DETAIL = taken_field;
    END IF;
  END LOOP;
  PERFORM set_config('assent.door', former_door, true);
END
$$;
GRANT EXECUTE ON FUNCTION assent.write_entities(jsonb, integer) TO assent_engine;

-- Keeps the strictest window of an instance's active tokens on its entity; not a version. When the instance has ended the
-- window stays as it is and the entity is free for its next instance.
CREATE FUNCTION assent.set_edit_windows(windows jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  wanted integer := jsonb_array_length(windows);
  written integer;
BEGIN
  PERFORM set_config('assent.door', 'advance', true);
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT w ->> 'org_id' FROM jsonb_array_elements(windows) w) AS asked (org);

  UPDATE assent.entities e
     SET edit_window = w.edit_window, instance_id = CASE WHEN NOT w.ended THEN w.instance_id END
    FROM jsonb_to_recordset(windows)
           AS w (org_id text, entity_id uuid, instance_id uuid, edit_window text, ended boolean)
    JOIN assent.workflow_instances i ON i.org_id = w.org_id AND i.id = w.instance_id AND i.entity_id = w.entity_id
   WHERE e.org_id = w.org_id AND e.id = w.entity_id
     -- An entity that is free is taken by an instance that runs; one that has ended lets go of what it holds.
     AND (e.instance_id = w.instance_id OR (e.instance_id IS NULL AND i.status IN ('running', 'paused')));
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('%s of %s windows belong to another instance', wanted - written, wanted);
  END IF;
  PERFORM set_config('assent.door', former_door, true);
END
$$;
GRANT EXECUTE ON FUNCTION assent.set_edit_windows(jsonb) TO assent_engine;

-- Filters that people have saved under a name: a person's own, or the org's, which have no owner. A filter is of an entity
-- type, or of the inbox.
CREATE TABLE assent.saved_filters (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  filter_of  text        NOT NULL,       -- an entity type, or inbox
  owner_id   text        NOT NULL,       -- empty: shared with the org
  name       text        NOT NULL,
  filter     jsonb       NOT NULL,
  saved_by   text        NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT saved_filters_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT saved_filter_name_is_unique UNIQUE (org_id, filter_of, owner_id, name),
  CONSTRAINT saved_filter_is_an_object CHECK (jsonb_typeof(filter) = 'object')
);
CREATE INDEX saved_filters_by_name ON assent.saved_filters (org_id, filter_of, name, owner_id);
CREATE TRIGGER saved_filters_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.saved_filters FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('saved_filter', 'create', 'delete', 'id', 'filter_of name', 'filter owner_id');
SELECT assent.guard_by_org('assent.saved_filters');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.saved_filters TO assent_engine;
