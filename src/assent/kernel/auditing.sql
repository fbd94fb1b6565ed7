-- name: search_audit
-- Who did what in an org, newest first: to an entity or a type, by somebody, an action, in a time; of one partition,
-- and without the entity types that the reader may not see. $11 is an id that nothing since then comes before.
SELECT a.id, a.at, a.actor_id, a.actor_kind, a.actor_roles, a.action, a.entity_type, a.entity_id, a.from_version,
       a.to_version, a.from_state, a.to_state, a.changes, a.place, a.reason, a.channel, a.instance_id, a.trace_id
  FROM assent.audit_log a
 WHERE a.org_id = $1
   AND ($2::text IS NULL OR a.entity_type = $2)
   AND ($3::uuid IS NULL OR a.entity_id = $3)
   AND ($4::text IS NULL OR a.actor_id = $4)
   AND ($5::text IS NULL OR a.action = $5)
   AND ($6::timestamptz IS NULL OR a.at >= $6) AND ($7::timestamptz IS NULL OR a.at < $7)
   AND ($8::text IS NULL OR EXISTS (SELECT FROM assent.entities e
                                     WHERE e.org_id = a.org_id AND e.id = a.entity_id AND e.partition_id = $8))
   AND a.entity_type <> ALL ($9::text[])
   AND ($10::uuid IS NULL OR a.id < $10) AND a.id >= $11::uuid
 ORDER BY a.id DESC LIMIT $12;
