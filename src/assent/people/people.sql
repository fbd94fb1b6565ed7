-- Of each page of the inbox: $1 org, $2 reader, $3 now, $4 whose seats, with whether they are there now and their roles. Then the
-- filters: $5 kind, $6 bucket, $7 entity type, $8 workflow, $9 overdue, $10 due before, $11 claimed, $12 text in the title; one
-- that is null lets everything pass. $16 is the partition that the reader sees, or null.

-- name: page_by_age
-- A page of what waits for a reader, the oldest first: the indexes of open seats and of open questions have this order, person by
-- person.
SELECT w.*, extract(epoch FROM w.created_at) AS rank
  FROM jsonb_to_recordset($4::jsonb) AS people (user_id text, present boolean, roles text[])
 CROSS JOIN LATERAL (
   (SELECT i.* FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles) i
     WHERE (i.created_at, i.id) > ($13::timestamptz, $14::uuid)
       AND ($5::text IS NULL OR i.kind = $5) AND ($6::text IS NULL OR i.bucket = $6)
       AND ($7::text IS NULL OR i.entity_type = $7) AND ($8::text IS NULL OR i.workflow = $8)
       AND ($9::boolean IS NULL OR coalesce(i.due_at < $3, false) = $9) AND ($10::timestamptz IS NULL OR i.due_at < $10)
       AND ($11::text IS NULL OR $11 = CASE i.claimed_by WHEN $2 THEN 'me' ELSE
                                         CASE WHEN i.claimed_by IS NULL THEN 'unclaimed' ELSE 'others' END END)
       AND ($12::text IS NULL OR strpos(lower(i.title), lower($12)) > 0)
       AND ($16::text IS NULL OR $16 = (SELECT p.partition_id FROM assent.workflow_instances p
                                        WHERE p.org_id = $1 AND p.id = i.instance_id))
     ORDER BY i.created_at, i.id LIMIT $15)
    UNION ALL
   (SELECT i.* FROM assent.questions_to($1, $2, people.user_id, people.present) i
     WHERE (i.created_at, i.id) > ($13::timestamptz, $14::uuid)
       AND ($5::text IS NULL OR i.kind = $5) AND ($6::text IS NULL OR i.bucket = $6)
       AND ($7::text IS NULL OR i.entity_type = $7) AND ($8::text IS NULL OR i.workflow = $8)
       AND ($9::boolean IS NULL OR coalesce(i.due_at < $3, false) = $9) AND ($10::timestamptz IS NULL OR i.due_at < $10)
       AND ($11::text IS NULL OR $11 = CASE i.claimed_by WHEN $2 THEN 'me' ELSE
                                         CASE WHEN i.claimed_by IS NULL THEN 'unclaimed' ELSE 'others' END END)
       AND ($12::text IS NULL OR strpos(lower(i.title), lower($12)) > 0)
       AND ($16::text IS NULL OR $16 = (SELECT p.partition_id FROM assent.workflow_instances p
                                        WHERE p.org_id = $1 AND p.id = i.instance_id))
     ORDER BY i.created_at, i.id LIMIT $15)) AS w
 ORDER BY w.created_at, w.id LIMIT $15;

-- name: page_by_rank
-- A page of what waits for a reader, by when it is due or by the greatest figure: all that is open for them is read.
-- Person by person here too: else the planner, which does not know how few people there are, may read the open seats of
-- the whole org.
SELECT w.*
  FROM jsonb_to_recordset($4::jsonb) AS people (user_id text, present boolean, roles text[])
 CROSS JOIN LATERAL (
    SELECT i.*, k.rank
      FROM (SELECT * FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles)
            UNION ALL SELECT * FROM assent.questions_to($1, $2, people.user_id, people.present)) AS i
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
    SELECT * FROM assent.waiting_for($1, $2, people.user_id, $3, people.present, people.roles)
    UNION ALL SELECT * FROM assent.questions_to($1, $2, people.user_id, people.present) OFFSET 0) AS i
 WHERE $5::text IS NULL OR $5 = (SELECT p.partition_id FROM assent.workflow_instances p
                                  WHERE p.org_id = $1 AND p.id = i.instance_id)
 GROUP BY i.bucket;

