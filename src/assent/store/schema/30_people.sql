-- Orgs and their people: members, what roles may do, API keys, sessions of browsers, and delegations.

-- No other table has a foreign key to orgs: each insert would share-lock the one row that all of an org's traffic
-- has in common.
CREATE TABLE assent.orgs (
  org_id     text        NOT NULL,
  name       text        NOT NULL,
  settings   jsonb       NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT orgs_pkey PRIMARY KEY (org_id),
  CONSTRAINT org_id_is_a_short_word CHECK (org_id ~ '^([A-Za-z0-9][A-Za-z0-9_.:-]{0,99}|\*)$'),
  CONSTRAINT org_settings_are_an_object CHECK (jsonb_typeof(settings) = 'object'),
  -- A misspelt word must not let one person publish alone.
  CONSTRAINT org_publishes_directly_or_with_four_eyes
    CHECK (coalesce(settings -> 'publish', '"direct"') IN ('"direct"', '"four_eyes"'))
);
CREATE TRIGGER orgs_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.orgs FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('org', 'create', 'delete', 'org_id', '', 'name settings');
SELECT assent.guard_by_org('assent.orgs');
GRANT SELECT, INSERT (org_id, name, settings), UPDATE (name, settings) ON assent.orgs TO assent_engine;
GRANT SELECT (org_id, name, created_at) ON assent.orgs TO assent_client;

