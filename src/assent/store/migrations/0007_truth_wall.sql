-- The doors to entities: lock, write, move the window. Each is one set-based call, and checks again what the kernel
-- has checked, so that a bug or a stranger above them cannot write what must not be written.
--
-- They plan each call anew: a plan that was made while the tables were small is kept otherwise, and with an org's id in
-- front of every index all of them look alike to it. 500 entities took 104 ms by the wrong one, 24 by their key.
--
-- They open the door by set_config and put back what it was: `SET assent.door` in a function's definition is refused to
-- everybody but a superuser, since PostgreSQL does not know the parameter. An error rolls the setting back with the rest.
-- The setting keeps the owner's plain SQL out. It is no key: the engine's role has no right to write these tables, whatever
-- it sets.

-- What a write may do to an entity's row. Reads the window that the row has under its lock (D17).
CREATE FUNCTION assent.guard_entity_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.entity_type, NEW.partition_id, NEW.amended_from_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.entity_type, OLD.partition_id, OLD.amended_from_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('entity %s keeps its identity', OLD.id);
  END IF;
  IF current_setting('assent.door', true) = 'advance' THEN
    IF (NEW.version, NEW.state, NEW.data_hash) IS DISTINCT FROM (OLD.version, OLD.state, OLD.data_hash) THEN
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

-- Locks entities and answers how they stand. Order everywhere (D11): instances by id, then entity rows by id.
CREATE FUNCTION assent.lock_entities(orgs text[], ids uuid[])
RETURNS SETOF assent.current_entities
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
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

-- Writes changes of entities: head, version and audit row of each, or nothing. An entity that changes more than once
-- in a set has its changes in successive layers; nearly always there is one layer.
CREATE FUNCTION assent.write_entities(changes jsonb, layers integer) RETURNS void
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
        state text, data jsonb, data_hash text, edit_window text, instance_id uuid, written_by_instance uuid,
        amended_from_id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], action text,
        changed jsonb, place text, reason text, channel text, trace_id text)
       WHERE c.layer = current_layer
    ), created AS (
      INSERT INTO assent.entities (org_id, id, entity_type, contract_version, partition_id, state, version, data_hash,
             edit_window, instance_id, written_by_instance, amended_from_id, created_at, updated_at)
      SELECT org_id, entity_id, entity_type, contract_version, partition_id, state, version, data_hash,
             edit_window, instance_id, written_by_instance, amended_from_id, at, at
        FROM change WHERE from_version IS NULL
      ON CONFLICT (org_id, id) DO NOTHING
      RETURNING 1
    ), changed AS (
      UPDATE assent.entities e
         SET version = c.version, state = c.state, data_hash = c.data_hash, edit_window = c.edit_window,
             contract_version = c.contract_version, written_by_instance = c.written_by_instance, updated_at = c.at
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
             from_version, to_version, from_state, to_state, changes, place, reason, channel, instance_id, trace_id)
      SELECT org_id, audit_id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
             from_version, version, from_state, state, changed, place, reason, channel, written_by_instance, trace_id
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

-- Keeps the strictest window of an instance's active tokens on its entity (D17); not a version. When the instance has
-- ended the window stays as it is and the entity is free for its next instance.
CREATE FUNCTION assent.set_edit_windows(windows jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
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

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.lock_entities(text[], uuid[]), assent.write_entities(jsonb, integer),
  assent.set_edit_windows(jsonb) TO assent_engine;
-- Triggers run as whoever writes, and this is what they ask.
GRANT EXECUTE ON FUNCTION assent.status_may_move(text, text, text) TO assent_engine;
