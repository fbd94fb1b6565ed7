-- Documents from outside parties: what is needed, what was handed in, its versions with their review, and the codes with
-- which a version is rejected.

-- What is needed of a subject, for an instance or, without one, for the subject alone.
CREATE TABLE assent.document_requirements (
  org_id           text        NOT NULL,
  id               uuid        NOT NULL,
  partition_id     text,
  instance_id      uuid,
  subject          text        NOT NULL,            -- whose document it is: the id of a client, of an entity
  doc_type         text        NOT NULL,
  required_state   text        NOT NULL DEFAULT 'verified',
  status           text        NOT NULL DEFAULT 'missing',
  attempt_count    integer     NOT NULL DEFAULT 0,  -- rounds of asking
  max_attempts     integer     NOT NULL DEFAULT 3,
  request_id       uuid,                            -- the outside request that asks for it, or asked last
  document_id      uuid,                            -- the latest that was handed in for it
  version_id       uuid,
  rejection_code   text,                            -- the last one
  rejection_reason text,
  waived_by        text,
  due_date         date,
  valid_to         date,                            -- of the verified version: the last day on which it is valid
  requested_at     timestamptz,
  satisfied_at     timestamptz,                     -- when it reached the required state
  reminded_at      timestamptz,                     -- when the party was reminded of the due date
  revision         integer     NOT NULL DEFAULT 1,  -- counts its changes: a writer says which one it has read
  created_at       timestamptz NOT NULL DEFAULT assent.now(),
  updated_at       timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT document_requirements_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT document_is_required_once UNIQUE NULLS NOT DISTINCT (org_id, instance_id, partition_id, subject, doc_type),
  CONSTRAINT requirement_status_is_known
    CHECK (status IN ('missing', 'requested', 'received', 'in_qa', 'verified', 'rejected', 'expired', 'waived')),
  CONSTRAINT required_state_is_known CHECK (required_state IN ('received', 'verified')),
  CONSTRAINT requirement_subject_is_named CHECK (length(subject) BETWEEN 1 AND 200 AND NOT assent.is_blank(subject)),
  CONSTRAINT requirement_doc_type_is_named CHECK (length(doc_type) BETWEEN 1 AND 100 AND NOT assent.is_blank(doc_type)),
  CONSTRAINT attempts_are_counted CHECK (attempt_count >= 0 AND max_attempts BETWEEN 1 AND 100),
  CONSTRAINT requested_document_was_asked_for CHECK (status <> 'requested' OR request_id IS NOT NULL),
  CONSTRAINT document_in_review_is_there CHECK (status NOT IN ('received', 'in_qa', 'verified') OR version_id IS NOT NULL),
  CONSTRAINT rejected_requirement_says_why CHECK (status <> 'rejected' OR rejection_code IS NOT NULL),
  CONSTRAINT waived_requirement_says_by_whom CHECK ((status = 'waived') = (waived_by IS NOT NULL)),
  CONSTRAINT requirement_is_satisfied_when_its_status_says_so CHECK (
    CASE WHEN status IN ('verified', 'waived') THEN satisfied_at IS NOT NULL
         WHEN status IN ('received', 'in_qa') THEN (satisfied_at IS NOT NULL) = (required_state = 'received')
         ELSE satisfied_at IS NULL END)
);
CREATE INDEX requirements_open ON assent.document_requirements (org_id, instance_id) WHERE status NOT IN ('verified', 'waived');
CREATE INDEX requirements_by_subject ON assent.document_requirements (org_id, subject, doc_type);
CREATE INDEX requirements_by_partition ON assent.document_requirements (org_id, partition_id) WHERE partition_id IS NOT NULL;
CREATE INDEX requirements_by_request ON assent.document_requirements (org_id, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX requirements_by_version ON assent.document_requirements (org_id, version_id) WHERE version_id IS NOT NULL;
CREATE INDEX requirements_by_status ON assent.document_requirements (org_id, status, id);
CREATE INDEX requirements_by_doc_type ON assent.document_requirements (org_id, doc_type, id);
CREATE INDEX requirements_by_code ON assent.document_requirements (org_id, rejection_code, id) WHERE rejection_code IS NOT NULL;
CREATE INDEX requirements_due ON assent.document_requirements (org_id, due_date, id)
  WHERE due_date IS NOT NULL AND status IN ('missing', 'requested', 'rejected', 'expired');
CREATE INDEX requirements_to_expire ON assent.document_requirements (valid_to) WHERE status = 'verified';
CREATE TRIGGER requirement_status_moves_forward BEFORE UPDATE ON assent.document_requirements
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('document_requirements');

-- What is needed stays what it is; rounds of asking are only counted up, until it is reset or has expired.
CREATE FUNCTION assent.guard_requirement() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.partition_id, NEW.instance_id, NEW.subject, NEW.doc_type, NEW.max_attempts, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.partition_id, OLD.instance_id, OLD.subject, OLD.doc_type, OLD.max_attempts, OLD.created_at)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('requirement %s keeps what it requires', OLD.id);
  END IF;
  IF NEW.attempt_count < OLD.attempt_count AND NEW.status NOT IN ('missing', 'expired') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('rounds of asking for requirement %s are only counted up', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER requirements_keep_what_they_require BEFORE UPDATE ON assent.document_requirements
  FOR EACH ROW EXECUTE FUNCTION assent.guard_requirement();
SELECT assent.guard_by_org('assent.document_requirements');
GRANT SELECT, INSERT, UPDATE (required_state, status, attempt_count, request_id, document_id, version_id, rejection_code,
                              rejection_reason, waived_by, valid_to, requested_at, satisfied_at, reminded_at, revision,
                              updated_at)
  ON assent.document_requirements TO assent_engine;
GRANT SELECT ON assent.document_requirements TO assent_client;

-- What was handed in. Its content is in its versions.
CREATE TABLE assent.documents (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  partition_id   text,
  document_type  text        NOT NULL,
  subject        text        NOT NULL,
  parent_id      uuid,                              -- the document that it belongs to
  requirement_id uuid,                              -- what it is handed in for
  source         text        NOT NULL,
  source_ref     text,                              -- its id there
  created_at     timestamptz NOT NULL DEFAULT assent.now(),
  created_by     text        NOT NULL,
  CONSTRAINT documents_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT document_belongs_to_another FOREIGN KEY (org_id, parent_id) REFERENCES assent.documents (org_id, id),
  CONSTRAINT document_is_for_a_requirement
    FOREIGN KEY (org_id, requirement_id) REFERENCES assent.document_requirements (org_id, id),
  CONSTRAINT document_type_is_named CHECK (length(document_type) BETWEEN 1 AND 100 AND NOT assent.is_blank(document_type)),
  CONSTRAINT document_subject_is_named CHECK (length(subject) BETWEEN 1 AND 200 AND NOT assent.is_blank(subject)),
  CONSTRAINT document_source_is_known CHECK (source IN ('upload', 'ocr', 'api', 'gleif', 'workflow')),
  CONSTRAINT document_source_ref_is_short CHECK (length(source_ref) BETWEEN 1 AND 500)
);
CREATE INDEX documents_by_subject ON assent.documents (org_id, subject, document_type, id);
CREATE INDEX documents_by_partition ON assent.documents (org_id, partition_id) WHERE partition_id IS NOT NULL;
CREATE INDEX documents_by_requirement ON assent.documents (org_id, requirement_id) WHERE requirement_id IS NOT NULL;
CREATE TRIGGER documents_are_append_only BEFORE UPDATE OR DELETE ON assent.documents
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER documents_are_never_emptied BEFORE TRUNCATE ON assent.documents
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.documents');
GRANT SELECT, INSERT ON assent.documents TO assent_engine;

-- The bytes of a file, in the store that ASSENT_BLOBS names, under the key `<org>/<two last digits>/<id>`. The row is there before
-- the first byte and after the last, so that bytes that nothing refers to are found by their rows, not in the store. A file is of
-- one version of a document, or was attached to one entity; which versions of the entity have it is in their data.
CREATE TABLE assent.blobs (
  org_id        text        NOT NULL,
  id            uuid        NOT NULL,
  status        text        NOT NULL DEFAULT 'uploading',
  file_name     text,                               -- as the sender calls it, cleaned
  found_type    text,                               -- what its first bytes are, whatever the sender says
  size_bytes    bigint,
  sha256        text,
  link_key      text        NOT NULL,               -- signs the links to it
  entity_id     uuid,                               -- the entity that it was attached to; null for a version's
  created_at    timestamptz NOT NULL DEFAULT assent.now(),
  created_by    text        NOT NULL,
  deletions     integer     NOT NULL DEFAULT 0,     -- attempts to delete its bytes
  delete_at     timestamptz,                        -- when the next is due
  delete_error  text,                               -- of the last
  deleted_at    timestamptz,                        -- when its bytes were gone
  CONSTRAINT blobs_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT blob_status_is_known CHECK (status IN ('uploading', 'kept', 'deleting', 'deleted')),
  CONSTRAINT attachment_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id),
  CONSTRAINT kept_blob_is_described
    CHECK (status <> 'kept' OR (size_bytes IS NOT NULL AND sha256 IS NOT NULL AND found_type IS NOT NULL)),
  CONSTRAINT blob_is_not_empty CHECK (size_bytes >= 1),
  CONSTRAINT blob_hash_is_of_sha256 CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  CONSTRAINT blob_name_is_short CHECK (length(file_name) BETWEEN 1 AND 200),
  CONSTRAINT blob_type_is_short CHECK (length(found_type) BETWEEN 1 AND 200),
  CONSTRAINT deleting_blob_says_when CHECK ((status = 'deleting') = (delete_at IS NOT NULL)),
  CONSTRAINT deleted_blob_says_when CHECK ((status = 'deleted') = (deleted_at IS NOT NULL)),
  CONSTRAINT deleted_blob_has_no_name CHECK (status NOT IN ('deleting', 'deleted') OR file_name IS NULL)
);
CREATE INDEX blobs_uploading ON assent.blobs (created_at) WHERE status = 'uploading';
CREATE INDEX blobs_to_delete ON assent.blobs (delete_at) WHERE status = 'deleting';
CREATE TRIGGER blob_status_moves_forward BEFORE UPDATE ON assent.blobs
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('blobs');
CREATE TRIGGER blobs_are_never_emptied BEFORE TRUNCATE ON assent.blobs
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.blobs');
GRANT SELECT, INSERT, DELETE,
      UPDATE (status, file_name, found_type, size_bytes, sha256, entity_id, deletions, delete_at, delete_error, deleted_at)
  ON assent.blobs TO assent_engine;

