-- name: load_requirements_of_instances
-- The requirements of a batch of instances, with their last rejection, whether results can still come, and who handed in what
-- came.
SELECT r.*, q.id IS NOT NULL AND q.ended_at IS NULL AS request_is_open, q.step_id AS request_step_id,
       to_jsonb(c) AS rejection_row, array_remove(ARRAY[v.created_by, v.maker_id], NULL) AS senders
  FROM unnest($1::text[], $2::uuid[]) AS wanted (org_id, instance_id)
  JOIN assent.document_requirements r ON r.org_id = wanted.org_id AND r.instance_id = wanted.instance_id
  LEFT JOIN assent.document_versions v ON v.org_id = r.org_id AND v.id = r.version_id
  LEFT JOIN assent.outside_requests q ON q.org_id = r.org_id AND q.id = r.request_id
  LEFT JOIN LATERAL (
    SELECT k.* FROM assent.rejection_codes k WHERE k.org_id IN (r.org_id, '*') AND k.code = r.rejection_code
     ORDER BY k.org_id = '*' LIMIT 1) AS c ON true;

-- name: lock_requirements
-- Locks requirements by their ids, in the order that every transaction uses.
SELECT r.* FROM assent.document_requirements r
 WHERE r.org_id = $1 AND r.id = ANY ($2::uuid[])
 ORDER BY r.org_id, r.id
 FOR NO KEY UPDATE;

-- name: lock_requirements_of_versions
-- Locks what waits for the review of these versions.
SELECT r.* FROM assent.document_requirements r
 WHERE r.org_id = $1 AND r.version_id = ANY ($2::uuid[])
 ORDER BY r.org_id, r.id
 FOR NO KEY UPDATE;

-- name: lock_requirements_of_results
-- Locks what requests have asked for, whether or not another request asks for it by now.
WITH asked AS MATERIALIZED (
  SELECT DISTINCT w.org_id, w.request_id, (d ->> 'requirement_id')::uuid AS requirement_id
    FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::uuid[]) AS u (org_id, request_id)) AS w
    JOIN assent.outside_request_history h
      ON h.org_id = w.org_id AND h.request_id = w.request_id AND h.what = 'asked'
    CROSS JOIN LATERAL jsonb_array_elements(
      CASE WHEN jsonb_typeof(h.body -> 'documents') = 'array' THEN h.body -> 'documents' ELSE '[]' END) AS d
)
SELECT r.*, a.request_id AS result_of
  FROM asked a JOIN assent.document_requirements r ON r.org_id = a.org_id AND r.id = a.requirement_id
 ORDER BY r.org_id, r.id
 FOR NO KEY UPDATE OF r;

-- name: lock_requirements_of_subject
-- Locks what is required of a subject by an instance, or for the subject alone, with the last rejections.
SELECT r.*, to_jsonb(c) AS rejection_row
  FROM assent.document_requirements r
  LEFT JOIN LATERAL (
    SELECT k.* FROM assent.rejection_codes k WHERE k.org_id IN (r.org_id, '*') AND k.code = r.rejection_code
     ORDER BY k.org_id = '*' LIMIT 1) AS c ON true
 WHERE r.org_id = $1 AND r.instance_id IS NOT DISTINCT FROM $2 AND r.partition_id IS NOT DISTINCT FROM $5
   AND r.subject = $3 AND r.doc_type = ANY ($4::text[])
 ORDER BY r.org_id, r.id
 FOR NO KEY UPDATE OF r;

-- name: lock_lapsed_requirements
-- Locks verified requirements whose document is not valid any more, and skips those that another transaction holds.
SELECT r.* FROM assent.document_requirements r
 WHERE r.status = 'verified' AND r.valid_to < $2
 ORDER BY r.valid_to LIMIT $1
 FOR NO KEY UPDATE SKIP LOCKED;

-- name: insert_requirements_if_absent
-- What is required from now on; a requirement that is there already is not inserted.
INSERT INTO assent.document_requirements (org_id, id, partition_id, instance_id, subject, doc_type, required_state, status,
       attempt_count, max_attempts, due_date, created_at, updated_at)
