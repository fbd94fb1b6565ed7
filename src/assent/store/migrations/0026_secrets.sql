-- What publishing takes: who wrote a draft, whether two people are needed, and the secrets that definitions name.

-- Everybody who wrote a draft's text since it was begun, as `user:ann` or `service_account:robot`.
ALTER TABLE assent.workflow_definitions ADD COLUMN edited_by text[] NOT NULL DEFAULT '{}';
UPDATE assent.workflow_definitions SET edited_by = ARRAY['user:' || created_by]
 WHERE status = 'draft' AND created_by IS NOT NULL;

-- A word that is misspelt must not leave one person to publish alone.
ALTER TABLE assent.orgs ADD CONSTRAINT org_publishes_directly_or_with_four_eyes
  CHECK (coalesce(settings -> 'publish', '"direct"') IN ('"direct"', '"four_eyes"'));

-- Credentials for receivers, by the names that definitions call them. As with effect_secrets, the application's role has no
-- right to this table: values are written by the owner's functions, and read by the effects worker when it sends. Each is
-- for some hosts only, so that an author cannot have it sent elsewhere.
CREATE TABLE assent.named_secrets (
  org_id     text        NOT NULL,
  name       text        NOT NULL,
  value      text        NOT NULL,
  hosts      text[]      NOT NULL,
  created_by text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  changed_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT named_secrets_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT secret_name_is_plain CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
  CONSTRAINT secret_value_fits_a_header CHECK (length(value) BETWEEN 8 AND 8192 AND value ~ '^[!-~][ -~]*[!-~]$'),
  CONSTRAINT secret_is_for_some_hosts CHECK (cardinality(hosts) BETWEEN 1 AND 20)
);
SELECT assent.guard_by_org('assent.named_secrets');
CREATE TRIGGER named_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.named_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('secret', 'create', 'delete', 'name', '', 'hosts changed_at');
