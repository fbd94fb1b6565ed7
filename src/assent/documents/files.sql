-- name: insert_blob
-- A file that is about to come.
INSERT INTO assent.blobs (org_id, id, link_key, created_by) VALUES ($1, $2, $3, $4);

-- name: keep_blob_if_uploading
-- The bytes of a file are all in the store.
UPDATE assent.blobs SET status = 'kept', file_name = $3, found_type = $4, size_bytes = $5, sha256 = $6, entity_id = $7
 WHERE org_id = $1 AND id = $2 AND status = 'uploading';

-- name: abandon_blob_if_uploading
-- An upload came to nothing.
UPDATE assent.blobs SET status = 'deleting', delete_at = assent.now()
 WHERE org_id = $1 AND id = $2 AND status = 'uploading';

-- name: erase_blob_if_kept
-- The bytes of an erased version or attachment go.
UPDATE assent.blobs SET status = 'deleting', delete_at = assent.now(), file_name = NULL
 WHERE org_id = $1 AND id = $2 AND status = 'kept';

-- name: erase_blobs_if_kept
-- The bytes of erased versions go.
UPDATE assent.blobs b SET status = 'deleting', delete_at = assent.now(), file_name = NULL
  FROM unnest($1::text[], $2::uuid[]) AS g (org_id, id)
 WHERE b.org_id = g.org_id AND b.id = g.id AND b.status = 'kept';

-- name: find_file
-- The file of a version, with what signs links to it.
SELECT b.org_id, b.id AS blob_id, b.file_name, b.found_type, b.size_bytes, b.sha256, b.link_key
  FROM assent.document_versions v
  JOIN assent.blobs b ON b.org_id = v.org_id AND b.id = v.blob_id AND b.status = 'kept'
 WHERE v.org_id = $1 AND v.document_id = $2 AND v.id = $3 AND v.erased_at IS NULL;

-- name: find_file_of_blob
-- The file that a link leads to.
SELECT b.org_id, b.id AS blob_id, b.file_name, b.found_type, b.size_bytes, b.sha256, b.link_key
  FROM assent.blobs b
  JOIN assent.document_versions v ON v.org_id = b.org_id AND v.blob_id = b.id AND v.erased_at IS NULL
 WHERE b.org_id = $1 AND b.id = $2 AND b.status = 'kept';

-- name: list_attachments
-- Files that were attached to entities, in the order in which they came.
SELECT id, status, file_name, found_type AS content_type, size_bytes, sha256, created_at AS attached_at, created_by AS attached_by,
       link_key
  FROM assent.blobs
 WHERE org_id = $1 AND id = ANY ($2::uuid[]) AND entity_id IS NOT NULL
 ORDER BY id;

-- name: find_attachment
-- A file of an entity: one of those that a version has, or one that was attached to it.
SELECT id, status, file_name, found_type AS content_type, size_bytes, sha256, created_at AS attached_at, created_by AS attached_by,
       link_key
  FROM assent.blobs
 WHERE org_id = $1 AND id = $2 AND (entity_id = $3 OR (entity_id IS NOT NULL AND id = ANY ($4::uuid[])));

-- name: abandon_lost_uploads
-- Marks uploads for deletion that began so long ago that no process can be at work on them, and skips those that another
-- transaction holds: it may be about to give the file to its version.
UPDATE assent.blobs b SET status = 'deleting', delete_at = assent.now()
  FROM (SELECT org_id, id FROM assent.blobs
         WHERE status = 'uploading' AND created_at < assent.now() - $1::interval
         ORDER BY created_at LIMIT $2
         FOR UPDATE SKIP LOCKED) AS lost
 WHERE b.org_id = lost.org_id AND b.id = lost.id
RETURNING b.id;

-- name: claim_deletions
-- Takes blobs whose deletion is due, until the lease is over; those that another worker takes are skipped.
UPDATE assent.blobs b SET delete_at = assent.now() + $1::interval, deletions = b.deletions + 1
  FROM (SELECT org_id, id FROM assent.blobs
         WHERE status = 'deleting' AND delete_at <= assent.now()
         ORDER BY delete_at LIMIT $2
         FOR UPDATE SKIP LOCKED) AS due
 WHERE b.org_id = due.org_id AND b.id = due.id
RETURNING b.org_id, b.id, b.deletions;

