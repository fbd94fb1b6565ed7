-- Numbers up to $3 were decided long ago, those above are open. Of five open requests two ask the busy reader as well, and
-- one a person in whose place the busy reader decides.

-- name: create_id
-- Makes an id of a kind and a number that sorts by the number, as ours sort by time.
CREATE FUNCTION pg_temp.id(kind text, n integer) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN (lpad(to_hex(1700000000000 + n), 12, '0') || '7000800' || kind || lpad(to_hex(n), 12, '0'))::uuid;

-- name: skip_triggers
-- Spares the rows what their makers would have been checked for.
SET session_replication_role = replica;

-- name: fill_entities
-- Invoices.
INSERT INTO assent.entities (org_id, id, entity_type, contract_version, state, version, data_hash, content_hash,
       edit_window, created_at, updated_at)
SELECT 'acme', pg_temp.id('1', n), 'invoice', 1, CASE WHEN n > $3 THEN 'submitted' ELSE 'active' END, 2,
       md5(n::text), md5(n::text), 'amend_only', now() - make_interval(secs => 2e6 - n), now()
  FROM generate_series($1::integer, $2::integer) n;

-- name: fill_instances
-- The instances that asked: those of decided requests have completed.
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
       entity_type, entity_id, entity_version, subject_id, status, started_at, updated_at, completed_at)
SELECT 'acme', pg_temp.id('2', n), pg_temp.id('9', 1), 1, 'hash', 'invoice', 'invoice', pg_temp.id('1', n), 2, 'ann',
       CASE WHEN n > $3 THEN 'running' ELSE 'completed' END, now(), now(), CASE WHEN n <= $3 THEN now() END
  FROM generate_series($1::integer, $2::integer) n;

-- name: fill_requests
-- One request about each invoice.
INSERT INTO assent.approval_requests (org_id, id, instance_id, step_id, node_id, node_name, entity_type,
       entity_id, entity_version, snapshot_version_id, content_hash, approvers, requested_by, originators, title, figure,
       status, applied_at, due_at, created_at, decided_at)
SELECT 'acme', pg_temp.id('3', n), pg_temp.id('2', n), pg_temp.id('4', n), 'usr:slot:approval', 'Finance', 'invoice',
       pg_temp.id('1', n), 2, pg_temp.id('5', n), md5(n::text), '{"groups": [], "people": [], "skipped": [], "tier": 0, "enough": null, "default": null, "directory": null}', 'ann',
       '{ann}', 'Invoice ' || n, n % 100000, CASE WHEN n > $3 THEN 'pending' ELSE 'approved' END,
       CASE WHEN n <= $3 THEN now() END, now() + make_interval(secs => (n::bigint * 7919) % 200000 - 100000),
       now() - make_interval(secs => 2e6 - n), CASE WHEN n <= $3 THEN now() END
  FROM generate_series($1::integer, $2::integer) n;

-- name: fill_seats
-- One seat of a role for each request, of two hundred people in turn.
INSERT INTO assent.workflow_seats (org_id, id, request_id, instance_id, user_id, group_name, position, via, status,
       created_at, closed_at)
SELECT 'acme', pg_temp.id('6', n), pg_temp.id('3', n), pg_temp.id('2', n), 'p' || n % 200, 'approvers', 1,
       'role:finance', CASE WHEN n > $3 THEN 'open' ELSE 'decided' END, now() - make_interval(secs => 2e6 - n),
       CASE WHEN n <= $3 THEN now() END
  FROM generate_series($1::integer, $2::integer) n;

-- name: fill_more_seats
-- The seats of the busy reader and of the person they stand in for; decided ones as well.
INSERT INTO assent.workflow_seats (org_id, id, request_id, instance_id, user_id, group_name, position, via, status,
       created_at, closed_at)
SELECT 'acme', pg_temp.id('7', n), pg_temp.id('3', n), pg_temp.id('2', n),
       CASE WHEN n % 5 = 2 THEN 'lender' ELSE 'busy' END, 'approvers', 2, 'role:finance',
       CASE WHEN n > $3 THEN 'open' ELSE 'closed' END, now() - make_interval(secs => 2e6 - n),
       CASE WHEN n <= $3 THEN now() END
  FROM generate_series($1::integer, $2::integer) n WHERE n % 5 IN (0, 1, 2) AND (n > $3 OR n % 10 < 3);

-- name: fill_decisions
-- What was decided.
INSERT INTO assent.approval_decisions (org_id, id, request_id, seat_id, approver_id, decision, entity_version, decided_at)
SELECT 'acme', pg_temp.id('8', n), pg_temp.id('3', n), pg_temp.id('6', n), 'p' || n % 200, 'approved', 2, now()
  FROM generate_series($1::integer, $2::integer) n WHERE n <= $3;

-- name: lend
-- Has the busy reader stand in for another person.
INSERT INTO assent.approval_delegations (org_id, id, from_user, to_user, starts_at, created_by)
VALUES ('acme', gen_random_uuid(), 'lender', 'busy', now() - interval '1 day', 'lender');

-- name: take_in_people
-- Everybody who is asked, with the role by which they are.
INSERT INTO assent.members (org_id, user_id, name, roles)
SELECT 'acme', name, name, '{finance}'
  FROM unnest(ARRAY['busy', 'lender'] || ARRAY(SELECT 'p' || n FROM generate_series(0, 199) n)) AS name;
