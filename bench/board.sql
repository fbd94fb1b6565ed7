-- name: fill_requirements
-- Four requirements for each case: most are verified, some are open, and some have been rejected before.
INSERT INTO assent.document_requirements (org_id, id, instance_id, subject, doc_type, status, request_id, version_id,
       rejection_code, due_date, waived_by, satisfied_at)
SELECT 'acme', assent.new_id(), pg_temp.id('2', n / 4), 'client-' || n / 4,
       (ARRAY['passport', 'proof_of_address', 'register', 'statute'])[n % 4 + 1], s.status, gen_random_uuid(),
       CASE WHEN s.status IN ('in_qa', 'verified') THEN gen_random_uuid() END,
       CASE WHEN n % 100 = 7 OR s.status = 'rejected' THEN (ARRAY['GLARE', 'CUTOFF', 'UNREADABLE'])[n % 3 + 1] END,
       date '2026-03-01' + n % 300, CASE WHEN s.status = 'waived' THEN 'lead' END,
       CASE WHEN s.status IN ('verified', 'waived') THEN now() END
  FROM generate_series($1::integer, $2::integer) n
 CROSS JOIN LATERAL (
   SELECT (ARRAY['verified', 'verified', 'verified', 'verified', 'in_qa', 'requested', 'requested', 'missing',
                 'rejected', 'waived'])[(n * 7 / 3) % 10 + 1] AS status) s;

-- name: fill_cases
-- The instances that require them, of a flow.
INSERT INTO assent.workflow_instances (org_id, id, definition_id, definition_version, definition_hash, workflow_id,
       subject_id, status, started_at, updated_at)
SELECT 'acme', pg_temp.id('2', n), pg_temp.id('9', 1), 1, 'hash', 'clients.kyc', 'ann', 'running', now(), now()
  FROM generate_series($1::integer / 4, $2::integer / 4) n;