-- The text that a reader takes an id for (after Unicode Technical Standard 39): letters of other scripts that look like Latin
-- ones become these, as do the figures 0 and 1, capital I and bars; then case, and the pairs rn and vv, make no difference.
-- Two ids with one skeleton are look-alikes. The letters are those that people can type (Cyrillic, Greek, Armenian, rare
-- Latin); compatibility forms, such as full width, cannot occur: ids are in the form NFKC.
CREATE FUNCTION assent.skeleton_of_id(id text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(replace(lower(translate(id,
      U&'\0430\0435\043E\0440\0441\0443\0445\043A\0433\0455\0456\0458\04BB\0501\051B\051D\04CF'
      || U&'\0410\0412\0415\041A\041C\041D\041E\0420\0421\0422\0423\0425\0405\0406\0408\050C\051A'
      || U&'\051C\04C0\04AE'
      || U&'\03B1\03BF\03BD\03C1\03B9\03BA\03C5\03B3\03B7\03C4\03C7\03C3\0391\0392\0395\0396\0397'
      || U&'\0399\039A\039C\039D\039F\03A1\03A4\03A5\03A7'
      || U&'\0585\0578\057D\0570\0581\0566\0575'
      || U&'\0131\0251\0261\0269\0237\01C0'
      || U&'01I|',
      'aeopcyxkrsijhdqwlABEKMHOPCTYXSlJGQWlY'
      || 'aovpikuyntxoABEZHlKMNOPTYX'
      || 'onuhgqj'
      || 'iagijl'
      || 'Olll'
    ) COLLATE "C"), 'rn', 'm'), 'vv', 'w');
GRANT EXECUTE ON FUNCTION assent.skeleton_of_id(text) TO assent_engine;

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
-- Of all members, not only active ones: a search for approvers records those who have left as skipped.
CREATE INDEX members_by_role ON assent.members USING gin (roles);
CREATE INDEX members_by_manager ON assent.members (org_id, manager_id) WHERE manager_id IS NOT NULL;
CREATE INDEX members_by_skeleton ON assent.members (org_id, assent.skeleton_of_id(user_id));
-- A capital I is read as l, so case is compared by itself as well: Ian and ian.
CREATE INDEX members_by_id_in_any_case ON assent.members (org_id, lower(user_id COLLATE "C"));
CREATE TRIGGER members_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.members FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('member', 'create', 'delete', 'user_id', '',
    'kind name email roles manager_id active');
SELECT assent.guard_by_org('assent.members');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.members TO assent_engine;
GRANT SELECT (org_id, user_id, kind, name, roles, manager_id, active, created_at, updated_at)
  ON assent.members TO assent_client;

-- How a member is written to. Each sets their own; who has no row is written to at once, in the language of the org.
CREATE TABLE assent.member_preferences (
  org_id      text        NOT NULL,
  user_id     text        NOT NULL,
  language    text,                             -- null: that of the org
  time_zone   text        NOT NULL,
  mails       text        NOT NULL DEFAULT 'at_once', -- of mails that ask: when they come
  digest_hour smallint    NOT NULL DEFAULT 8,   -- in the member's time zone
  links_to    text,                             -- the address at which the member decides by links in mails; null: none
  digested_on date        NOT NULL,             -- the member's day whose digest was sent, or is past
  updated_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT member_preferences_pkey PRIMARY KEY (org_id, user_id),
  CONSTRAINT preferred_language_is_a_tag CHECK (language ~ '^[a-z]{2,3}(-[A-Z]{2})?$'),
  CONSTRAINT preferred_mails_are_known CHECK (mails IN ('at_once', 'daily', 'none')),
  CONSTRAINT digest_hour_is_of_a_day CHECK (digest_hour BETWEEN 0 AND 23),
  CONSTRAINT links_go_to_an_address CHECK (length(links_to) <= 1000 AND NOT assent.is_blank(links_to))
);
CREATE INDEX preferences_of_digests ON assent.member_preferences (org_id, user_id) WHERE mails = 'daily';
-- Not by the day of the last digest, which the worker writes.
CREATE TRIGGER preferences_are_audited AFTER INSERT OR DELETE OR UPDATE OF language, time_zone, mails, digest_hour, links_to
  ON assent.member_preferences FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('preferences', 'create', 'delete', 'user_id', '',
    'language time_zone mails digest_hour links_to');
SELECT assent.guard_by_org('assent.member_preferences');
GRANT SELECT, INSERT, UPDATE (language, time_zone, mails, digest_hour, links_to, digested_on, updated_at)
  ON assent.member_preferences TO assent_engine;

CREATE TABLE assent.role_capabilities (
  org_id     text NOT NULL,
  role       text NOT NULL,
  capability text NOT NULL,
  CONSTRAINT role_capabilities_pkey PRIMARY KEY (org_id, role, capability),
  CONSTRAINT role_is_not_blank CHECK (NOT assent.is_blank(role)),
  CONSTRAINT capability_is_a_path CHECK (capability ~ '^(\*|[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)*(:\*)?)$')
);
CREATE TRIGGER roles_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.role_capabilities FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('role', 'give', 'take', 'role', '', 'capability');
SELECT assent.guard_by_org('assent.role_capabilities');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.role_capabilities TO assent_engine;
GRANT SELECT ON assent.role_capabilities TO assent_client;

-- A key inherits the partition and the expiry of the session that makes it, and is revoked with the key that made it. Only a
-- hash of it is kept, so that a stolen backup cannot be used to sign in.
CREATE TABLE assent.api_keys (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  user_id      text        NOT NULL,
  name         text        NOT NULL,
  prefix       text        NOT NULL,
  key_hash     text        NOT NULL,
  scopes       text[]      NOT NULL DEFAULT '{}',
  partition_id text,                            -- the one part of the org that its holder sees; null: all of it
  parent_id    uuid,                            -- the key that made it; null: a session by token, or an operator
  created_by   text,                            -- the member who made it, also for a service account; null: an operator
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  expires_at   timestamptz,
  revoked_at   timestamptz,
  CONSTRAINT api_keys_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT api_key_belongs_to_a_member FOREIGN KEY (org_id, user_id) REFERENCES assent.members (org_id, user_id),
  CONSTRAINT api_key_was_made_by_a_key_of_the_org FOREIGN KEY (org_id, parent_id) REFERENCES assent.api_keys (org_id, id),
  CONSTRAINT api_key_is_not_its_own_parent CHECK (parent_id <> id),
  CONSTRAINT api_key_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT api_key_is_kept_as_sha256 CHECK (key_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT api_key_hash_is_unique UNIQUE (org_id, key_hash)
);
-- Sign-in knows the key before it knows the org.
CREATE INDEX api_keys_by_hash ON assent.api_keys (key_hash) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_by_parent ON assent.api_keys (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX api_keys_by_member ON assent.api_keys (org_id, user_id) WHERE revoked_at IS NULL;
CREATE TRIGGER api_keys_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.api_keys FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('api_key', 'create', 'delete', 'id',
    'user_id prefix partition_id parent_id created_by', 'name scopes expires_at revoked_at');
SELECT assent.guard_by_org('assent.api_keys');
-- What a key may do never changes: it is revoked, and another one made.
GRANT SELECT, INSERT, UPDATE (revoked_at) ON assent.api_keys TO assent_engine;

-- The browsers in which members are signed in, by a cookie; only hashes of its token are kept. A session that an API key began has
-- the scopes and the partition of the key and ends with it; one without a key was begun by the demo. A renewal replaces the token.
CREATE TABLE assent.sessions (
  org_id        text        NOT NULL,
  id            uuid        NOT NULL,
  user_id       text        NOT NULL,
  key_id        uuid,                            -- the API key that began it; null: chosen in the demo
  token_hash    text        NOT NULL,
  previous_hash text,                            -- of the token before the last renewal, for requests that were on their way
  created_at    timestamptz NOT NULL DEFAULT assent.now(),
  renewed_at    timestamptz NOT NULL DEFAULT assent.now(),
  expires_at    timestamptz NOT NULL,            -- unless it is renewed
  ends_at       timestamptz NOT NULL,            -- for good
  revoked_at    timestamptz,
  CONSTRAINT sessions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT session_belongs_to_a_member FOREIGN KEY (org_id, user_id) REFERENCES assent.members (org_id, user_id),
  CONSTRAINT session_was_begun_by_a_key_of_the_org FOREIGN KEY (org_id, key_id) REFERENCES assent.api_keys (org_id, id),
  CONSTRAINT session_token_is_kept_as_sha256 CHECK (token_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT session_previous_token_is_kept_as_sha256 CHECK (previous_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT session_expires_by_its_end CHECK (expires_at <= ends_at),
  CONSTRAINT session_token_is_unique UNIQUE (org_id, token_hash)
);
-- A request knows the token before it knows the org.
CREATE INDEX sessions_by_token ON assent.sessions (token_hash) WHERE revoked_at IS NULL;
CREATE INDEX sessions_by_previous_token ON assent.sessions (previous_hash) WHERE revoked_at IS NULL;
CREATE INDEX sessions_by_member ON assent.sessions (org_id, user_id);
CREATE INDEX sessions_by_key ON assent.sessions (org_id, key_id) WHERE key_id IS NOT NULL;
-- Not by its renewals, which are every few minutes.
CREATE TRIGGER sessions_are_audited AFTER INSERT OR DELETE OR UPDATE OF revoked_at ON assent.sessions FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('session', 'create', 'delete', 'id', 'user_id key_id', 'revoked_at');
SELECT assent.guard_by_org('assent.sessions');
GRANT SELECT, INSERT, UPDATE (token_hash, previous_hash, renewed_at, expires_at, revoked_at), DELETE
  ON assent.sessions TO assent_engine;

-- Delegations: to_user may decide for from_user, from and until a time, for some entity types and workflows or for all.
CREATE TABLE assent.approval_delegations (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  from_user    text        NOT NULL,
  to_user      text        NOT NULL,
  starts_at    timestamptz NOT NULL,
  ends_at      timestamptz,                     -- null: until it is revoked
  entity_types text[]      NOT NULL DEFAULT '{}',
  workflows    text[]      NOT NULL DEFAULT '{}',
  reason       text,
  created_by   text        NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  revoked_at   timestamptz,
  CONSTRAINT approval_delegations_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT nobody_stands_in_for_themselves CHECK (from_user <> to_user),
  CONSTRAINT nobody_makes_themselves_a_stand_in CHECK (created_by <> to_user OR revoked_at IS NOT NULL),
  CONSTRAINT delegation_ends_after_it_starts CHECK (ends_at > starts_at)
);
CREATE INDEX delegations_by_delegate ON assent.approval_delegations (org_id, to_user) WHERE revoked_at IS NULL;
CREATE INDEX delegations_by_person ON assent.approval_delegations (org_id, from_user) WHERE revoked_at IS NULL;
CREATE TRIGGER delegations_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_delegations FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('delegation', 'create', 'delete', 'id', 'from_user to_user',
    'starts_at ends_at entity_types workflows revoked_at');
SELECT assent.guard_by_org('assent.approval_delegations');
GRANT SELECT, INSERT, UPDATE (revoked_at) ON assent.approval_delegations TO assent_engine;
GRANT SELECT ON assent.approval_delegations TO assent_client;