-- One submission of a document, and its review.
CREATE TABLE assent.document_versions (
  org_id                text        NOT NULL,
  id                    uuid        NOT NULL,
  document_id           uuid        NOT NULL,
  version_no            integer     NOT NULL,
  content_type          text        NOT NULL,
  structured_data       jsonb,                      -- its fields
  blob_ref              text,                       -- where its file is, in a store of others
  blob_id               uuid,                       -- its file, in ours
  ocr_extracted         jsonb,                      -- what was read out of the file: `text`, and fields
  extracted_at          timestamptz,                -- when it was read, once
  request_id            uuid,                       -- the outside request whose result it was
  status                text        NOT NULL DEFAULT 'pending',
  rejection_code        text,
  rejection_reason      text,
  verified_by           text,                       -- who verified or rejected it
  verified_at           timestamptz,
  valid_from            date,
  valid_to              date,
  quality_score         numeric(5,2),
  extraction_confidence numeric(5,2),
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  created_by            text        NOT NULL,
  maker_id              text,                       -- the member who made the key with which it was handed in
  erased_at             timestamptz,                -- when its content was deleted
  erased_by             text,
  CONSTRAINT document_versions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT version_number_is_unique UNIQUE (org_id, document_id, version_no),
  CONSTRAINT version_is_of_a_document FOREIGN KEY (org_id, document_id) REFERENCES assent.documents (org_id, id),
  CONSTRAINT version_number_is_positive CHECK (version_no >= 1),
  CONSTRAINT version_status_is_known CHECK (status IN ('pending', 'in_qa', 'verified', 'rejected')),
  CONSTRAINT version_has_a_file FOREIGN KEY (org_id, blob_id) REFERENCES assent.blobs (org_id, id),
  CONSTRAINT file_is_of_one_version UNIQUE (org_id, blob_id),
  CONSTRAINT version_has_one_file CHECK (blob_ref IS NULL OR blob_id IS NULL),
  CONSTRAINT version_has_content
    CHECK (CASE WHEN erased_at IS NULL THEN coalesce(structured_data::text, blob_ref, blob_id::text) IS NOT NULL
                ELSE structured_data IS NULL AND blob_ref IS NULL END),
  CONSTRAINT erased_version_says_by_whom CHECK ((erased_at IS NULL) = (erased_by IS NULL)),
  CONSTRAINT erased_version_has_no_text CHECK (erased_at IS NULL OR ocr_extracted IS NULL),
  CONSTRAINT version_content_type_is_short CHECK (length(content_type) BETWEEN 1 AND 200),
  CONSTRAINT version_blob_ref_is_short CHECK (length(blob_ref) BETWEEN 1 AND 1000),
  CONSTRAINT version_is_valid_for_a_time CHECK (valid_from <= valid_to),
  CONSTRAINT version_is_reviewed_by_someone
    CHECK ((status IN ('verified', 'rejected')) = (verified_by IS NOT NULL AND verified_at IS NOT NULL)),
  CONSTRAINT version_is_not_reviewed_by_its_sender CHECK (verified_by NOT IN (created_by, coalesce(maker_id, created_by))),
  CONSTRAINT rejected_version_says_why CHECK ((status = 'rejected') = (rejection_code IS NOT NULL)),
  CONSTRAINT quality_is_a_percentage CHECK (quality_score BETWEEN 0 AND 100),
  CONSTRAINT confidence_is_a_percentage CHECK (extraction_confidence BETWEEN 0 AND 100)
);
CREATE INDEX versions_kept ON assent.document_versions (org_id, created_at) WHERE erased_at IS NULL;
CREATE INDEX versions_to_review ON assent.document_versions (org_id, created_at, id) WHERE status IN ('pending', 'in_qa');
CREATE INDEX versions_by_request ON assent.document_versions (org_id, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX versions_by_data ON assent.document_versions USING gin (structured_data jsonb_path_ops);
CREATE INDEX versions_by_extracted_data ON assent.document_versions USING gin (ocr_extracted jsonb_path_ops);
CREATE INDEX versions_by_words ON assent.document_versions USING gin (to_tsvector('simple', ocr_extracted ->> 'text'));
CREATE TRIGGER version_status_moves_forward BEFORE UPDATE ON assent.document_versions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('document_versions');

-- A version is what was handed in: only what is read out of its file, its review, its link to a request and the erasure of its
-- content come later.
CREATE FUNCTION assent.guard_document_version() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  later CONSTANT text[] := '{status,rejection_code,rejection_reason,verified_by,verified_at,valid_from,valid_to,request_id,'
    || 'structured_data,blob_ref,ocr_extracted,extracted_at,quality_score,extraction_confidence,erased_at,erased_by}';
  is_read CONSTANT boolean := OLD.extracted_at IS NULL AND NEW.extracted_at IS NOT NULL AND OLD.blob_id IS NOT NULL
    AND OLD.erased_at IS NULL AND OLD.status IN ('pending', 'in_qa');
BEGIN
  IF (to_jsonb(NEW) - later) IS DISTINCT FROM (to_jsonb(OLD) - later) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('version %s stays as it was handed in', OLD.id);
  END IF;
  IF (NEW.structured_data, NEW.blob_ref, NEW.ocr_extracted) IS DISTINCT FROM (OLD.structured_data, OLD.blob_ref, OLD.ocr_extracted)
     AND NOT (OLD.erased_at IS NULL AND NEW.erased_at IS NOT NULL)
     AND NOT (is_read AND NEW.blob_ref IS NOT DISTINCT FROM OLD.blob_ref
              AND (OLD.structured_data IS NULL OR NEW.structured_data IS NOT DISTINCT FROM OLD.structured_data))
     OR NOT is_read AND (NEW.extracted_at, NEW.quality_score, NEW.extraction_confidence)
                        IS DISTINCT FROM (OLD.extracted_at, OLD.quality_score, OLD.extraction_confidence)
     OR OLD.erased_at IS NOT NULL AND (NEW.erased_at, NEW.erased_by) IS DISTINCT FROM (OLD.erased_at, OLD.erased_by) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('content of version %s does not change', OLD.id),
      HINT = 'It can only be erased.';
  END IF;
  IF OLD.request_id IS NOT NULL AND NEW.request_id IS DISTINCT FROM OLD.request_id THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('version %s is the result of another request', OLD.id);
  END IF;
  IF OLD.verified_by IS NOT NULL
     AND (NEW.rejection_code, NEW.rejection_reason, NEW.verified_by, NEW.verified_at, NEW.valid_from, NEW.valid_to)
         IS DISTINCT FROM
         (OLD.rejection_code, OLD.rejection_reason, OLD.verified_by, OLD.verified_at, OLD.valid_from, OLD.valid_to)
     OR NEW.status <> 'verified' AND (NEW.valid_from, NEW.valid_to) IS DISTINCT FROM (OLD.valid_from, OLD.valid_to) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('version %s was reviewed once', OLD.id),
      HINT = 'The reviewer says how long it is valid, when it is verified.';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER versions_stay_as_they_were_handed_in BEFORE UPDATE ON assent.document_versions
  FOR EACH ROW EXECUTE FUNCTION assent.guard_document_version();
-- A version is never without its bytes, and bytes that a version refers to are never deleted. Both sides change the row of the
-- blob, so that one of two transactions sees what the other did.
CREATE FUNCTION assent.guard_version_file() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.blob_id IS NOT NULL
     AND EXISTS (SELECT FROM assent.blobs b WHERE b.org_id = NEW.org_id AND b.id = NEW.blob_id AND b.status <> 'kept') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('the file of version %s is not complete', NEW.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER versions_have_their_bytes BEFORE INSERT ON assent.document_versions
  FOR EACH ROW EXECUTE FUNCTION assent.guard_version_file();
CREATE FUNCTION assent.guard_blob() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.status = 'kept' AND (TG_OP = 'DELETE' OR NEW.status <> 'kept') AND EXISTS (
       SELECT FROM assent.document_versions v
        WHERE v.org_id = OLD.org_id AND v.blob_id = OLD.id AND v.erased_at IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('a version refers to blob %s', OLD.id),
      HINT = 'Erase the version.';
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  IF OLD.status <> 'uploading'
     AND (NEW.found_type, NEW.size_bytes, NEW.sha256) IS DISTINCT FROM (OLD.found_type, OLD.size_bytes, OLD.sha256) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('blob %s stays as it was uploaded', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER blobs_of_versions_are_kept BEFORE UPDATE OR DELETE ON assent.blobs
  FOR EACH ROW EXECUTE FUNCTION assent.guard_blob();
CREATE TRIGGER document_versions_are_never_deleted BEFORE DELETE ON assent.document_versions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER document_versions_are_never_emptied BEFORE TRUNCATE ON assent.document_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.document_versions');
GRANT SELECT, INSERT, UPDATE (status, rejection_code, rejection_reason, verified_by, verified_at, valid_from, valid_to, request_id,
                              structured_data, blob_ref, ocr_extracted, extracted_at, quality_score, extraction_confidence,
                              erased_at, erased_by)
  ON assent.document_versions TO assent_engine;

-- Links by which an outside party hands in the files of one request without an account. What comes by one that a member made is
-- also that member's work.
CREATE TABLE assent.upload_links (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL DEFAULT assent.new_id(),
  request_id uuid        NOT NULL,
  key        text        NOT NULL DEFAULT replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),  -- signs it
  made_by    text,                                  -- none for the one that goes out with the request
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  expires_at timestamptz NOT NULL DEFAULT assent.now() + interval '30 days',
  revoked_at timestamptz,
  revoked_by text,
  CONSTRAINT upload_links_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT upload_link_is_for_a_request
    FOREIGN KEY (org_id, request_id) REFERENCES assent.outside_requests (org_id, id) ON DELETE CASCADE,
  CONSTRAINT upload_link_key_is_long CHECK (length(key) >= 64),
  CONSTRAINT revoked_upload_link_says_by_whom CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX upload_links_by_request ON assent.upload_links (org_id, request_id);
SELECT assent.guard_by_org('assent.upload_links');
GRANT SELECT, INSERT, UPDATE (revoked_at, revoked_by) ON assent.upload_links TO assent_engine;

-- What happened to documents, their versions and what requires them.
CREATE TABLE assent.document_events (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  requirement_id uuid,
  document_id    uuid,
  version_id     uuid,
  type           text        NOT NULL,
  old_status     text,
  new_status     text,
  rejection_code text,
  notes          text,
  actor_id       text        NOT NULL,
  at             timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT document_events_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT document_event_is_about_something CHECK (coalesce(requirement_id, document_id) IS NOT NULL),
  CONSTRAINT document_event_type_is_known CHECK (type IN (
    'created', 'version_uploaded', 'verified', 'rejected', 'expired', 'required', 'requested', 'received', 'in_qa', 'waived',
    'reset', 'erased', 'extracted')),
  CONSTRAINT document_event_notes_are_short CHECK (length(notes) <= 2000)
);
CREATE INDEX document_events_by_document ON assent.document_events (org_id, document_id, at, id) WHERE document_id IS NOT NULL;
CREATE INDEX document_events_by_requirement ON assent.document_events (org_id, requirement_id, at, id)
  WHERE requirement_id IS NOT NULL;
CREATE TRIGGER document_events_are_append_only BEFORE UPDATE OR DELETE ON assent.document_events
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER document_events_are_never_emptied BEFORE TRUNCATE ON assent.document_events
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.document_events');
GRANT SELECT, INSERT ON assent.document_events TO assent_engine;

-- Why a version is rejected. Those of org * are for all; an org adds its own, or says one of them in its own words.
CREATE TABLE assent.rejection_codes (
  org_id         text    NOT NULL,
  code           text    NOT NULL,
  category       text    NOT NULL,
  client_message text    NOT NULL,
  ops_message    text    NOT NULL,
  next_action    text    NOT NULL,
  retryable      boolean NOT NULL DEFAULT true,     -- whether the client can hand in another one
  translations   jsonb   NOT NULL DEFAULT '{}',     -- language → client_message and next_action
  CONSTRAINT rejection_codes_pkey PRIMARY KEY (org_id, code),
  CONSTRAINT rejection_code_is_a_name CHECK (code ~ '^[A-Z][A-Z0-9_]{1,62}$'),
  CONSTRAINT rejection_messages_are_short
    CHECK (greatest(length(client_message), length(ops_message), length(next_action)) <= 500 AND length(category) BETWEEN 1 AND 50),
  CONSTRAINT translations_are_an_object CHECK (jsonb_typeof(translations) = 'object')
);
SELECT assent.guard_by_org('assent.rejection_codes');
CREATE POLICY rejection_codes_of_all_orgs_are_readable ON assent.rejection_codes FOR SELECT USING (org_id = '*');
CREATE POLICY rejection_codes_of_all_orgs_are_the_owners ON assent.rejection_codes AS RESTRICTIVE FOR INSERT
  WITH CHECK (org_id <> '*');
CREATE POLICY rejection_codes_of_all_orgs_stay_the_owners ON assent.rejection_codes AS RESTRICTIVE FOR UPDATE
  USING (org_id <> '*') WITH CHECK (org_id <> '*');
GRANT SELECT, INSERT, UPDATE (category, client_message, ops_message, next_action, retryable, translations)
  ON assent.rejection_codes TO assent_engine;

INSERT INTO assent.rejection_codes (org_id, code, category, client_message, ops_message, next_action, retryable) VALUES
  ('*', 'UNREADABLE', 'quality', 'The image of the document is too blurry to read.', 'OCR failed: image quality.',
   'Please upload a clear image in high resolution.', true),
  ('*', 'CUTOFF', 'quality', 'Part of the document is cut off.', 'Incomplete capture.',
   'Make sure that all four corners can be seen in the image.', true),
  ('*', 'GLARE', 'quality', 'Glare hides important information.', 'Light reflected on the document.',
   'Take the photograph without flash and without direct light.', true),
  ('*', 'LOW_RESOLUTION', 'quality', 'The resolution of the image is too low.', 'Below the minimum DPI.',
   'Upload a scan with a higher resolution, 300 DPI at least.', true),
  ('*', 'WRONG_DOC_TYPE', 'mismatch', 'This is not the document that was asked for.', 'Type of document does not match.',
   'Please upload the document of the right type.', true),
  ('*', 'WRONG_PERSON', 'mismatch', 'The document belongs to another person.', 'Name or subject does not match.',
   'Upload the document of the right person.', true),
  ('*', 'SAMPLE_DOC', 'mismatch', 'This appears to be a sample or a specimen.', 'Specimen or sample found.',
   'Please upload your own document.', true),
  ('*', 'EXPIRED', 'validity', 'The document has expired.', 'Past its expiry date.',
   'Please send a document that is valid now.', true),
  ('*', 'NOT_YET_VALID', 'validity', 'The document is not valid yet.', 'valid_from is in the future.',
   'Please send a document that is valid now.', true),
  ('*', 'UNDATED', 'validity', 'The document has no date of issue or expiry.', 'Dates are missing.',
   'Please send a document with a date.', true),
  ('*', 'DOB_MISMATCH', 'data', 'The date of birth does not match our records.', 'Date of birth differs from the record.',
   'Please check that it is the right document, or contact support.', false),
  ('*', 'NAME_MISMATCH', 'data', 'The name does not match our records.', 'Name differs from the record.',
   'Please check the spelling, or send a document about the change of name.', false),
  ('*', 'ADDRESS_MISMATCH', 'data', 'The address does not match the declared address.', 'Address differs.',
   'Please send a proof of address at the declared address.', true),
  ('*', 'UNSUPPORTED_FORMAT', 'format', 'The format of the file is not supported.', 'Invalid type of file.',
   'Please upload PDF, JPEG or PNG.', true),
  ('*', 'PASSWORD_PROTECTED', 'format', 'The document is protected by a password.', 'The file cannot be opened.',
   'Please upload a version without a password.', true),
  ('*', 'CORRUPTED', 'format', 'The file appears to be damaged.', 'The file cannot be read.',
   'Please upload it again, or send another file.', true),
  ('*', 'SUSPECTED_ALTERATION', 'authenticity', 'The document needs further verification.', 'Possible tampering.',
   'Our team will contact you about it.', false),
  ('*', 'INCONSISTENT_FONTS', 'authenticity', 'The document needs further verification.', 'Inconsistent fonts.',
   'Our team will contact you about it.', false);