-- name: list_members
-- The members of an org by id: those with a role, and those who are active or not, where these are given.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND ($2::text IS NULL OR roles @> ARRAY[$2]) AND ($3::boolean IS NULL OR active = $3)
   AND ($4::text IS NULL OR user_id > $4)
 ORDER BY user_id LIMIT $5;

-- name: read_member
-- One member.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND user_id = $2;

-- name: lock_member
-- One member, who stays as they are until this transaction ends.
SELECT user_id, kind, name, email, roles, manager_id, active, created_at, updated_at FROM assent.members
 WHERE org_id = $1 AND user_id = $2 FOR UPDATE;

-- name: insert_member_if_new
-- Inserts a member; nothing if a member has this id.
INSERT INTO assent.members (org_id, user_id, kind, name, email, roles, manager_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8, $8)
ON CONFLICT (org_id, user_id) DO NOTHING
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;

-- name: find_look_alike
-- A member, or the engine itself, whose id a reader takes for this one.
SELECT user_id FROM (
    SELECT user_id FROM assent.members WHERE org_id = $1 AND assent.skeleton_of_id(user_id) = assent.skeleton_of_id($2)
    UNION ALL
    SELECT user_id FROM assent.members WHERE org_id = $1 AND lower(user_id COLLATE "C") = lower($2::text COLLATE "C")
    UNION ALL
    SELECT 'system' WHERE assent.skeleton_of_id('system') = assent.skeleton_of_id($2)) AS found
 WHERE user_id <> $2
 LIMIT 1;

-- name: is_above
-- Whether a member is in the line of managers above any of these members.
WITH RECURSIVE line AS (
  SELECT manager_id FROM assent.members WHERE org_id = $1 AND user_id = ANY ($2::text[])
  UNION
  SELECT m.manager_id FROM line JOIN assent.members m ON m.org_id = $1 AND m.user_id = line.manager_id
)
SELECT EXISTS (SELECT FROM line WHERE manager_id = $3);

-- name: revoke_keys_of_member
-- Revokes the API keys of a member and all keys that were made with them, and with those.
WITH RECURSIVE ended AS (
  SELECT id FROM assent.api_keys WHERE org_id = $1 AND user_id = $2
  UNION
  SELECT k.id FROM ended JOIN assent.api_keys k ON k.org_id = $1 AND k.parent_id = ended.id
)
UPDATE assent.api_keys k SET revoked_at = $3 FROM ended
 WHERE k.org_id = $1 AND k.id = ended.id AND k.revoked_at IS NULL;

-- name: update_member
-- Everything of a member that may change.
UPDATE assent.members SET name = $3, email = $4, roles = $5::text[], manager_id = $6, active = $7, updated_at = $8
 WHERE org_id = $1 AND user_id = $2
RETURNING user_id, kind, name, email, roles, manager_id, active, created_at, updated_at;

-- name: list_roles
-- Every role that a member holds or that carries a capability, by name, with its capabilities and how many hold it.
SELECT names.role, coalesce(carried.capabilities, '{}') AS capabilities, coalesce(held.members, 0) AS members
  FROM (SELECT role FROM assent.role_capabilities WHERE org_id = $1
        UNION SELECT unnest(roles) FROM assent.members WHERE org_id = $1) AS names (role)
  LEFT JOIN (SELECT role, array_agg(capability ORDER BY capability) AS capabilities FROM assent.role_capabilities
              WHERE org_id = $1 GROUP BY role) AS carried USING (role)
  LEFT JOIN (SELECT role, count(*)::integer AS members FROM assent.members, unnest(roles) AS role
              WHERE org_id = $1 AND active GROUP BY role) AS held USING (role)
 WHERE ($2::text IS NULL OR names.role = $2) AND ($3::text IS NULL OR names.role > $3)
 ORDER BY names.role LIMIT $4;