-- name: forget_blobs_without_version
-- Uploads that came to nothing leave no row.
DELETE FROM assent.blobs b
 USING unnest($1::text[], $2::uuid[]) AS g (org_id, id)
 WHERE b.org_id = g.org_id AND b.id = g.id AND b.status = 'deleting'
   AND b.entity_id IS NULL
   AND NOT EXISTS (SELECT FROM assent.document_versions v WHERE v.org_id = b.org_id AND v.blob_id = b.id);

-- name: mark_blobs_deleted
-- The bytes of erased versions and attachments are gone.
UPDATE assent.blobs b SET status = 'deleted', deleted_at = assent.now(), delete_at = NULL, delete_error = NULL
  FROM unnest($1::text[], $2::uuid[]) AS g (org_id, id)
 WHERE b.org_id = g.org_id AND b.id = g.id AND b.status = 'deleting';

-- name: postpone_deletions
-- The store did not delete these; they are tried again.
UPDATE assent.blobs b SET delete_at = f.at, delete_error = f.error
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::timestamptz[]) AS f (org_id, id, error, at)
 WHERE b.org_id = f.org_id AND b.id = f.id AND b.status = 'deleting';

-- name: find_upload_link
-- A link with its request, and what that asks for.
SELECT u.org_id, u.id, u.request_id, u.key, u.made_by, u.expires_at, u.revoked_at, r.partition_id, r.status, r.ended_at,
       coalesce(h.body, '{}') AS asked, o.name AS org_name, o.settings ->> 'language' AS language
  FROM assent.upload_links u
  JOIN assent.orgs o ON o.org_id = u.org_id
  JOIN assent.outside_requests r ON r.org_id = u.org_id AND r.id = u.request_id
  LEFT JOIN assent.outside_request_history h ON h.org_id = u.org_id AND h.request_id = u.request_id AND h.what = 'asked'
 WHERE u.org_id = $1 AND u.id = $2;

-- name: lock_upload_link
-- The same, and the link is not revoked before the end of the transaction.
SELECT u.org_id, u.id, u.request_id, u.key, u.made_by, u.expires_at, u.revoked_at, r.partition_id, r.status, r.ended_at,
       coalesce(h.body, '{}') AS asked, o.name AS org_name, o.settings ->> 'language' AS language
  FROM assent.upload_links u
  JOIN assent.orgs o ON o.org_id = u.org_id
  JOIN assent.outside_requests r ON r.org_id = u.org_id AND r.id = u.request_id
  LEFT JOIN assent.outside_request_history h ON h.org_id = u.org_id AND h.request_id = u.request_id AND h.what = 'asked'
 WHERE u.org_id = $1 AND u.id = $2
   FOR SHARE OF u;

-- name: insert_upload_link
-- Another link for a request that asks for documents.
INSERT INTO assent.upload_links (org_id, request_id, made_by, expires_at)
SELECT h.org_id, h.request_id, $3, assent.now() + make_interval(days => $4)
  FROM assent.outside_request_history h
 WHERE h.org_id = $1 AND h.request_id = $2 AND h.what = 'asked' AND h.body ? 'documents'
RETURNING id;

-- name: revoke_upload_links
-- The links of a request lead nowhere any more.
UPDATE assent.upload_links SET revoked_at = assent.now(), revoked_by = $3
 WHERE org_id = $1 AND request_id = $2 AND revoked_at IS NULL AND expires_at > assent.now()
RETURNING id;

-- name: list_handed_in
-- What has come for a request and was not rejected: the latest version of each type of document.
SELECT DISTINCT ON (d.document_type) d.document_type AS doc_type, d.id AS document_id, v.id AS version_id, b.sha256,
       v.created_at AS at
  FROM assent.document_versions v
  JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
  LEFT JOIN assent.blobs b ON b.org_id = v.org_id AND b.id = v.blob_id
 WHERE v.org_id = $1 AND v.request_id = $2 AND v.status <> 'rejected'
 ORDER BY d.document_type, v.id DESC;

-- name: lock_hand_in
-- Lets one transaction at a time hand in a document of a type for a request.
SELECT pg_advisory_xact_lock(hashtextextended('hand in:' || $1, 0));

-- name: find_asked_document
-- The document that came for a requirement before.
SELECT r.document_id FROM assent.document_requirements r
  JOIN assent.documents d ON d.org_id = r.org_id AND d.id = r.document_id
   AND d.document_type = r.doc_type AND d.subject = r.subject
 WHERE r.org_id = $1 AND r.id = $2;
