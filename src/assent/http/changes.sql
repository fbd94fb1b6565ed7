-- name: look_at_instances
-- The version of each instance.
SELECT i.org_id, i.id, i.version
  FROM unnest($1::text[], $2::uuid[]) AS asked (org_id, id)
  JOIN assent.workflow_instances i ON i.org_id = asked.org_id AND i.id = asked.id;

-- name: look_at_tasks
-- What changes of each task while it runs: its status and attempt, its progress, and the last line of its log.
SELECT j.org_id, j.id, concat_ws(' ', j.status, j.attempts, p.at, line.attempt, line.position) AS seen
  FROM unnest($1::text[], $2::uuid[]) AS asked (org_id, id)
  JOIN assent.jobs j ON j.org_id = asked.org_id AND j.id = asked.id
  LEFT JOIN assent.task_progress p ON p.org_id = j.org_id AND p.task_id = j.id
  LEFT JOIN LATERAL (
    SELECT l.attempt, l.position FROM assent.task_log_lines l
     WHERE l.org_id = j.org_id AND l.task_id = j.id ORDER BY l.attempt DESC, l.position DESC LIMIT 1) AS line ON true;

-- name: look_at_inboxes
-- For each user, the number of open seats of their own and of their delegators, and the newest, with the questions to them.
-- It is one read of two indexes for each user; a stream that sees a change reads the inbox itself.
SELECT asked.org_id, asked.user_id, asked.partition_id, sum(open.seats)::bigint AS seats, max(open.newest) AS newest
  FROM unnest($1::text[], $2::text[], $4::text[]) AS asked (org_id, user_id, partition_id)
 CROSS JOIN LATERAL (
   SELECT asked.user_id
    UNION
   SELECT d.from_user FROM assent.approval_delegations d
    WHERE d.org_id = asked.org_id AND d.to_user = asked.user_id AND d.revoked_at IS NULL AND d.starts_at <= $3
      AND (d.ends_at IS NULL OR d.ends_at > $3)) AS people (user_id)
 -- Counted person by person: as a join, a planner that knows nothing reads the seats of the whole org.
 CROSS JOIN LATERAL (
   SELECT count(*) AS seats, max(s.id::text) AS newest FROM assent.workflow_seats s
    WHERE s.org_id = asked.org_id AND s.user_id = people.user_id AND s.status = 'open'
      AND (asked.partition_id IS NULL OR asked.partition_id = (
            SELECT i.partition_id FROM assent.workflow_instances i
             WHERE i.org_id = s.org_id AND i.id = s.instance_id))
    UNION ALL
   SELECT count(*), max(c.id::text) FROM assent.comments c
    WHERE c.org_id = asked.org_id AND c.asks = asked.user_id AND people.user_id = asked.user_id AND c.kind = 'question'
      AND c.answered_at IS NULL AND c.closed_at IS NULL
      AND (asked.partition_id IS NULL OR asked.partition_id = c.partition_id)) AS open
 GROUP BY asked.org_id, asked.user_id, asked.partition_id;
