-- Of each: $1 org, $2 reader, $3 now, $4 whose seats, with whether they are there now and their roles. Then the filters: $5 kind, $6 bucket, $7 entity type, $8 workflow,
-- $9 overdue, $10 due before, $11 claimed, $12 text in the title; one that is null lets everything pass. $16 is the
-- partition that the reader sees, or null.

-- name: page_by_age
-- A page of what waits for a reader, the oldest first: the index of open seats has this order, person by person.
SELECT w.*, extract(epoch FROM w.created_at) AS rank
  FROM jsonb_to_recordset($4::jsonb) AS people (user_id text, present boolean, roles text[])
 CROSS JOIN LATERAL (
    SELECT i.* FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles) i
     WHERE (i.created_at, i.id) > ($13::timestamptz, $14::uuid)
       AND ($5::text IS NULL OR i.kind = $5) AND ($6::text IS NULL OR i.bucket = $6)
       AND ($7::text IS NULL OR i.entity_type = $7) AND ($8::text IS NULL OR i.workflow = $8)
       AND ($9::boolean IS NULL OR coalesce(i.due_at < $3, false) = $9) AND ($10::timestamptz IS NULL OR i.due_at < $10)
       AND ($11::text IS NULL OR $11 = CASE i.claimed_by WHEN $2 THEN 'me' ELSE
                                         CASE WHEN i.claimed_by IS NULL THEN 'unclaimed' ELSE 'others' END END)
       AND ($12::text IS NULL OR strpos(lower(i.title), lower($12)) > 0)
       AND ($16::text IS NULL OR $16 = (SELECT p.partition_id FROM assent.workflow_instances p
                                        WHERE p.org_id = $1 AND p.id = i.instance_id))
     ORDER BY i.created_at, i.id LIMIT $15) AS w
 ORDER BY w.created_at, w.id LIMIT $15;

-- name: page_by_rank
-- A page of what waits for a reader, by when it is due or by the greatest figure: all that is open for them is read.
-- Person by person here too: else the planner, which does not know how few people there are, may read the open seats of
-- the whole org.
SELECT w.*
  FROM jsonb_to_recordset($4::jsonb) AS people (user_id text, present boolean, roles text[])
 CROSS JOIN LATERAL (
    SELECT i.*, k.rank FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles) i
     -- What is due at no time, or has no figure, comes last.
     CROSS JOIN LATERAL (SELECT coalesce(CASE $17::text WHEN 'due' THEN extract(epoch FROM i.due_at) ELSE -i.figure END,
                                         'Infinity') AS rank) AS k
     WHERE (k.rank, i.id) > ($13::numeric, $14::uuid)
       AND ($5::text IS NULL OR i.kind = $5) AND ($6::text IS NULL OR i.bucket = $6)
       AND ($7::text IS NULL OR i.entity_type = $7) AND ($8::text IS NULL OR i.workflow = $8)
       AND ($9::boolean IS NULL OR coalesce(i.due_at < $3, false) = $9) AND ($10::timestamptz IS NULL OR i.due_at < $10)
       AND ($11::text IS NULL OR $11 = CASE i.claimed_by WHEN $2 THEN 'me' ELSE
                                         CASE WHEN i.claimed_by IS NULL THEN 'unclaimed' ELSE 'others' END END)
       AND ($12::text IS NULL OR strpos(lower(i.title), lower($12)) > 0)
       AND ($16::text IS NULL OR $16 = (SELECT p.partition_id FROM assent.workflow_instances p
                                        WHERE p.org_id = $1 AND p.id = i.instance_id))
     ORDER BY k.rank, i.id LIMIT $15) AS w
 ORDER BY w.rank, w.id LIMIT $15;

-- name: count_by_bucket
-- How much waits for a reader, and how much of it is late. OFFSET 0: person by person.
SELECT i.bucket, count(*) AS open, count(*) FILTER (WHERE i.due_at < $3) AS overdue
  FROM jsonb_to_recordset($4::jsonb) AS people (user_id text, present boolean, roles text[])
 CROSS JOIN LATERAL (
    SELECT * FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles) OFFSET 0) AS i
 WHERE $5::text IS NULL OR $5 = (SELECT p.partition_id FROM assent.workflow_instances p
                                  WHERE p.org_id = $1 AND p.id = i.instance_id)
 GROUP BY i.bucket;
