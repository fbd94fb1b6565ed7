-- name: search_audit
-- Who did what in an org, newest first: to an entity or a type, to a subject, by an actor, an action, by a channel, in a time;
-- of one partition, and without the entity types that the reader may not see. $14 is an id that nothing since then comes
-- before. What is administered is of the whole org, and in no partition.
SELECT a.id, a.at, a.actor_id, a.actor_kind, a.actor_roles, a.action, a.entity_type, a.entity_id, a.from_version,
       a.to_version, a.from_state, a.to_state, a.subject_kind, a.subject_id, a.details, a.changes, a.place, a.reason,
       a.channel, a.instance_id, a.trace_id, a.on_behalf_of
  FROM assent.audit_log a
 WHERE a.org_id = $1
   AND ($2::text IS NULL OR a.entity_type = $2)
   AND ($3::uuid IS NULL OR a.entity_id = $3)
   AND ($4::text IS NULL OR a.actor_id = $4)
   AND ($5::text IS NULL OR a.action = $5)
   AND ($6::timestamptz IS NULL OR a.at >= $6) AND ($7::timestamptz IS NULL OR a.at < $7)
   AND ($8::text IS NULL OR a.subject_kind = $8)
   AND ($9::text IS NULL OR a.subject_id = $9)
   AND ($10::text IS NULL OR a.channel = $10)
   -- Of an entity its own partition decides, whichever instance has changed it.
   AND ($11::text IS NULL OR CASE WHEN a.entity_id IS NOT NULL THEN EXISTS (
         SELECT FROM assent.entities e
          WHERE e.org_id = a.org_id AND e.id = a.entity_id AND e.partition_id = $11) ELSE EXISTS (
         SELECT FROM assent.workflow_instances i
          WHERE i.org_id = a.org_id AND i.id = a.instance_id AND i.partition_id = $11) END)
   AND (a.entity_type IS NULL OR a.entity_type <> ALL ($12::text[]))
   AND ($13::uuid IS NULL OR a.id < $13) AND a.id >= $14::uuid
 ORDER BY a.id DESC LIMIT $15;

-- name: note_commands
-- Commands that were taken, each a row of its own.
SELECT assent.note_commands($1::jsonb);

-- name: note_refusals
-- Commands that were refused, each a row of its own.
SELECT assent.note_refusals($1::jsonb);