SELECT org_id, id, partition_id, instance_id, subject, doc_type, required_state, status, attempt_count, max_attempts, due_date,
       created_at, created_at
  FROM jsonb_to_recordset($1::jsonb) AS n (
    org_id text, id uuid, partition_id text, instance_id uuid, subject text, doc_type text, required_state text, status text,
    attempt_count integer, max_attempts integer, due_date date, created_at timestamptz)
ON CONFLICT ON CONSTRAINT document_is_required_once DO NOTHING;

-- name: update_requirements_if_unchanged
-- Moves requirements on from the revision that was read.
UPDATE assent.document_requirements r
   SET required_state = n.required_state, status = n.status, attempt_count = n.attempt_count, request_id = n.request_id,
       document_id = n.document_id, version_id = n.version_id, rejection_code = n.rejection_code,
       rejection_reason = n.rejection_reason, waived_by = n.waived_by, valid_to = n.valid_to, requested_at = n.requested_at,
       satisfied_at = n.satisfied_at, reminded_at = n.reminded_at, revision = n.revision, updated_at = $2
  FROM jsonb_to_recordset($1::jsonb) AS n (
    org_id text, id uuid, required_state text, status text, attempt_count integer, request_id uuid, document_id uuid,
    version_id uuid, rejection_code text, rejection_reason text, waived_by text, valid_to date, requested_at timestamptz,
    satisfied_at timestamptz, reminded_at timestamptz, revision integer)
 WHERE r.org_id = n.org_id AND r.id = n.id AND r.revision = n.revision - 1;

-- name: insert_document_events
-- What happened, each one row.
INSERT INTO assent.document_events (org_id, id, requirement_id, document_id, version_id, type, old_status, new_status,
       rejection_code, notes, actor_id, at)
SELECT org_id, id, requirement_id, document_id, version_id, type, old_status, new_status, rejection_code, notes, actor_id, at
  FROM jsonb_to_recordset($1::jsonb) AS e (
    org_id text, id uuid, requirement_id uuid, document_id uuid, version_id uuid, type text, old_status text,
    new_status text, rejection_code text, notes text, actor_id text, at timestamptz);

-- name: page_of_requirements
-- Requirements of an org, newest first; of one instance, subject, type, status, partition and code of the last rejection, and only
-- those that are open and due before a day, where these are given. Those
-- of instances that the reader may not see are left out: each is looked up by itself, which OFFSET 0 says; else the planner
-- would read all instances of the org for one page.
WITH page AS MATERIALIZED (
  SELECT r.* FROM assent.document_requirements r
   WHERE r.org_id = $1 AND ($2::uuid IS NULL OR r.instance_id = $2) AND ($3::text IS NULL OR r.subject = $3)
     AND ($4::text IS NULL OR r.doc_type = $4) AND ($5::text IS NULL OR r.status = $5)
     AND ($6::text IS NULL OR r.partition_id = $6) AND ($7::text IS NULL OR r.rejection_code = $7)
     AND ($8::date IS NULL OR r.due_date < $8 AND r.status IN ('missing', 'requested', 'rejected', 'expired'))
     AND ($9::uuid IS NULL OR r.id < $9)
     AND (NOT $11::boolean OR r.instance_id IS NULL OR EXISTS (
           SELECT FROM assent.workflow_instances i
            WHERE i.org_id = r.org_id AND i.id = r.instance_id
              AND assent.is_readable(i, $12::text[], $13::boolean, $14::uuid[], $15::text, $16::timestamptz) OFFSET 0))
   ORDER BY r.id DESC LIMIT $10
)
SELECT r.*, q.id IS NOT NULL AND q.ended_at IS NULL AS request_is_open, NULL::uuid AS request_step_id,
       to_jsonb(c) AS rejection_row
  FROM page r
  LEFT JOIN assent.outside_requests q ON q.org_id = r.org_id AND q.id = r.request_id
  LEFT JOIN LATERAL (
    SELECT k.* FROM assent.rejection_codes k WHERE k.org_id IN (r.org_id, '*') AND k.code = r.rejection_code
     ORDER BY k.org_id = '*' LIMIT 1) AS c ON true
 ORDER BY r.id DESC;