-- name: lock_grants
-- One transaction of an org at a time gives or takes: roles, what they carry, members, API keys.
SELECT pg_advisory_xact_lock(hashtextextended('assent.grants:' || $1::text, 0));

-- name: read_carried
-- What these roles carry together.
SELECT DISTINCT capability FROM assent.role_capabilities WHERE org_id = $1 AND role = ANY ($2::text[]);

-- name: rank_administrators
-- Who holds everything: 2 where a person does, 1 where only service accounts do, 0 where no member does.
SELECT coalesce(max(CASE m.kind WHEN 'user' THEN 2 ELSE 1 END), 0)
  FROM assent.members m JOIN assent.role_capabilities c ON c.org_id = m.org_id AND c.role = ANY (m.roles)
 WHERE m.org_id = $1 AND m.active AND c.capability = $2;

-- name: drop_capabilities_but
-- What a role carries no more.
DELETE FROM assent.role_capabilities WHERE org_id = $1 AND role = $2 AND capability <> ALL ($3::text[]);

-- name: put_capabilities
-- What a role carries, besides what it carried already.
INSERT INTO assent.role_capabilities (org_id, role, capability)
SELECT $1, $2, capability FROM unnest($3::text[]) AS capability
ON CONFLICT DO NOTHING;

-- name: find_people_with_roles
-- Users with each role, those who have left as well, in the order of their ids.
SELECT m.org_id, asked.role AS wanted, m.user_id, m.active, m.email, m.kind
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, role)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.roles @> ARRAY[asked.role] AND m.kind = 'user'
 ORDER BY m.user_id;

-- name: find_people_by_id
-- Members by id, whatever they are.
SELECT m.org_id, m.user_id AS wanted, m.user_id, m.active, m.email, m.kind
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id;

-- name: find_managers
-- The line of managers above each, the nearest first. A line that returns to a member in it ends there.
WITH RECURSIVE line AS (
  SELECT m.org_id, m.user_id AS wanted, m.manager_id, 1 AS level, ARRAY[m.user_id] AS below
    FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
    JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id
   WHERE m.manager_id IS NOT NULL
  UNION ALL
  SELECT m.org_id, line.wanted, m.manager_id, line.level + 1, line.below || m.user_id
    FROM line JOIN assent.members m ON m.org_id = line.org_id AND m.user_id = line.manager_id
   WHERE m.manager_id <> ALL (line.below || m.user_id) AND line.level < $3
)
SELECT m.org_id, line.wanted, m.user_id, m.active, m.email, m.kind
  FROM line JOIN assent.members m ON m.org_id = line.org_id AND m.user_id = line.manager_id
 ORDER BY line.level;

-- name: read_actors
-- The rights that people have now. Roles that came with a command count where the org keeps no such member, and a
-- member who was deactivated has none.
SELECT asked.org_id, asked.id, coalesce(m.kind, asked.kind) AS kind, held.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = asked.org_id AND c.role = ANY (held.roles)) AS capabilities
  FROM jsonb_to_recordset($1::jsonb) AS asked (org_id text, id text, kind text, roles text[])
  LEFT JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.id
 CROSS JOIN LATERAL (
    SELECT CASE WHEN m.active THEN m.roles WHEN m.user_id IS NULL THEN asked.roles ELSE '{}' END AS roles) AS held;

-- name: find_present
-- Those of these people who are active now and, where a role is named, hold it. A role is held by users only.
SELECT asked.org_id, asked.user_id, asked.role
  FROM unnest($1::text[], $2::text[], $3::text[]) AS asked (org_id, user_id, role)
  JOIN assent.members m ON m.org_id = asked.org_id AND m.user_id = asked.user_id AND m.active
 WHERE asked.role IS NULL OR (m.roles @> ARRAY[asked.role] AND m.kind = 'user');

