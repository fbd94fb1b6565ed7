-- Partitions confine events and the keys of tasks; what somebody takes part in, and kept answers, say what they are about.

-- An event that was told in a partition is kept for those who wait there; null is the whole org.
ALTER TABLE assent.workflow_kept_events ADD COLUMN partition_id text;

-- A key stands for one task of its type in its partition; '' is the whole org, because a key needs a value.
ALTER TABLE assent.task_keys ADD COLUMN partition_id text NOT NULL DEFAULT '';
ALTER TABLE assent.task_keys DROP CONSTRAINT task_keys_pkey;
ALTER TABLE assent.task_keys ADD CONSTRAINT task_keys_pkey PRIMARY KEY (org_id, type, partition_id, key);

-- See 0021: what is submitted by SQL is of the whole org, and its keys meet no partition's.
CREATE OR REPLACE FUNCTION assent.submit_task(type text, input jsonb DEFAULT '{}', key text DEFAULT NULL,
  priority integer DEFAULT 128, run_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT 8) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  org text := assent.org_id();
  task uuid := assent.new_id();
  due timestamptz := coalesce(run_at, assent.now());
  known record;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF jsonb_typeof(input) IS DISTINCT FROM 'object' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the input of a task is an object';
  END IF;
  IF coalesce(assent.is_blank(type), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs a type', DETAIL = format('Found %L.', type);
  END IF;
  IF assent.is_blank(key) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the key of a task is not blank', DETAIL = format('Found %L.', key),
      HINT = 'Leave it out where there is none.';
  END IF;
  IF key IS NOT NULL THEN
    INSERT INTO assent.task_keys (org_id, type, partition_id, key, task_id, input_hash)
    VALUES (org, type, '', key, task, assent.input_hash(input)) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT k.task_id, k.input_hash INTO STRICT known FROM assent.task_keys k
       WHERE k.org_id = org AND k.type = submit_task.type AND k.partition_id = '' AND k.key = submit_task.key;
      IF known.input_hash <> assent.input_hash(input) THEN
        RAISE unique_violation USING
          MESSAGE = format('key %L of %s was used for another input, by task %s', key, type, known.task_id),
          HINT = 'A key stands for one task for good; take another.';
      END IF;
      RETURN known.task_id;
    END IF;
  END IF;
  INSERT INTO assent.tasks (org_id, id, type, priority, run_at, attempts_max)
  VALUES (org, task, type, priority, due, attempts_max);
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by)
  VALUES (org, task, type, input, key, attempts_max, 'sql:' || assent.calling_role());
  IF due <= assent.now() THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  RETURN task;
END
$$;

-- What a kept answer shows: it is shown again only to a caller who may still read that.
ALTER TABLE assent.http_replies ADD COLUMN about jsonb NOT NULL DEFAULT '[]';
GRANT UPDATE (about) ON assent.http_replies TO assent_engine;

-- Whether somebody was ever asked in an instance, whatever became of it.
CREATE INDEX seats_of_instance ON assent.workflow_seats (org_id, instance_id, user_id);

-- Whether a person takes part in an instance: they started it, are or were asked in it, or stand in for one who is.
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
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.takes_part(assent.workflow_instances, text, timestamptz),
  assent.is_readable(assent.workflow_instances, text[], boolean, uuid[], text, timestamptz) TO assent_engine;