-- name: count_requirements
-- How many requirements of a list have each status, of each one more than the count goes at most.
SELECT s.status, c.count
  FROM unnest($9::text[]) AS s (status)
  CROSS JOIN LATERAL (
    SELECT count(*) FROM (
      SELECT FROM assent.document_requirements r
       WHERE r.org_id = $1 AND ($2::uuid IS NULL OR r.instance_id = $2) AND ($3::text IS NULL OR r.subject = $3)
         AND ($4::text IS NULL OR r.doc_type = $4) AND ($5::text IS NULL OR r.status = $5)
         AND ($6::text IS NULL OR r.partition_id = $6) AND ($7::text IS NULL OR r.rejection_code = $7)
         AND ($8::date IS NULL OR r.due_date < $8 AND r.status IN ('missing', 'requested', 'rejected', 'expired'))
         AND r.status = s.status
         AND (NOT $11::boolean OR r.instance_id IS NULL OR EXISTS (
           SELECT FROM assent.workflow_instances i
            WHERE i.org_id = r.org_id AND i.id = r.instance_id
              AND assent.is_readable(i, $12::text[], $13::boolean, $14::uuid[], $15::text, $16::timestamptz)))
       LIMIT $10) AS counted) AS c;

-- name: is_required
-- Whether a document is required of a subject in a partition, for an instance or for the subject alone.
SELECT EXISTS (SELECT FROM assent.document_requirements
                WHERE org_id = $1 AND instance_id IS NOT DISTINCT FROM $2::uuid AND partition_id IS NOT DISTINCT FROM $3::text
                  AND subject = $4 AND doc_type = $5);

-- name: find_requirement
-- One requirement as it stands.
SELECT r.*, q.id IS NOT NULL AND q.ended_at IS NULL AS request_is_open, NULL::uuid AS request_step_id,
       to_jsonb(c) AS rejection_row
  FROM assent.document_requirements r
  LEFT JOIN assent.outside_requests q ON q.org_id = r.org_id AND q.id = r.request_id
  LEFT JOIN LATERAL (
    SELECT k.* FROM assent.rejection_codes k WHERE k.org_id IN (r.org_id, '*') AND k.code = r.rejection_code
     ORDER BY k.org_id = '*' LIMIT 1) AS c ON true
 WHERE r.org_id = $1 AND r.id = $2;