-- name: find_owners
-- The people whose seats a member may fill at a time: the member and those they stand in for, with whether each is
-- active now and their roles.
SELECT owner.user_id, coalesce(m.active, false) AS present,
       CASE WHEN m.kind = 'user' THEN m.roles ELSE '{}' END AS roles
  FROM (SELECT $2::text AS user_id
        UNION SELECT d.from_user FROM assent.approval_delegations d
               WHERE d.org_id = $1 AND d.to_user = $2 AND d.revoked_at IS NULL AND d.starts_at <= $3
                 AND (d.ends_at IS NULL OR d.ends_at > $3)) AS owner
  LEFT JOIN assent.members m ON m.org_id = $1 AND m.user_id = owner.user_id;

-- name: list_roles_of_open_seats
-- The roles by which these people are asked now.
SELECT DISTINCT s.user_id, substr(s.via, 6) AS role
  FROM assent.workflow_seats s
 WHERE s.org_id = $1 AND s.user_id = ANY ($2::text[]) AND s.status = 'open' AND starts_with(s.via, 'role:');

-- name: insert_delegation
-- Records that one member stands in for another.
INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, ends_at, entity_types, workflows,
       reason, created_by, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
RETURNING *;

-- name: revoke_delegation_if_open
-- Ends a delegation if the actor ($4) is the person who is stood in for, or has the right to end any ($5).
UPDATE assent.approval_delegations SET revoked_at = $3
 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL AND (from_user = $4 OR $5::boolean)
RETURNING *;

-- name: read_delegation
-- One delegation.
SELECT * FROM assent.approval_delegations WHERE org_id = $1 AND id = $2;

-- name: list_delegations
-- An org's delegations, the newest first: of or to one person, and open at a time, where these are given.
SELECT * FROM assent.approval_delegations
 WHERE org_id = $1 AND ($2::text IS NULL OR $2 IN (from_user, to_user))
   AND ($3::timestamptz IS NULL OR (revoked_at IS NULL AND (ends_at IS NULL OR ends_at > $3)))
   AND ($4::uuid IS NULL OR id < $4)
 ORDER BY id DESC LIMIT $5::bigint;

-- name: load_delegations
-- The delegations by which these people may act for others at a time.
SELECT d.org_id, d.id, d.from_user, d.to_user, d.entity_types, d.workflows
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.approval_delegations d ON d.org_id = asked.org_id AND d.to_user = asked.user_id
 WHERE d.revoked_at IS NULL AND d.starts_at <= $3 AND (d.ends_at IS NULL OR d.ends_at > $3)
 ORDER BY d.id;

-- name: find_away
-- Those of these people who have delegated everything to another person at a time.
SELECT DISTINCT d.org_id, d.from_user
  FROM unnest($1::text[], $2::text[]) AS asked (org_id, user_id)
  JOIN assent.approval_delegations d ON d.org_id = asked.org_id AND d.from_user = asked.user_id
 WHERE d.revoked_at IS NULL AND d.starts_at <= $3 AND (d.ends_at IS NULL OR d.ends_at > $3)
   AND d.entity_types = '{}' AND d.workflows = '{}';

-- name: insert_api_key_if_allowed
-- Inserts a key of an active member; only its hash is stored. Nothing if the key that makes it is no longer valid.
INSERT INTO assent.api_keys (org_id, id, user_id, name, prefix, key_hash, scopes, created_at, expires_at, partition_id,
       parent_id, created_by)
SELECT $1, $2, $3, $4, $5, $6, $7::text[], $8, $9, $10, $11::uuid, $12
 WHERE $11::uuid IS NULL
    OR EXISTS (SELECT FROM assent.api_keys WHERE org_id = $1 AND id = $11 AND revoked_at IS NULL)
RETURNING id;

-- name: count_valid_api_keys
-- How many keys sign a member in now.
SELECT count(*) FROM assent.api_keys
 WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3);

-- name: page_of_api_keys
-- The keys of a member or of the org, newest first.
SELECT id, user_id, name, prefix, scopes, created_at, expires_at, revoked_at, partition_id, parent_id, created_by
  FROM assent.api_keys
 WHERE org_id = $1 AND ($2::text IS NULL OR user_id = $2) AND ($3::uuid IS NULL OR id < $3)
 ORDER BY id DESC LIMIT $4;

