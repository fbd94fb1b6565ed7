-- The ground: time, whose turn it is, and row security; then orgs and their people.
--
-- Who may do what. The role that migrates owns everything, and workers use it. Commands of people run as
-- assent_engine: it sees the rows of one org, cannot bypass row security, and gets each right by name. Other programs
-- join assent_client (0026). Both roles are there before the first migration: assent.store.roles makes them.

REVOKE ALL ON SCHEMA assent FROM PUBLIC;
GRANT USAGE ON SCHEMA assent TO assent_engine;

-- Time is the database's, and no role of production moves it. The owner of a test's database puts another function in its
-- place, which goes by what a transaction sets (assent.store.moved_time).
CREATE FUNCTION assent.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now();

-- Whether a text names nothing: it is empty, or has only blanks and invisible characters in it. The same as is_blank of
-- assent.model.names; a test compares every code point.
CREATE FUNCTION assent.is_blank(given text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN given !~ ('[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890-\u0891\u08E2'
    || '\u115F-\u1160\u1680\u17B4-\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F'
    || '\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF9-\uFFFB\U000110BD\U000110CD'
    || '\U00013430-\U0001343F\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0001'
    || '\U000E0020-\U000E007F\U000E0100-\U000E01EF]');

-- The org that this transaction acts for; null means none, and then row security shows nothing. A blank id is none.
CREATE FUNCTION assent.org_id() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN NOT assent.is_blank(current_setting('assent.org_id', true))
  THEN current_setting('assent.org_id', true) END;

-- The role that called, seen from inside a SECURITY DEFINER function, where current_user is the owner.
CREATE FUNCTION assent.calling_role() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;

-- For SECURITY DEFINER functions, where row security does not apply: an application's call is held to its org.
CREATE FUNCTION assent.require_org(wanted text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF wanted IS DISTINCT FROM assent.org_id() AND NOT pg_has_role(assent.calling_role(), current_user, 'USAGE') THEN
    RAISE insufficient_privilege USING MESSAGE = format('this transaction acts for org %L, not for %L',
      assent.org_id(), wanted);
  END IF;
END
$$;

-- Shows a table's rows only to their org. Every table goes through here; a test walks the catalogue.
CREATE FUNCTION assent.guard_by_org(guarded regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', guarded);
  -- The sub-select makes PostgreSQL ask once a statement instead of once a row.
  EXECUTE format('CREATE POLICY rows_of_own_org ON %s '
    'USING (org_id = (SELECT assent.org_id())) WITH CHECK (org_id = (SELECT assent.org_id()))', guarded);
END
$$;

-- History is inserted, never overwritten: refuses whatever it is a trigger for, except by the door it is told.
CREATE FUNCTION assent.reject_rewriting() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_NARGS > 0 AND TG_OP = 'DELETE' AND current_setting('assent.door', true) = TG_ARGV[0] THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS001',
    MESSAGE = format('%s is append-only: %s is refused', TG_TABLE_NAME, TG_OP);
END
$$;

-- No one but the owner needs to know which migrations ran.
ALTER TABLE assent.schema_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.schema_migrations USING (false);

-- What migrations granted, each as its statement: a dump carries the table, but not the roles.
CREATE TABLE assent.schema_grants (statement text NOT NULL, CONSTRAINT schema_grants_pkey PRIMARY KEY (statement));
ALTER TABLE assent.schema_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.schema_grants USING (false);

-- No other table has a foreign key to orgs: each insert would share-lock the one row that all of an org's traffic
-- has in common.
CREATE TABLE assent.orgs (
  org_id     text        NOT NULL,
  name       text        NOT NULL,
  settings   jsonb       NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT orgs_pkey PRIMARY KEY (org_id),
  CONSTRAINT org_id_is_a_short_word CHECK (org_id ~ '^([A-Za-z0-9][A-Za-z0-9_.:-]{0,99}|\*)$'),
  CONSTRAINT org_settings_are_an_object CHECK (jsonb_typeof(settings) = 'object')
);

CREATE TABLE assent.members (
  org_id     text        NOT NULL,
  user_id    text        NOT NULL,
  kind       text        NOT NULL DEFAULT 'user',
  name       text        NOT NULL,
  email      text,
  roles      text[]      NOT NULL DEFAULT '{}',
  manager_id text,
  active     boolean     NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  updated_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT members_pkey PRIMARY KEY (org_id, user_id),
  CONSTRAINT member_kind_is_known CHECK (kind IN ('user', 'service_account')),
  CONSTRAINT member_id_is_not_a_reserved_word CHECK (user_id NOT IN ('', 'system')),
  CONSTRAINT member_id_is_not_blank CHECK (NOT assent.is_blank(user_id)),
  CONSTRAINT manager_is_a_member FOREIGN KEY (org_id, manager_id) REFERENCES assent.members (org_id, user_id),
  CONSTRAINT nobody_manages_themselves CHECK (manager_id <> user_id)
);
CREATE INDEX members_by_role ON assent.members USING gin (roles) WHERE active;
CREATE INDEX members_by_manager ON assent.members (org_id, manager_id) WHERE manager_id IS NOT NULL;

CREATE TABLE assent.role_capabilities (
  org_id     text NOT NULL,
  role       text NOT NULL,
  capability text NOT NULL,
  CONSTRAINT role_capabilities_pkey PRIMARY KEY (org_id, role, capability),
  CONSTRAINT role_is_not_blank CHECK (NOT assent.is_blank(role)),
  CONSTRAINT capability_is_a_path CHECK (capability ~ '^(\*|[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*(:\*)?)$')
);

-- Only a hash of a key is kept, so a stolen backup signs nobody in.
CREATE TABLE assent.api_keys (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  user_id      text        NOT NULL,
  name         text        NOT NULL,
  prefix       text        NOT NULL,
  key_hash     text        NOT NULL,
  scopes       text[]      NOT NULL DEFAULT '{}',
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  CONSTRAINT api_keys_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT api_key_belongs_to_a_member FOREIGN KEY (org_id, user_id) REFERENCES assent.members (org_id, user_id),
  CONSTRAINT api_key_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT api_key_is_kept_as_sha256 CHECK (key_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT api_key_hash_is_unique UNIQUE (org_id, key_hash)
);
-- Sign-in knows the key before it knows the org.
CREATE INDEX api_keys_by_hash ON assent.api_keys (key_hash) WHERE revoked_at IS NULL;

SELECT assent.guard_by_org(t) FROM unnest(ARRAY[
  'assent.orgs', 'assent.members', 'assent.role_capabilities', 'assent.api_keys']::regclass[]) t;

GRANT SELECT, UPDATE (name, settings) ON assent.orgs TO assent_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.members, assent.role_capabilities TO assent_engine;
GRANT SELECT, INSERT, UPDATE (name, scopes, expires_at, revoked_at) ON assent.api_keys TO assent_engine;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.now(), assent.org_id(), assent.is_blank(text) TO assent_engine;
