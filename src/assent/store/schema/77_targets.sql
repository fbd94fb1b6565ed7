-- What a command begins with: the instance that it is for, locked, and all that is read of it, in one round trip.

-- Approval requests with their seats and decisions.
CREATE VIEW assent.asked_requests WITH (security_invoker = true) AS
SELECT r.*,
       (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.id), '[]') FROM assent.workflow_seats s
         WHERE s.org_id = r.org_id AND s.request_id = r.id) AS seats,
       (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.id), '[]') FROM assent.approval_decisions d
         WHERE d.org_id = r.org_id AND d.request_id = r.id) AS decisions
  FROM assent.approval_requests r;
GRANT SELECT ON assent.asked_requests TO assent_engine;

-- The version of the contract that new entities of a type get in an org: that of the workflow which the org starts, else the
-- newest that is published; null where none is.
CREATE FUNCTION assent.newest_contract(of_org text, of_type text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
  started integer;
BEGIN
  SELECT (d.walls ->> 'envelope_version')::integer INTO started FROM assent.workflow_definitions d
   WHERE d.org_id IN (of_org, '*') AND d.definition_kind = 'effective' AND d.key = of_type AND d.status = 'published'
   ORDER BY d.org_id = '*', d.version DESC LIMIT 1;
  RETURN coalesce(started, (
    SELECT d.version FROM assent.workflow_definitions d
     WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = of_type ORDER BY d.version DESC LIMIT 1));
END
$$;
GRANT EXECUTE ON FUNCTION assent.newest_contract(text, text) TO assent_engine;

-- Finds the instances that commands are for, by what they name, and takes their locks: those that are free, or, with `waits`,
-- all of them. Of those it has the lock of, it locks the entities too (D11), and returns what there is: the instance, its
-- pending events (D18), its entity with the org's rules and the indexes for its type, its requests of the present generation, and what the member
-- who acts is now, if they are active. An entity may have no instance: its last one has ended.
--
-- Each statement of it sees what was committed before it began, so what is read behind a lock is as the lock's last holder
-- left it. One statement that locked and read would see what there was before it waited.
CREATE FUNCTION assent.open_targets(of_org text, nouns text[], ids uuid[], users text[], waits boolean)
RETURNS TABLE (place bigint, instance_id uuid, partition_id text, entity_type text, held boolean,
  instance assent.workflow_instances, pending assent.workflow_events_outbox[], requests assent.asked_requests[],
  entity assent.current_entities, rules jsonb, newest_contract integer, indexes jsonb, settings jsonb, has_delegations boolean,
  acting_kind text, acting_roles text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  places bigint[];
  instances uuid[];
  partitions text[];
  types text[];
  locked boolean[];
  entity_ids uuid[];
  entities assent.current_entities[];
BEGIN
  SELECT array_agg(t.place), array_agg(t.instance_id), array_agg(t.partition_id), array_agg(t.entity_type),
         array_agg(pg_try_advisory_xact_lock(hashtextextended(t.instance_id::text, 0)))
    INTO places, instances, partitions, types, locked
    FROM (SELECT asked.place, found.* FROM unnest(nouns, ids) WITH ORDINALITY AS asked (noun, id, place) CROSS JOIN LATERAL (
      SELECT asked.id AS instance_id, NULL AS partition_id, NULL AS entity_type WHERE asked.noun = 'instance'
      UNION ALL
      SELECT r.instance_id, r.partition_id, NULL FROM assent.approval_requests r
       WHERE asked.noun = 'request' AND r.org_id = of_org AND r.id = asked.id
      UNION ALL
      SELECT f.instance_id, f.partition_id, NULL FROM assent.workflow_forms f
       WHERE asked.noun = 'form' AND f.org_id = of_org AND f.id = asked.id
      UNION ALL
      SELECT e.instance_id, e.partition_id, e.entity_type FROM assent.entities e
       WHERE asked.noun = 'entity' AND e.org_id = of_org AND e.id = asked.id) AS found) AS t;
  IF waits THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(w.id::text, 0))
      FROM (SELECT DISTINCT unnest(instances) AS id ORDER BY 1) AS w;
    locked := ARRAY(SELECT id IS NOT NULL FROM unnest(instances) AS id);
  END IF;

  SELECT array_agg(DISTINCT e.id) INTO entity_ids FROM (
    SELECT CASE WHEN nouns[t.place] = 'entity' THEN ids[t.place] ELSE (
             SELECT i.entity_id FROM assent.workflow_instances i WHERE i.org_id = of_org AND i.id = t.instance_id) END AS id
      FROM unnest(places, instances, locked) AS t (place, instance_id, held)
     WHERE t.held OR (waits AND t.instance_id IS NULL)) AS e
   WHERE e.id IS NOT NULL;
  IF entity_ids IS NOT NULL THEN
    SELECT array_agg(e) INTO entities
      FROM assent.lock_entities(array_fill(of_org, ARRAY[cardinality(entity_ids)]), entity_ids) AS e;
  END IF;

  RETURN QUERY
  SELECT t.place, t.instance_id, t.partition_id, t.entity_type, t.held, i.whole, ARRAY(
           SELECT e FROM assent.workflow_events_outbox e
            WHERE e.org_id = of_org AND e.instance_id = t.instance_id AND e.status NOT IN ('completed', 'dead', 'processing')
              AND t.held
            ORDER BY e.created_at, e.id),
         ARRAY(SELECT r FROM assent.asked_requests r
                WHERE r.org_id = of_org AND r.instance_id = t.instance_id AND r.generation = i.generation AND t.held
                ORDER BY r.id),
         e,
         (SELECT jsonb_agg(to_jsonb(r) ORDER BY r.priority, r.name) FROM assent.workflow_rules r
           WHERE r.org_id = of_org AND r.entity_type = (e).entity_type AND r.enabled),
         CASE WHEN (e).id IS NOT NULL THEN assent.newest_contract(of_org, (e).entity_type) END,
         (SELECT jsonb_build_object('index_stamp', x.stamp, 'indexed_fields', x.fields, 'searched_fields', x.searched)
            FROM assent.entity_indexes x WHERE x.org_id = '*' AND x.entity_type = (e).entity_type),
         (SELECT o.settings FROM assent.orgs o WHERE o.org_id = of_org),
         EXISTS (SELECT FROM assent.approval_delegations d WHERE d.org_id = of_org AND d.revoked_at IS NULL),
         m.kind, m.roles
    FROM unnest(places, instances, partitions, types, locked) AS t (place, instance_id, partition_id, entity_type, held)
    LEFT JOIN LATERAL (
      SELECT o AS whole, o.generation, o.entity_id FROM assent.workflow_instances o
       WHERE t.held AND o.org_id = of_org AND o.id = t.instance_id OFFSET 0) AS i ON true
    LEFT JOIN unnest(entities) AS e
      ON e.id = CASE WHEN nouns[t.place] = 'entity' THEN ids[t.place] ELSE i.entity_id END
    LEFT JOIN LATERAL (
      SELECT o.kind, o.roles FROM assent.members o
       WHERE o.org_id = of_org AND o.user_id = users[t.place] AND o.active OFFSET 0) AS m ON true;
END
$$;
GRANT EXECUTE ON FUNCTION assent.open_targets(text, text[], uuid[], text[], boolean) TO assent_engine;

-- The same for commands of several orgs, each org's under its own row security and in the order of their ids; locks that are
-- not free are left. The transaction acts for the org for which it acted before.
CREATE FUNCTION assent.open_targets_of_orgs(orgs text[], nouns text[], ids uuid[], users text[])
RETURNS TABLE (place bigint, instance_id uuid, partition_id text, entity_type text, held boolean,
  instance assent.workflow_instances, pending assent.workflow_events_outbox[], requests assent.asked_requests[],
  entity assent.current_entities, rules jsonb, newest_contract integer, indexes jsonb, settings jsonb, has_delegations boolean,
  acting_kind text, acting_roles text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  before text := current_setting('assent.org_id');
  of_org text;
  places bigint[];
  its_nouns text[];
  its_ids uuid[];
  its_users text[];
BEGIN
  FOR of_org, places, its_nouns, its_ids, its_users IN
    SELECT a.org, array_agg(a.place ORDER BY a.place), array_agg(a.noun ORDER BY a.place), array_agg(a.id ORDER BY a.place),
           array_agg(a.acting ORDER BY a.place)
      FROM unnest(orgs, nouns, ids, users) WITH ORDINALITY AS a (org, noun, id, acting, place) GROUP BY a.org ORDER BY a.org COLLATE "C"
  LOOP
    PERFORM set_config('assent.org_id', of_org, true);
    RETURN QUERY
    SELECT places[t.place], t.instance_id, t.partition_id, t.entity_type, t.held, t.instance, t.pending, t.requests, t.entity,
           t.rules, t.newest_contract, t.indexes, t.settings, t.has_delegations, t.acting_kind, t.acting_roles
      FROM assent.open_targets(of_org, its_nouns, its_ids, its_users, false) AS t;
  END LOOP;
  PERFORM set_config('assent.org_id', before, true);
END
$$;
GRANT EXECUTE ON FUNCTION assent.open_targets_of_orgs(text[], text[], uuid[], text[]) TO assent_engine;