-- name: revoke_api_keys_if_valid
-- Revokes a key and all keys that were made with it, and with those; only a key of the member if the member
-- is given.
WITH RECURSIVE ended AS (
  SELECT id FROM assent.api_keys
   WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL AND ($4::text IS NULL OR user_id = $4)
  UNION
  SELECT k.id FROM ended JOIN assent.api_keys k ON k.org_id = $1 AND k.parent_id = ended.id
)
UPDATE assent.api_keys k SET revoked_at = $3 FROM ended
 WHERE k.org_id = $1 AND k.id = ended.id AND k.revoked_at IS NULL
RETURNING k.id, k.user_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.partition_id, k.parent_id,
       k.created_by;

-- name: find_api_key
-- The key with this hash, in any org, and its member: sign-in knows the key before it knows the org.
SELECT k.org_id, k.id, k.user_id, k.scopes, k.expires_at, k.partition_id, k.created_by, m.active, m.kind, m.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = m.org_id AND c.role = ANY (m.roles)) AS capabilities
  FROM assent.api_keys k JOIN assent.members m ON m.org_id = k.org_id AND m.user_id = k.user_id
 WHERE k.key_hash = $1 AND k.revoked_at IS NULL;

-- name: insert_session
-- Inserts a session of an active member, and deletes a few sessions of the member that ended a day ago. The member's row is locked:
-- a deactivation that is under way is waited for, and one that comes later finds the session.
WITH forgotten AS (
  DELETE FROM assent.sessions WHERE org_id = $1 AND user_id = $3 AND ends_at < $6::timestamptz - interval '1 day'
)
INSERT INTO assent.sessions (org_id, id, user_id, key_id, token_hash, created_at, renewed_at, expires_at, ends_at)
SELECT $1, $2, $3, $4, $5, $6, $6, $7, $8 FROM assent.members WHERE org_id = $1 AND user_id = $3 AND active
   FOR SHARE
RETURNING id;

-- name: find_session
-- The session with this token, in any org, and its member: a request knows the token before it knows the org. The token before
-- the last renewal is valid for requests that were on their way, since $3.
SELECT s.org_id, s.id, s.user_id, s.key_id, s.expires_at, k.scopes, k.partition_id, k.created_by, m.active, m.kind, m.roles,
       ARRAY(SELECT DISTINCT c.capability FROM assent.role_capabilities c
              WHERE c.org_id = m.org_id AND c.role = ANY (m.roles)) AS capabilities
  FROM assent.sessions s JOIN assent.members m ON m.org_id = s.org_id AND m.user_id = s.user_id
  LEFT JOIN assent.api_keys k ON k.org_id = s.org_id AND k.id = s.key_id
 WHERE s.revoked_at IS NULL AND s.expires_at > $2 AND (s.token_hash = $1 OR (s.previous_hash = $1 AND s.renewed_at > $3))
   AND (s.key_id IS NULL OR (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $2)));

-- name: revoke_session_of_former_token
-- Ends the session whose token this was before a renewal that was long enough ago: no page of the member has it any more.
UPDATE assent.sessions SET revoked_at = $2 WHERE previous_hash = $1 AND renewed_at <= $3 AND revoked_at IS NULL
RETURNING true;

-- name: renew_session_if_current
-- Replaces the token of a session, and moves its expiry; nothing if the token was replaced meanwhile.
UPDATE assent.sessions SET previous_hash = token_hash, token_hash = $4, renewed_at = $5, expires_at = least(ends_at, $6)
 WHERE org_id = $1 AND id = $2 AND token_hash = $3 AND revoked_at IS NULL
RETURNING expires_at;

-- name: revoke_session
-- Ends a session.
UPDATE assent.sessions SET revoked_at = $3 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL;

-- name: revoke_sessions_of_member
-- Ends all sessions of a member.
UPDATE assent.sessions SET revoked_at = $3 WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL;

