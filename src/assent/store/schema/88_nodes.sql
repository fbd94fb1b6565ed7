-- The processes that run: workers and servers say so again and again, in one row each. Nothing is decided by it: jobs of a worker
-- that died are rescued by its lease. Processes belong to no org.
CREATE TABLE assent.nodes (
  node_id        uuid        NOT NULL,          -- of a worker: the worker_id of its jobs and their attempts
  host           text        NOT NULL,
  pid            integer     NOT NULL,
  version        text        NOT NULL,          -- of Assent
  serves         boolean     NOT NULL,          -- whether it is an HTTP server
  duties         text[]      NOT NULL,          -- what it runs in the background
  task_types     text[]      NOT NULL,          -- of tasks, where it runs some
  started_at     timestamptz NOT NULL DEFAULT assent.now(),
  seen_at        timestamptz NOT NULL DEFAULT assent.now(),
  expected_until timestamptz NOT NULL,          -- taken for lost, where it has said nothing by then
  CONSTRAINT nodes_pkey PRIMARY KEY (node_id)
);
ALTER TABLE assent.nodes ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.nodes USING (false);

-- The processes that run, and those that were lost not long ago, by host and id. The caller checks who may see them.
CREATE FUNCTION assent.list_nodes(after_host text, after_id uuid, most integer)
RETURNS TABLE (id uuid, host text, pid integer, version text, status text, serves boolean, duties text[], task_types text[],
               started_at timestamptz, seen_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT n.node_id, n.host, n.pid, n.version, CASE WHEN n.expected_until > assent.now() THEN 'alive' ELSE 'lost' END,
         n.serves, n.duties, n.task_types, n.started_at, n.seen_at
    FROM assent.nodes n
   WHERE after_host IS NULL OR (n.host, n.node_id) > (after_host, after_id)
   ORDER BY n.host, n.node_id LIMIT most;
END;
REVOKE ALL ON FUNCTION assent.list_nodes(text, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.list_nodes(text, uuid, integer) TO assent_engine;