-- name: insert_document
-- What was handed in.
INSERT INTO assent.documents (org_id, id, partition_id, document_type, subject, parent_id, requirement_id, source, source_ref,
       created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: find_document
-- One document.
SELECT * FROM assent.documents WHERE org_id = $1 AND id = $2;

-- name: lock_document
-- Lets one transaction at a time give a document its next version. The row itself is never updated, by any right.
SELECT pg_advisory_xact_lock(hashtextextended('document:' || $1 || ':' || $2, 0));

-- name: count_versions
-- How many versions a document has.
SELECT coalesce(max(version_no), 0) FROM assent.document_versions WHERE org_id = $1 AND document_id = $2;

-- name: insert_version
-- One submission of a document.
INSERT INTO assent.document_versions (org_id, id, document_id, version_no, content_type, structured_data, blob_ref,
       valid_from, valid_to, quality_score, extraction_confidence, created_at, created_by, maker_id, blob_id, request_id)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: find_version
-- One version, with its document.
SELECT v.*, d.document_type, d.subject, d.partition_id, d.requirement_id, b.status AS blob_status, b.file_name, b.found_type,
       b.size_bytes, b.sha256
  FROM assent.document_versions v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
  LEFT JOIN assent.blobs b ON b.org_id = v.org_id AND b.id = v.blob_id
 WHERE v.org_id = $1 AND v.document_id = $2 AND v.id = $3;

-- name: lock_version
-- Locks a version for its review.
SELECT v.*, d.document_type, d.subject, d.partition_id, d.requirement_id, b.status AS blob_status, b.file_name, b.found_type,
       b.size_bytes, b.sha256
  FROM assent.document_versions v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
  LEFT JOIN assent.blobs b ON b.org_id = v.org_id AND b.id = v.blob_id
 WHERE v.org_id = $1 AND v.document_id = $2 AND v.id = $3
   FOR NO KEY UPDATE OF v;

-- name: begin_reviews_of_versions
-- Versions whose review begins; those that are reviewed already stay as they are.
UPDATE assent.document_versions SET status = 'in_qa'
 WHERE (org_id, id) IN (SELECT * FROM unnest($1::text[], $2::uuid[])) AND status = 'pending';

-- name: review_version_if_open
-- The end of the review of a version.
UPDATE assent.document_versions
   SET status = $3, rejection_code = $4, rejection_reason = $5, verified_by = $6, verified_at = $7,
       valid_from = coalesce($8, valid_from), valid_to = coalesce($9, valid_to)
 WHERE org_id = $1 AND id = $2 AND status IN ('pending', 'in_qa');

-- name: erase_version_if_kept
-- The content of a version goes; the row stays.
UPDATE assent.document_versions
   SET structured_data = NULL, blob_ref = NULL, ocr_extracted = NULL, erased_at = $3, erased_by = $4
 WHERE org_id = $1 AND id = $2 AND erased_at IS NULL;

-- name: erase_versions_beyond_retention
-- The content of versions goes that is older than their org keeps it, and that nothing needs any more: no instance that has not
-- ended, or not so long ago, no open request, no review. A setting that is no such number of days is no policy, and no error.
WITH policy AS MATERIALIZED (
  SELECT org_id, days::integer AS days, assent.now() - make_interval(days => days::integer) AS kept_since
    FROM assent.orgs
   CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'document_retention_days')
                                WHEN 'number' THEN (settings ->> 'document_retention_days')::numeric END) AS setting (days)
   WHERE days BETWEEN 1 AND 36500
), old AS MATERIALIZED (
  SELECT v.org_id, v.id, p.days
    FROM policy p
    JOIN assent.document_versions v ON v.org_id = p.org_id AND v.erased_at IS NULL AND v.created_at < p.kept_since
    JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
   WHERE coalesce(v.verified_at < p.kept_since, true)
     AND NOT EXISTS (
       SELECT FROM assent.document_requirements r
         LEFT JOIN assent.workflow_instances i ON i.org_id = r.org_id AND i.id = r.instance_id
        WHERE r.org_id = v.org_id AND (r.version_id = v.id OR r.id = d.requirement_id)
          AND CASE WHEN r.instance_id IS NULL THEN r.version_id = v.id AND r.status = 'in_qa'
                   ELSE i.status NOT IN ('completed', 'failed', 'cancelled') OR i.completed_at >= p.kept_since END)
     AND NOT EXISTS (
       SELECT FROM assent.outside_requests q
         LEFT JOIN assent.workflow_instances i ON i.org_id = q.org_id AND i.id = q.instance_id
        WHERE q.org_id = v.org_id AND q.id = v.request_id
          AND (q.ended_at IS NULL OR q.ended_at >= p.kept_since OR i.status NOT IN ('completed', 'failed', 'cancelled')
               OR i.completed_at >= p.kept_since))
   LIMIT $1
   FOR NO KEY UPDATE OF v SKIP LOCKED
)
UPDATE assent.document_versions v
   SET structured_data = NULL, blob_ref = NULL, ocr_extracted = NULL, erased_at = assent.now(), erased_by = $2
  FROM old o
 WHERE v.org_id = o.org_id AND v.id = o.id AND v.erased_at IS NULL
RETURNING v.org_id, v.id, v.document_id, v.blob_id, o.days;

-- name: link_versions_if_unlinked
-- Links versions to the requests whose results they are; one that is the result of another stays so.
UPDATE assent.document_versions v SET request_id = w.request_id
  FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS w (org_id, request_id, version_id)
 WHERE v.org_id = w.org_id AND v.id = w.version_id AND v.request_id IS NULL;

-- name: read_linked_versions
-- The results of requests that are not rejected, in the order in which they were handed in.
SELECT v.org_id, v.request_id, v.id, v.document_id, d.document_type, d.subject, d.partition_id
  FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS w (org_id, request_id, version_id)
  JOIN assent.document_versions v ON v.org_id = w.org_id AND v.id = w.version_id AND v.request_id = w.request_id
  JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
 WHERE v.status <> 'rejected'
 ORDER BY v.id;

