-- Joins: which tasks of the types that a join waits for have completed, by the key that they have in common. One row for each key,
-- for good: the worker whose completion was the last one missing starts the task, and writes its id here in the same statement.
CREATE TABLE assent.task_joins (
  org_id       text        NOT NULL,
  name         text        NOT NULL,             -- of the join, which the code of an application declares
  partition_id text        NOT NULL DEFAULT '',  -- empty: tasks of the whole org
  key          text        NOT NULL,
  types        text[]      NOT NULL,             -- that it waits for
  completed    jsonb       NOT NULL,             -- type → {"task": id, "output": …, "people": […]}, of the first task of each type
  task_id      uuid        NOT NULL,             -- of the task that it has started; before, of no task yet
  started      boolean     NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT task_joins_pkey PRIMARY KEY (org_id, name, partition_id, key),
  CONSTRAINT task_join_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT task_join_key_is_short CHECK (length(key) BETWEEN 1 AND 256),
  CONSTRAINT task_join_completed_is_an_object CHECK (jsonb_typeof(completed) = 'object')
);
SELECT assent.guard_by_org('assent.task_joins');

-- What the database itself emits, where the code of some worker declares that something waits for it, by a name such as
-- `watch:document.version`. It stays watched while no worker runs.
CREATE INDEX names_that_watch ON assent.declared_names (name) WHERE starts_with(name, 'watch:');

-- Emits events that the database has seen, each once for its key and its cause, in the transaction of what has happened.
CREATE FUNCTION assent.emit_seen(events jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT e.*, encode(sha256(convert_to(format('%s by the database:%s', e.key, e.cause), 'UTF8')), 'hex') AS receipt
      FROM jsonb_to_recordset(events) AS e (
             org_id text, key text, cause text, partition_id text, trace_id text, people jsonb, data jsonb)
  ), receipts AS (
    INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
    SELECT org_id, '00000000-0000-0000-0000-000000000000', 'events', receipt, assent.now() FROM seen
    ON CONFLICT DO NOTHING
    RETURNING org_id, event_idempotency_key
  )
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, event_type, payload_json, event_idempotency_key, trace_id)
  SELECT s.org_id, assent.now(), assent.new_id(), 'on_event',
         jsonb_strip_nulls(jsonb_build_object('partition', s.partition_id, 'people', s.people))
         || jsonb_build_object('cause', s.cause, 'key', s.key, 'data', s.data), s.receipt, s.trace_id
    FROM seen s JOIN receipts r ON r.org_id = s.org_id AND r.event_idempotency_key = s.receipt;
  IF FOUND THEN
    PERFORM pg_notify('assent_events', '');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_seen(jsonb) FROM PUBLIC;

-- Tasks that have completed, by whichever way, as events under `task.completed:<type>`.
CREATE FUNCTION assent.emit_completions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Most applications watch nothing, and pay this look for a whole batch.
  IF NOT EXISTS (SELECT FROM assent.declared_names d WHERE starts_with(d.name, 'watch:')) THEN
    RETURN NULL;
  END IF;
  PERFORM assent.emit_seen(jsonb_agg(jsonb_build_object('org_id', a.org_id, 'key', 'task.completed:' || s.type, 'cause', a.job_id,
            'partition_id', s.partition_id, 'trace_id', s.trace_id, 'people', nullif(assent.people_of_task(a.org_id, a.job_id), '{}'),
            'data', jsonb_build_object('id', a.job_id, 'type', s.type, 'input', s.input, 'output', a.output))))
     FROM written a JOIN assent.task_submissions s ON s.org_id = a.org_id AND s.id = a.job_id
    WHERE a.kind = 'task' AND a.outcome = 'done'
      AND EXISTS (SELECT FROM assent.declared_names d WHERE d.name = 'watch:task.completed:' || s.type)
   HAVING count(*) > 0;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_completions() FROM PUBLIC;
CREATE TRIGGER completed_tasks_emit_events AFTER INSERT ON assent.job_attempts REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION assent.emit_completions();

-- Versions of documents, as events under `document.version`.
CREATE FUNCTION assent.emit_versions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM assent.declared_names d WHERE d.name = 'watch:document.version') THEN
    RETURN NULL;
  END IF;
  PERFORM assent.emit_seen(jsonb_agg(jsonb_build_object('org_id', v.org_id, 'key', 'document.version', 'cause', v.id,
            'partition_id', d.partition_id, 'people', array_remove(ARRAY[v.created_by, v.maker_id], NULL),
            'data', jsonb_build_object('id', v.id, 'document_id', v.document_id, 'document_type', d.document_type,
              'subject', d.subject, 'version', v.version_no, 'mime_type', v.content_type))))
     FROM written v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
   HAVING count(*) > 0;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_versions() FROM PUBLIC;
CREATE TRIGGER versions_emit_events AFTER INSERT ON assent.document_versions REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION assent.emit_versions();