-- name: insert_org_if_new
-- An org, unless there is one of this id.
INSERT INTO assent.orgs (org_id, name, settings) VALUES ($1, $2, $3::jsonb) ON CONFLICT (org_id) DO NOTHING
RETURNING org_id, name, settings, created_at;

-- name: read_org
-- An org with its settings.
SELECT org_id, name, settings, created_at FROM assent.orgs WHERE org_id = $1;

-- name: lock_org
-- The same, locked: two administrators do not overwrite each other's settings.
SELECT org_id, name, settings, created_at FROM assent.orgs WHERE org_id = $1 FOR UPDATE;

-- name: update_settings
-- Replaces the settings of an org.
UPDATE assent.orgs SET settings = $2::jsonb WHERE org_id = $1 RETURNING org_id, name, settings, created_at;

-- name: list_partitions
-- The partitions in which something of an org is, by name: one look-up in an index for each, however much is in it. $2 is the one
-- that the reader is confined to.
WITH RECURSIVE of_entities AS (
  (SELECT entity_type, partition_id FROM assent.entities WHERE org_id = $1 AND partition_id IS NOT NULL
    ORDER BY entity_type, partition_id LIMIT 1)
  UNION ALL
  SELECT n.entity_type, n.partition_id FROM of_entities p CROSS JOIN LATERAL (
    SELECT entity_type, partition_id FROM assent.entities
     WHERE org_id = $1 AND partition_id IS NOT NULL AND (entity_type, partition_id) > (p.entity_type, p.partition_id)
     ORDER BY entity_type, partition_id LIMIT 1) n
), of_instances AS (
  (SELECT partition_id FROM assent.workflow_instances WHERE org_id = $1 AND partition_id IS NOT NULL ORDER BY partition_id LIMIT 1)
  UNION ALL
  SELECT n.partition_id FROM of_instances p CROSS JOIN LATERAL (
    SELECT partition_id FROM assent.workflow_instances WHERE org_id = $1 AND partition_id > p.partition_id
     ORDER BY partition_id LIMIT 1) n
), of_documents AS (
  (SELECT partition_id FROM assent.documents WHERE org_id = $1 AND partition_id IS NOT NULL ORDER BY partition_id LIMIT 1)
  UNION ALL
  SELECT n.partition_id FROM of_documents p CROSS JOIN LATERAL (
    SELECT partition_id FROM assent.documents WHERE org_id = $1 AND partition_id > p.partition_id
     ORDER BY partition_id LIMIT 1) n
), of_requirements AS (
  (SELECT partition_id FROM assent.document_requirements WHERE org_id = $1 AND partition_id IS NOT NULL
    ORDER BY partition_id LIMIT 1)
  UNION ALL
  SELECT n.partition_id FROM of_requirements p CROSS JOIN LATERAL (
    SELECT partition_id FROM assent.document_requirements WHERE org_id = $1 AND partition_id > p.partition_id
     ORDER BY partition_id LIMIT 1) n
)
SELECT f.partition_id FROM (
    SELECT partition_id FROM of_entities UNION SELECT partition_id FROM of_instances
    UNION SELECT partition_id FROM of_documents UNION SELECT partition_id FROM of_requirements
    UNION SELECT partition_id FROM assent.api_keys WHERE org_id = $1 AND revoked_at IS NULL AND partition_id IS NOT NULL) f
 WHERE ($2::text IS NULL OR f.partition_id = $2) AND ($3::text IS NULL OR f.partition_id > $3)
 ORDER BY f.partition_id LIMIT $4;

-- name: lock_preferences
-- How a member is written to; the row stays as it is until this transaction ends.
SELECT user_id, language, time_zone, mails, digest_hour,
       EXISTS (SELECT FROM assent.members m WHERE m.org_id = p.org_id AND m.user_id = p.user_id AND m.email = p.links_to)
         AS decides_by_mail, updated_at
  FROM assent.member_preferences p
 WHERE p.org_id = $1 AND p.user_id = $2 FOR UPDATE;