-- name: find_unknown_versions
-- Which of these versions are not there, for the org and the partition of a request.
SELECT w.id FROM unnest($3::uuid[]) WITH ORDINALITY AS w (id, position)
 WHERE NOT EXISTS (
   SELECT FROM assent.document_versions v
     JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
     JOIN assent.outside_requests q ON q.org_id = v.org_id AND q.id = $2
    WHERE v.org_id = $1 AND v.id = w.id
      AND (d.partition_id IS NULL OR q.partition_id IS NULL OR d.partition_id = q.partition_id))
 ORDER BY w.position;

-- name: page_of_documents
-- Documents of an org, newest first; of one type, subject, requirement and partition, with a latest version in a status, and
-- with fields or extracted fields that contain these, and with words in the extracted text, where these are given.
SELECT d.*, v.id AS version_id, v.version_no, v.status
  FROM assent.documents d
  LEFT JOIN LATERAL (
    SELECT l.* FROM assent.document_versions l WHERE l.org_id = d.org_id AND l.document_id = d.id
     ORDER BY l.version_no DESC LIMIT 1) AS v ON true
 WHERE d.org_id = $1 AND ($2::text IS NULL OR d.document_type = $2) AND ($3::text IS NULL OR d.subject = $3)
   AND ($4::uuid IS NULL OR d.requirement_id = $4) AND ($5::text IS NULL OR v.status = $5)
   AND ($6::text IS NULL OR d.partition_id = $6)
   AND ($7::jsonb IS NULL OR d.id IN (
         SELECT c.document_id FROM assent.document_versions c
          WHERE c.org_id = $1 AND (c.structured_data @> $7 OR c.ocr_extracted @> $7)))
   AND ($10::text IS NULL OR d.id IN (
         SELECT w.document_id FROM assent.document_versions w
          WHERE w.org_id = $1 AND to_tsvector('simple', w.ocr_extracted ->> 'text') @@ plainto_tsquery('simple', $10)))
   AND ($8::uuid IS NULL OR d.id < $8)
 ORDER BY d.id DESC LIMIT $9;

-- name: list_versions
-- The versions of a document, the latest first.
SELECT v.*, b.status AS blob_status, b.file_name, b.found_type, b.size_bytes, b.sha256
  FROM assent.document_versions v
  LEFT JOIN assent.blobs b ON b.org_id = v.org_id AND b.id = v.blob_id
 WHERE v.org_id = $1 AND v.document_id = $2 ORDER BY v.version_no DESC LIMIT $3;

-- name: list_document_events
-- What happened to a document, or to a requirement, the latest first.
SELECT id, requirement_id, document_id, version_id, type, old_status, new_status, rejection_code, notes, actor_id, at
  FROM assent.document_events
 WHERE org_id = $1 AND (document_id = $2 OR requirement_id = $3) ORDER BY at DESC, id DESC LIMIT $4;

-- name: find_rejection_code
-- A code of the org, or of all orgs.
SELECT * FROM assent.rejection_codes WHERE org_id IN ($1, '*') AND code = $2 ORDER BY org_id = '*' LIMIT 1;

-- name: list_rejection_codes
-- The codes that an org can use: its own, and those of all orgs that it has not said in its own words.
SELECT DISTINCT ON (code) * FROM assent.rejection_codes WHERE org_id IN ($1, '*') ORDER BY code, org_id = '*';

-- name: keep_rejection_code
-- A code of an org, in place of the one of this name.
INSERT INTO assent.rejection_codes (org_id, code, category, client_message, ops_message, next_action, retryable, translations)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::jsonb)
ON CONFLICT (org_id, code) DO UPDATE
   SET category = excluded.category, client_message = excluded.client_message, ops_message = excluded.ops_message,
       next_action = excluded.next_action, retryable = excluded.retryable, translations = excluded.translations;

-- name: write_extraction_if_open
-- What was read out of the file of a version, once, before its review has ended.
UPDATE assent.document_versions
   SET extracted_at = $3, ocr_extracted = $4::jsonb, structured_data = coalesce(structured_data, $5::jsonb),
       quality_score = coalesce($6, quality_score), extraction_confidence = coalesce($7, extraction_confidence)
 WHERE org_id = $1 AND id = $2 AND extracted_at IS NULL AND erased_at IS NULL AND blob_id IS NOT NULL
   AND status IN ('pending', 'in_qa');