-- name: read_preferences
-- How a member is written to. They decide by mail at the address that was theirs when they chose so, and at no other.
SELECT user_id, language, time_zone, mails, digest_hour,
       EXISTS (SELECT FROM assent.members m WHERE m.org_id = p.org_id AND m.user_id = p.user_id AND m.email = p.links_to)
         AS decides_by_mail, updated_at
  FROM assent.member_preferences p
 WHERE p.org_id = $1 AND p.user_id = $2;

-- name: save_preferences
-- How a member is written to from now on. A digest whose hour has passed today comes tomorrow, and none comes twice on a day.
-- With $7 true, the member decides by mail at their present address; with null, that stays as it was.
INSERT INTO assent.member_preferences AS p (org_id, user_id, language, time_zone, mails, digest_hour, links_to, digested_on,
       updated_at)
SELECT $1, $2, $3, $4, $5, $6::integer,
       (SELECT m.email FROM assent.members m WHERE $7::boolean AND m.org_id = $1 AND m.user_id = $2),
       l.here::date - (extract(hour FROM l.here) < $6::integer)::integer, assent.now()
  FROM (SELECT assent.now() AT TIME ZONE $4::text AS here) AS l
ON CONFLICT (org_id, user_id) DO UPDATE
   SET language = excluded.language, time_zone = excluded.time_zone, mails = excluded.mails,
       digest_hour = excluded.digest_hour, updated_at = excluded.updated_at,
       links_to = CASE WHEN $7::boolean IS NULL THEN p.links_to ELSE excluded.links_to END,
       digested_on = least(greatest(p.digested_on, excluded.digested_on), (assent.now() AT TIME ZONE $4::text)::date)
RETURNING user_id, language, time_zone, mails, digest_hour,
          EXISTS (SELECT FROM assent.members m WHERE m.org_id = p.org_id AND m.user_id = p.user_id AND m.email = p.links_to)
            AS decides_by_mail, updated_at;

-- name: insert_comment
-- Inserts a comment, or a question.
INSERT INTO assent.comments (org_id, id, kind, author_id, text, mentions, partition_id, entity_type, entity_id, entity_version,
       request_id, instance_id, asks, created_at)
VALUES ($1, $2, $3, $4, $5, $6::text[], $7, $8, $9, $10, $11, $12, $13, $14)
RETURNING *;

-- name: count_question_if_pending
-- Counts one more question on a request that is pending; its lock keeps the request pending until the question is written.
UPDATE assent.approval_requests SET questions = questions + 1 WHERE org_id = $1 AND id = $2 AND status = 'pending'
RETURNING questions;

-- name: count_open_questions
-- How many questions of a request wait for an answer.
SELECT count(*) FROM assent.comments
 WHERE org_id = $1 AND request_id = $2 AND kind = 'question' AND answered_at IS NULL AND closed_at IS NULL;

-- name: answer_question_if_open
-- Answers a question that has no answer yet, and whose request has not ended.
UPDATE assent.comments SET answer = $3, answered_at = $4
 WHERE org_id = $1 AND id = $2 AND kind = 'question' AND answered_at IS NULL AND closed_at IS NULL
RETURNING *;

-- name: read_question
-- One question, with its answer.
SELECT * FROM assent.comments WHERE org_id = $1 AND id = $2 AND kind = 'question';

-- name: list_comments_of_entity
-- The comments on an entity and the questions about it, the newest first.
SELECT * FROM assent.comments
 WHERE org_id = $1 AND entity_id = $2 AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4::uuid))
 ORDER BY created_at DESC, id DESC LIMIT $5;

-- name: list_questions_of_request
-- The questions on an approval request, the oldest first.
SELECT * FROM assent.comments
 WHERE org_id = $1 AND request_id = $2 AND kind = 'question'
   AND ($3::timestamptz IS NULL OR (created_at, id) > ($3, $4::uuid))
 ORDER BY created_at, id LIMIT $5;
