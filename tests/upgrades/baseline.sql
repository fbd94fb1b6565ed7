-- file: 10_common.sql
-- What every other file uses: rights, time, the org of a transaction, row security, append-only rows, moves of statuses, ids.
--
-- Three roles. The owner runs this file, owns everything and is what workers connect as. assent_engine runs commands of
-- people: it sees the rows of one org, cannot bypass row security, and gets each right by name. assent_client is what host
-- applications and reports join: it reads what was decided and how things stand, calls five functions (emit_event, submit_task,
-- complete_task, fail_task, push_result), and inserts into one table (incoming_results). It reads no key, secret or kept reply, no queue, and no column in which a receiver's
-- credentials, an outsider's response or an unfinished draft may stand. assent.store.roles makes both roles before this
-- file runs. Each table's grants stand below the table.

REVOKE ALL ON SCHEMA assent FROM PUBLIC;
GRANT USAGE ON SCHEMA assent TO assent_engine, assent_client;

-- The time of this transaction: the server's, and no role of production moves it. The owner of a test's database replaces the
-- function by one that returns what a transaction sets (assent.store.moved_time).
CREATE FUNCTION assent.now() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now();
GRANT EXECUTE ON FUNCTION assent.now() TO assent_engine;

-- Whether a text names nothing: it is empty, or has only blanks and invisible characters. The same as is_blank of
-- assent.model.names; a test compares every code point.
CREATE FUNCTION assent.is_blank(given text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN given !~ ('[^\u0001-\u0020\u007F-\u00A0\u00AD\u034F\u0600-\u0605\u061C\u06DD\u070F\u0890-\u0891\u08E2'
    || '\u115F-\u1160\u1680\u17B4-\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F\u205F-\u206F'
    || '\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF9-\uFFFB\U000110BD\U000110CD'
    || '\U00013430-\U0001343F\U0001BCA0-\U0001BCA3\U0001D173-\U0001D17A\U000E0001'
    || '\U000E0020-\U000E007F\U000E0100-\U000E01EF]');
-- The policies of row security call this function and the next.
GRANT EXECUTE ON FUNCTION assent.is_blank(text) TO assent_engine, assent_client;

-- The org that this transaction acts for; null for none, and then row security shows nothing. A blank id is none.
CREATE FUNCTION assent.org_id() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN NOT assent.is_blank(current_setting('assent.org_id', true))
  THEN current_setting('assent.org_id', true) END;
GRANT EXECUTE ON FUNCTION assent.org_id() TO assent_engine, assent_client;

-- The role of the caller, seen from inside a SECURITY DEFINER function, where current_user is the owner.
CREATE FUNCTION assent.calling_role() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END;

-- Raises an error if the caller acts for another org. For SECURITY DEFINER functions, where row security does not apply.
CREATE FUNCTION assent.require_org(wanted text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF wanted IS DISTINCT FROM assent.org_id() AND NOT pg_has_role(assent.calling_role(), current_user, 'USAGE') THEN
    RAISE insufficient_privilege USING MESSAGE = format('this transaction acts for org %L, not for %L',
      assent.org_id(), wanted);
  END IF;
END
$$;

-- Raises an error with this code. For a statement that had no effect where it had to have one, and whose caller does not
-- wait to hear how many rows it changed.
CREATE FUNCTION assent.fail(code text, message text, detail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
END
$$;
GRANT EXECUTE ON FUNCTION assent.fail(text, text, text) TO assent_engine;

-- Shows a table's rows only to their org. Every table with org_id is guarded by it; a test walks the catalogue.
CREATE FUNCTION assent.guard_by_org(guarded regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', guarded);
  -- The sub-select makes PostgreSQL ask once a statement instead of once a row.
  EXECUTE format('CREATE POLICY rows_of_own_org ON %s '
    'USING (org_id = (SELECT assent.org_id())) WITH CHECK (org_id = (SELECT assent.org_id()))', guarded);
END
$$;

-- History is inserted, never overwritten: a trigger that refuses every UPDATE, DELETE and TRUNCATE, except a DELETE while
-- assent.door has the value of the trigger's argument.
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

-- Refuses a move of a status that status_may_move does not allow; its argument is the table, since a partition has another
-- name.
CREATE FUNCTION assent.restrict_status_regression() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status <> OLD.status AND NOT assent.status_may_move(TG_ARGV[0], OLD.status, NEW.status) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS003',
      MESSAGE = format('status of %s %s may not move from %s to %s', TG_ARGV[0], OLD.id, OLD.status, NEW.status);
  END IF;
  RETURN NEW;
END
$$;

-- Dates a claim by the database, so that no worker can forget to, and a lease has a beginning.
CREATE FUNCTION assent.date_claim() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.claimed_at := assent.now();
  RETURN NEW;
END
$$;

-- Returns an id that sorts by time (RFC 9562, version 7): the transaction's millisecond, then the microseconds since the
-- transaction began in 26 bits (67 seconds), so that entries of one transaction sort in the order of its statements.
CREATE FUNCTION assent.new_id() RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT encode(overlay(overlay(overlay(uuid_send(gen_random_uuid())
           PLACING substring(int8send(floor(extract(epoch FROM assent.now()) * 1000)::bigint) FROM 3) FROM 1 FOR 6)
           PLACING int2send((x'7000'::integer + (microseconds >> 14))::smallint) FROM 7 FOR 2)
           PLACING int2send(((microseconds & 16383) - 32768)::smallint) FROM 9 FOR 2),
         'hex')::uuid
    FROM (SELECT least(67108863, floor(extract(epoch FROM clock_timestamp() - pg_catalog.now()) * 1000000))::integer)
      AS elapsed (microseconds));
GRANT EXECUTE ON FUNCTION assent.new_id() TO assent_engine;

-- Which migrations ran: assent.store.migrate makes the table. Only the owner reads it.
ALTER TABLE assent.schema_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.schema_migrations USING (false);

-- What these files and migrations granted, each as its statement: a dump carries the table, but not the roles.
CREATE TABLE assent.schema_grants (statement text NOT NULL, CONSTRAINT schema_grants_pkey PRIMARY KEY (statement));
ALTER TABLE assent.schema_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.schema_grants USING (false);
-- file: 15_status_moves.sql
-- Which status may follow which, by table. Generated from assent.model.moves by `make baseline`; do not edit.
--
-- A function and not a table: a look-up in a table cost a trigger 5.9 µs for each row whose status moves, this 0.8.
CREATE FUNCTION assent.status_may_move(of_table text, old_status text, new_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN new_status = ANY (CASE of_table
  WHEN 'workflow_instances' THEN CASE old_status
    WHEN 'running' THEN ARRAY['cancelled', 'completed', 'failed', 'paused']
    WHEN 'paused' THEN ARRAY['cancelled', 'failed', 'running']
    ELSE '{}' END
  WHEN 'workflow_step_executions' THEN CASE old_status
    WHEN 'pending' THEN ARRAY['cancelled', 'completed', 'failed', 'running', 'skipped']
    WHEN 'running' THEN ARRAY['cancelled', 'completed', 'failed', 'skipped']
    ELSE '{}' END
  WHEN 'workflow_events_outbox' THEN CASE old_status
    WHEN 'pending' THEN ARRAY['completed', 'dead', 'failed', 'processing']
    WHEN 'processing' THEN ARRAY['completed', 'dead', 'failed', 'pending']
    WHEN 'failed' THEN ARRAY['completed', 'dead', 'pending', 'processing']
    WHEN 'dead' THEN ARRAY['completed', 'pending']
    ELSE '{}' END
  WHEN 'workflow_definitions' THEN CASE old_status
    WHEN 'draft' THEN ARRAY['archived', 'published']
    WHEN 'published' THEN ARRAY['archived']
    WHEN 'archived' THEN ARRAY['published']
    ELSE '{}' END
  WHEN 'approval_requests' THEN CASE old_status
    WHEN 'pending' THEN ARRAY['approved', 'cancelled', 'rejected', 'returned', 'void']
    WHEN 'approved' THEN ARRAY['void']
    ELSE '{}' END
  WHEN 'workflow_seats' THEN CASE old_status
    WHEN 'later' THEN ARRAY['closed', 'open']
    WHEN 'open' THEN ARRAY['closed', 'decided']
    ELSE '{}' END
  WHEN 'workflow_forms' THEN CASE old_status
    WHEN 'open' THEN ARRAY['answered', 'cancelled']
    ELSE '{}' END
  WHEN 'outside_requests' THEN CASE old_status
    WHEN 'pending' THEN ARRAY['cancelled', 'completed', 'expired', 'failed', 'partial']
    WHEN 'partial' THEN ARRAY['cancelled', 'completed', 'expired', 'failed']
    ELSE '{}' END
  WHEN 'document_requirements' THEN CASE old_status
    WHEN 'missing' THEN ARRAY['received', 'requested', 'waived']
    WHEN 'requested' THEN ARRAY['missing', 'received', 'waived']
    WHEN 'received' THEN ARRAY['in_qa', 'missing', 'waived']
    WHEN 'in_qa' THEN ARRAY['missing', 'rejected', 'verified', 'waived']
    WHEN 'verified' THEN ARRAY['expired', 'missing', 'waived']
    WHEN 'rejected' THEN ARRAY['missing', 'received', 'requested', 'waived']
    WHEN 'expired' THEN ARRAY['missing', 'received', 'requested', 'waived']
    WHEN 'waived' THEN ARRAY['missing']
    ELSE '{}' END
  WHEN 'document_versions' THEN CASE old_status
    WHEN 'pending' THEN ARRAY['in_qa', 'rejected', 'verified']
    WHEN 'in_qa' THEN ARRAY['rejected', 'verified']
    ELSE '{}' END
  WHEN 'blobs' THEN CASE old_status
    WHEN 'uploading' THEN ARRAY['deleting', 'kept']
    WHEN 'kept' THEN ARRAY['deleting']
    WHEN 'deleting' THEN ARRAY['deleted']
    ELSE '{}' END
  WHEN 'jobs' THEN CASE old_status
    WHEN 'queued' THEN ARRAY['cancelled', 'done', 'running']
    WHEN 'running' THEN ARRAY['background', 'blocked', 'cancelled', 'dead', 'done', 'queued', 'retrying']
    WHEN 'blocked' THEN ARRAY['cancelled', 'dead', 'queued']
    WHEN 'background' THEN ARRAY['cancelled', 'dead', 'done', 'queued', 'retrying']
    WHEN 'retrying' THEN ARRAY['cancelled', 'dead', 'done', 'queued', 'running']
    WHEN 'dead' THEN ARRAY['queued']
    ELSE '{}' END
  ELSE '{}'::text[] END);
-- Triggers run as the role that writes, and call it.
GRANT EXECUTE ON FUNCTION assent.status_may_move(text, text, text) TO assent_engine;
-- file: 20_audit.sql
-- The audit log: everything that people do. Changes of entities; commands to workflows, also refused ones; and changes of
-- members, roles, keys, sources, settings, rules, definitions, delegations and chains.
--
-- A row is about a version of an entity, and then write_entities wrote it; or about a subject, and then it was note_commands
-- (workflows), note_refusals or note_administration. assent_engine has no DML on the table, and no function that writes one
-- kind of row for another.

CREATE TABLE assent.audit_log (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  at                timestamptz NOT NULL,       -- when
  actor_id          text        NOT NULL,       -- who
  actor_kind        text        NOT NULL,
  actor_roles       text[]      NOT NULL,
  action            text        NOT NULL,       -- what
  entity_type       text,
  entity_id         uuid,
  from_version      integer,                    -- which version …
  to_version        integer,                    -- … to which
  from_state        text,
  to_state          text,
  subject_kind      text,                       -- instance, event, member, role, …
  subject_id        text,
  details           jsonb,                      -- the input of a command, or what identifies the subject
  changes           jsonb       NOT NULL,       -- field → [before, after]
  place             text,                       -- where: an address, a host
  reason            text,                       -- why
  channel           text        NOT NULL,       -- how: python, http, cli, workflow …
  instance_id       uuid,
  trace_id          text,
  on_behalf_of      text[],                     -- the people that the actor acted for; null: only themselves
  contributors      text[]      NOT NULL DEFAULT '{}', -- the people who contributed the content of this version
  database_role     text        NOT NULL DEFAULT session_user,
  CONSTRAINT audit_log_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT audited_actor_kind_is_known CHECK (actor_kind IN ('user', 'service_account', 'system')),
  CONSTRAINT audited_is_a_version_or_a_subject CHECK (
    CASE WHEN subject_kind IS NULL
         THEN subject_id IS NULL AND details IS NULL AND entity_id IS NOT NULL
              AND to_version IS NOT NULL AND to_state IS NOT NULL
         ELSE subject_id IS NOT NULL AND from_version IS NULL AND to_version IS NULL
              AND from_state IS NULL AND to_state IS NULL END),
  CONSTRAINT audited_entity_has_its_type_or_there_is_none CHECK ((entity_type IS NULL) = (entity_id IS NULL))
);
CREATE INDEX audit_log_by_entity ON assent.audit_log (org_id, entity_id, id);
CREATE INDEX audit_log_by_actor ON assent.audit_log (org_id, actor_id, id);
-- Most actions are rare among those of every day: without this a page of one reads the org's whole log.
CREATE INDEX audit_log_by_action ON assent.audit_log (org_id, action, id);
CREATE INDEX audit_log_by_subject ON assent.audit_log (org_id, subject_id, id) WHERE subject_id IS NOT NULL;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON assent.audit_log
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON assent.audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- An entry is dated by the database, and says with which role its writer signed in: the engine says who acted, and this
-- separates entries of our processes from those of another program that got hold of its role.
CREATE FUNCTION assent.date_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.at := assent.now();
  NEW.database_role := session_user;
  RETURN NEW;
END
$$;
CREATE TRIGGER audit_is_dated_by_the_database BEFORE INSERT ON assent.audit_log
  FOR EACH ROW EXECUTE FUNCTION assent.date_audit();

SELECT assent.guard_by_org('assent.audit_log');
GRANT SELECT ON assent.audit_log TO assent_engine, assent_client;

-- Writes commands that were accepted, each one row, in their own transaction.
CREATE FUNCTION assent.note_commands(commands jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT c ->> 'org_id' FROM jsonb_array_elements(commands) c) AS asked (org);
  PERFORM FROM jsonb_array_elements(commands) c
    WHERE coalesce(c ->> 'subject_kind' NOT IN ('instance', 'event', 'effect', 'result', 'task', 'document', 'requirement',
                                                'attachment', 'comment', 'question', 'verb'), true);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = 'commands are to instances, events, effects, results, tasks, documents, requirements, attachments, comments and questions',
      HINT = 'What is administered is noted by the database itself.';
  END IF;
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         entity_type, entity_id, changes, place, reason, channel, instance_id, trace_id, on_behalf_of)
  SELECT org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         entity_type, entity_id, '{}', place, reason, channel, instance_id, trace_id, on_behalf_of
    FROM jsonb_to_recordset(commands) AS c (
      org_id text, id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], action text,
      subject_kind text, subject_id text, details jsonb, entity_type text, entity_id uuid, place text, reason text,
      channel text, instance_id uuid, trace_id text, on_behalf_of text[]);
END
$$;
GRANT EXECUTE ON FUNCTION assent.note_commands(jsonb) TO assent_engine;

-- Writes commands that were refused, of people who were signed in: who tried what, from where, and the code of the refusal.
-- Nothing of what was sent is kept. Time and id are the database's own, so that nothing is backdated.
CREATE FUNCTION assent.note_refusals(refusals jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT r ->> 'org_id' FROM jsonb_array_elements(refusals) r) AS asked (org);
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         changes, place, reason, channel, trace_id)
  SELECT org_id, assent.new_id(), assent.now(), actor_id, actor_kind, actor_roles, 'command.refused', 'command', command,
         jsonb_build_object('code', code, 'path', path), '{}', place, reason, channel, trace_id
    FROM jsonb_to_recordset(refusals) AS r (
      org_id text, actor_id text, actor_kind text, actor_roles text[], command text, code text, path text, place text,
      reason text, channel text, trace_id text);
END
$$;
GRANT EXECUTE ON FUNCTION assent.note_refusals(jsonb) TO assent_engine;

-- Writes a change of a row that people administer. Its arguments: kind of subject, what an INSERT and a DELETE of it are
-- called, the column that names it, columns that identify it further, columns that are shown before and after. Nothing else
-- of the row is shown, so that a secret stays one. The actor is in assent.acting, which a transaction's first statement sets;
-- where it is not set the actor is the system, and the role that signed in is noted.
CREATE FUNCTION assent.note_administration() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting  jsonb := coalesce(nullif(current_setting('assent.acting', true), '')::jsonb, '{}');
  before  jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'updated_at' END;
  after   jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'updated_at' END;
  subject jsonb := coalesce(after, before);
  changed jsonb;
  details jsonb;
  verb    text;
BEGIN
  IF before = after THEN
    RETURN NULL;
  END IF;
  SELECT coalesce(jsonb_object_agg(name, jsonb_build_array(before -> name, after -> name)), '{}') INTO changed
    FROM string_to_table(TG_ARGV[5], ' ') AS name
   WHERE coalesce(before -> name, 'null') <> coalesce(after -> name, 'null');
  SELECT jsonb_object_agg(name, subject -> name) INTO details FROM string_to_table(TG_ARGV[4], ' ') AS name;
  verb := CASE
    WHEN TG_OP = 'DELETE' THEN TG_ARGV[2]
    WHEN changed -> 'status' ->> 1 = 'published' THEN 'publish'
    WHEN TG_OP = 'INSERT' THEN TG_ARGV[1]
    WHEN changed -> 'status' ->> 1 = 'archived' THEN 'archive'
    WHEN changed -> 'active' = '[true, false]' THEN 'deactivate'
    WHEN changed -> 'revoked_at' -> 0 = 'null' THEN 'revoke'
    ELSE 'change' END;
  IF acting = '{}' THEN
    details := coalesce(details, '{}') || jsonb_build_object('database_role', session_user);
  END IF;
  INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, subject_kind, subject_id, details,
         changes, place, reason, channel, trace_id)
  VALUES (subject ->> 'org_id', assent.new_id(), assent.now(), coalesce(acting ->> 'actor_id', 'system'),
          coalesce(acting ->> 'actor_kind', 'system'),
          ARRAY(SELECT jsonb_array_elements_text(coalesce(acting -> 'actor_roles', '[]'))),
          TG_ARGV[0] || '.' || verb, TG_ARGV[0], subject ->> TG_ARGV[3], details, changed, acting ->> 'place',
          coalesce(acting ->> 'reason', subject ->> 'reason'), coalesce(acting ->> 'channel', 'sql'), acting ->> 'trace_id');
  RETURN NULL;
END
$$;
-- file: 30_people.sql
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
-- file: 40_definitions.sql
-- Definitions: envelopes that are generated from contracts, an org's patches, the workflows compiled from both, and flows;
-- and an org's rules around actions.

CREATE TABLE assent.workflow_definitions (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  definition_kind   text        NOT NULL,
  key               text        NOT NULL,       -- the entity type, or the flow's id
  version           integer     NOT NULL DEFAULT 1,
  entity_type       text,
  name              text        NOT NULL,
  status            text        NOT NULL DEFAULT 'draft',
  is_default        boolean     NOT NULL DEFAULT false,
  nodes_json        jsonb,
  edges_json        jsonb,
  slots_json        jsonb,
  base_ref          jsonb,
  body_patches_json jsonb,
  source_json       jsonb,                      -- a flow as its author wrote it
  compiled_json     jsonb,
  compiled_hash     text,
  compiler_version  text,
  walls             jsonb,                      -- what the database checks by itself: see walls_of
  created_by        text,
  edited_by         text[]      NOT NULL DEFAULT '{}', -- all who wrote a draft's text: user:ann, service_account:robot
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  updated_at        timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_definitions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT definition_version_is_unique UNIQUE (org_id, definition_kind, key, version),
  CONSTRAINT definition_version_counts_from_one CHECK (version >= 1),
  CONSTRAINT definition_status_is_known CHECK (status IN ('draft', 'published', 'archived')),
  CONSTRAINT definition_kind_is_known CHECK (definition_kind IN ('envelope', 'org_patch', 'effective', 'flow')),
  CONSTRAINT envelope_is_a_whole_shared_graph CHECK (definition_kind <> 'envelope' OR (
    org_id = '*' AND is_default AND entity_type IS NOT NULL AND nodes_json IS NOT NULL AND edges_json IS NOT NULL
    AND slots_json IS NOT NULL AND body_patches_json IS NULL AND base_ref IS NULL)),
  CONSTRAINT org_patch_is_patches_on_a_base CHECK (definition_kind <> 'org_patch' OR (
    NOT is_default AND entity_type IS NOT NULL AND body_patches_json IS NOT NULL AND base_ref IS NOT NULL
    AND nodes_json IS NULL AND edges_json IS NULL AND slots_json IS NULL)),
  CONSTRAINT effective_is_compiled CHECK (definition_kind <> 'effective' OR (
    NOT is_default AND entity_type IS NOT NULL AND nodes_json IS NOT NULL AND edges_json IS NOT NULL
    AND compiled_json IS NOT NULL AND compiled_hash IS NOT NULL AND compiler_version IS NOT NULL)),
  CONSTRAINT flow_is_a_source CHECK (definition_kind <> 'flow' OR (
    NOT is_default AND source_json IS NOT NULL AND body_patches_json IS NULL AND base_ref IS NULL)),
  CONSTRAINT published_flow_is_compiled CHECK (definition_kind <> 'flow' OR status <> 'published' OR (
    compiled_json IS NOT NULL AND compiled_hash IS NOT NULL AND compiler_version IS NOT NULL))
);
-- What an org starts now is one row; publishing archives the one before in the same transaction.
CREATE UNIQUE INDEX one_published_version_per_key ON assent.workflow_definitions (org_id, definition_kind, key)
  WHERE status = 'published' AND definition_kind <> 'envelope';
CREATE INDEX definitions_by_entity_type ON assent.workflow_definitions (org_id, entity_type, status);
CREATE TRIGGER definitions_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_definitions FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('definition', 'create', 'discard', 'id', 'definition_kind key version',
    'name status compiled_hash');
CREATE TRIGGER definition_status_moves_forward BEFORE UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_definitions');

SELECT assent.guard_by_org('assent.workflow_definitions');
CREATE POLICY definitions_of_all_orgs_are_readable ON assent.workflow_definitions FOR SELECT USING (org_id = '*');
-- What holds for all orgs is the owner's to publish, whatever org a transaction of the engine's role says that it acts for.
CREATE POLICY definitions_of_all_orgs_are_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR INSERT
  WITH CHECK (org_id <> '*');
CREATE POLICY definitions_of_all_orgs_stay_the_owners ON assent.workflow_definitions AS RESTRICTIVE FOR UPDATE
  USING (org_id <> '*') WITH CHECK (org_id <> '*');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_definitions TO assent_engine;
GRANT SELECT (org_id, id, definition_kind, key, version, entity_type, name, status, is_default, compiled_hash,
              compiler_version, created_by, created_at, updated_at) ON assent.workflow_definitions TO assent_client;

-- WF-04: what was published stays as it was, also when it is archived or comes back; only its status moves.
CREATE FUNCTION assent.reject_published_definition_mutation() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  movable CONSTANT text[] := ARRAY['status', 'updated_at'];
BEGIN
  IF OLD.status = 'draft' THEN
    RETURN coalesce(NEW, OLD);
  END IF;
  IF TG_OP = 'DELETE' OR to_jsonb(NEW) - movable IS DISTINCT FROM to_jsonb(OLD) - movable THEN
    RAISE EXCEPTION USING ERRCODE = 'AS004',
      MESSAGE = format('definition %s version %s is %s and cannot change', OLD.key, OLD.version, OLD.status),
      HINT = 'Publish a new version instead.';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER published_definitions_do_not_change BEFORE UPDATE OR DELETE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_published_definition_mutation();

-- An envelope is generated from its contract, and never edited.
CREATE FUNCTION assent.reject_default_definition_mutation() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.is_default THEN
    RAISE EXCEPTION USING ERRCODE = 'AS005',
      MESSAGE = format('definition %s version %s is a generated envelope and cannot change', OLD.key, OLD.version),
      HINT = 'Give the contract a new version; its envelope is generated from it.';
  END IF;
  RETURN coalesce(NEW, OLD);
END
$$;
CREATE TRIGGER default_definitions_do_not_change BEFORE UPDATE OR DELETE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_default_definition_mutation();

-- What the database itself knows of a contract, read from its published envelope: which fields only the workflow writes, the
-- window of each state, the state in which an entity begins, and the ways between states with those that take an approval.
-- And of an org's definition: to which version of the contract it is bound, and which of its steps waive the approval.
-- The trigger below keeps it beside the definition, and no caller can write it, so that checks read a short value instead of
-- a whole graph.
CREATE FUNCTION assent.walls_of(definition assent.workflow_definitions) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
RETURN CASE definition.definition_kind
  WHEN 'envelope' THEN jsonb_build_object(
    'initial', definition.source_json #> '{contract,lifecycle,initial}',
    'windows', (
      SELECT coalesce(jsonb_object_agg(s.state ->> 'key', s.state #> '{value,edit}'), '{}')
        FROM jsonb_path_query(definition.source_json, '$.contract.lifecycle.states.keyvalue()') AS s (state)),
    'system', (
      SELECT coalesce(jsonb_agg(f.field -> 'key'), '[]')
        FROM jsonb_path_query(definition.source_json, '$.contract.fields.keyvalue() ? (@.value.system == true)') AS f (field)),
    'ways', (
      WITH gate AS (
        SELECT g.node ->> 'id' AS id, g.node #>> '{config,to}' AS target, left_from #>> '{}' AS source,
               coalesce(g.node #> '{config,approval}', 'false') AS approval
          FROM jsonb_path_query(definition.nodes_json, '$[*] ? (@.kind == "lifecycle_gate")') AS g (node)
         CROSS JOIN LATERAL jsonb_path_query(g.node, '$.config.from[*]') AS left_from)
      SELECT coalesce(jsonb_agg(DISTINCT way), '[]') FROM (
        SELECT jsonb_build_object('from', source, 'to', target, 'approval', approval) FROM gate
        UNION ALL -- a rejection takes no approval
        SELECT jsonb_build_object('from', gate.source, 'to', s.node #> '{config,state}', 'approval', false)
          FROM gate
          JOIN jsonb_path_query(definition.edges_json, '$[*] ? (@.label == "rejected")') AS e (edge)
            ON e.edge ->> 'source' = gate.id
          JOIN jsonb_path_query(definition.nodes_json, '$[*] ? (@.kind == "state")') AS s (node)
            ON s.node ->> 'id' = e.edge ->> 'target') AS ways (way)))
  WHEN 'effective' THEN jsonb_build_object(
    'envelope_version', definition.compiled_json -> 'envelope_version',
    'waives', jsonb_path_query_array(definition.compiled_json, '$.nodes[*] ? (@.waives_approval == true).id'))
END;

CREATE FUNCTION assent.read_walls() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.walls := assent.walls_of(NEW);
  RETURN NEW;
END
$$;
CREATE TRIGGER definitions_say_their_walls BEFORE INSERT OR UPDATE ON assent.workflow_definitions
  FOR EACH ROW EXECUTE FUNCTION assent.read_walls();

-- The walls of an entity type at a version of its contract; of the newest where that one was never published, and null
-- where none was: then there is no workflow, and nothing to approve.
CREATE FUNCTION assent.contract_walls(of_type text, at_version integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT d.walls FROM assent.workflow_definitions d
         WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = of_type
         ORDER BY d.version = at_version DESC, d.version DESC LIMIT 1);

-- An org's own rules around actions, and the record that each evaluation leaves.

CREATE TABLE assent.workflow_rules (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  name         text        NOT NULL,
  entity_type  text        NOT NULL,
  action       text        NOT NULL,            -- an action's name, or * for all
  timing       text        NOT NULL,
  condition    jsonb       NOT NULL,            -- a text is an expression, an object its JSON form
  outcome      text        NOT NULL,
  outcome_json jsonb       NOT NULL,            -- deny: message; set: field → expression; emit: key, payload
  priority     integer     NOT NULL DEFAULT 100,
  enabled      boolean     NOT NULL DEFAULT true,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  updated_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_rules_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT rule_name_is_unique UNIQUE (org_id, entity_type, name),
  CONSTRAINT rule_timing_is_known CHECK (timing IN ('before', 'after')),
  CONSTRAINT rule_outcome_is_known CHECK (outcome IN ('deny', 'set', 'emit')),
  CONSTRAINT rule_condition_is_text_or_object CHECK (jsonb_typeof(condition) IN ('string', 'object')),
  CONSTRAINT rule_outcome_is_an_object CHECK (jsonb_typeof(outcome_json) = 'object')
);
CREATE TRIGGER rules_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.workflow_rules FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('rule', 'create', 'delete', 'id', 'entity_type name',
    'action timing condition outcome outcome_json priority enabled');
SELECT assent.guard_by_org('assent.workflow_rules');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.workflow_rules TO assent_engine;
GRANT SELECT ON assent.workflow_rules TO assent_client;

CREATE TABLE assent.workflow_rule_evaluations (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  rule_id        uuid        NOT NULL,
  rule_name      text        NOT NULL,
  timing         text        NOT NULL,
  action         text        NOT NULL,
  entity_type    text        NOT NULL,
  entity_id      uuid        NOT NULL,
  entity_version integer     NOT NULL,          -- the version that was asked about; 0 before there is one
  expression     text        NOT NULL,
  variables      jsonb       NOT NULL,
  result         boolean     NOT NULL,
  outcome        text,                          -- what the rule did; null when its condition was false
  actor_id       text        NOT NULL,
  trace_id       text,
  at             timestamptz NOT NULL,
  CONSTRAINT workflow_rule_evaluations_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT evaluated_outcome_goes_with_result CHECK (result = (outcome IS NOT NULL))
);
CREATE INDEX rule_evaluations_by_entity ON assent.workflow_rule_evaluations (org_id, entity_id, id);
CREATE INDEX rule_evaluations_by_rule ON assent.workflow_rule_evaluations (org_id, entity_type, rule_name, id);
CREATE TRIGGER rule_evaluations_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_rule_evaluations
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER rule_evaluations_are_never_emptied BEFORE TRUNCATE ON assent.workflow_rule_evaluations
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_rule_evaluations');
GRANT SELECT, INSERT ON assent.workflow_rule_evaluations TO assent_engine;
GRANT SELECT ON assent.workflow_rule_evaluations TO assent_client;
-- file: 50_entities.sql
-- Entities and their versions, and the only functions that write them.
--
-- `entities` holds only what changes and is small: state, version, window. Content is in `entity_versions`, which is only
-- inserted into; data_hash ties the two together and lets a trigger see an edit without reading content. assent_engine has
-- no DML on either. It calls write_entities, which writes head, version and audit row of each entity, or nothing.
--
-- content_hash is of what people wrote, without the fields that only the workflow writes: what an approver approves. A
-- request is pinned to a version and holds for its content, so the workflow's own notes do not void it and every
-- other edit does, in the transaction of the edit.

CREATE TABLE assent.entities (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  entity_type         text        NOT NULL,
  contract_version    integer     NOT NULL,
  partition_id        text,
  state               text        NOT NULL,
  version             integer     NOT NULL,
  data_hash           text        NOT NULL,
  content_hash        text        NOT NULL,
  edit_window         text        NOT NULL,
  instance_id         uuid,       -- the instance that runs for it, or is to come
  written_by_instance uuid,       -- set when the version is that instance's own write
  amended_from_id     uuid,
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  CONSTRAINT entities_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT entity_version_counts_from_one CHECK (version >= 1),
  CONSTRAINT edit_window_is_known CHECK (edit_window IN ('editable', 'amend_only', 'locked')),
  CONSTRAINT amendment_is_of_an_entity FOREIGN KEY (org_id, amended_from_id) REFERENCES assent.entities (org_id, id)
) WITH (fillfactor = 80); -- room for versions and windows to be updated in place
-- Lists go by the time of creation; a condition on one value narrows them down without changing that order. No column of
-- them but the state and the time of the change ever changes.
CREATE INDEX entities_by_created ON assent.entities (org_id, entity_type, created_at, id);
CREATE INDEX entities_by_state ON assent.entities (org_id, entity_type, state, created_at, id);
CREATE INDEX entities_by_partition ON assent.entities (org_id, entity_type, partition_id, created_at, id)
  WHERE partition_id IS NOT NULL;
CREATE INDEX entities_by_updated ON assent.entities (org_id, entity_type, updated_at, id);
CREATE INDEX entities_by_amended ON assent.entities (org_id, amended_from_id) WHERE amended_from_id IS NOT NULL;
SELECT assent.guard_by_org('assent.entities');
GRANT SELECT ON assent.entities TO assent_engine, assent_client;

CREATE TABLE assent.entity_versions (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  entity_id   uuid        NOT NULL,
  version     integer     NOT NULL,
  entity_type text        NOT NULL,
  state       text        NOT NULL,
  data        jsonb       NOT NULL,
  data_hash   text        NOT NULL,
  created_at  timestamptz NOT NULL,
  created_by  text        NOT NULL,
  CONSTRAINT entity_versions_pkey PRIMARY KEY (org_id, entity_id, version),
  CONSTRAINT entity_version_id_is_unique UNIQUE (org_id, id),
  CONSTRAINT version_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
);
CREATE TRIGGER versions_are_append_only BEFORE UPDATE OR DELETE ON assent.entity_versions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER versions_are_never_emptied BEFORE TRUNCATE ON assent.entity_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
-- The first version is its creator's.
CREATE INDEX entities_by_creator ON assent.entity_versions (org_id, entity_type, created_by, created_at, entity_id)
  WHERE version = 1;
SELECT assent.guard_by_org('assent.entity_versions');
GRANT SELECT ON assent.entity_versions TO assent_engine, assent_client;

-- Values of fields that the contract declares unique, one row each: two transactions that write the same value meet here.
-- Hashes, because an index holds no long text. Only write_entities writes it. An amendment takes the values of its original.
CREATE TABLE assent.unique_values (
  org_id      text  NOT NULL,
  entity_type text  NOT NULL,
  field       text  NOT NULL,
  value_hash  bytea NOT NULL,
  entity_id   uuid  NOT NULL,
  CONSTRAINT value_is_unique PRIMARY KEY (org_id, entity_type, field, value_hash),
  CONSTRAINT unique_value_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
);
CREATE INDEX unique_values_by_entity ON assent.unique_values (org_id, entity_id);
SELECT assent.guard_by_org('assent.unique_values');

-- The indexes of an entity type, as its newest published contract declares them, for all orgs (`*`). Writers are refused, and
-- try again, if the stamp is not the one that they know. `ready` are the fields whose values are there for every entity; a
-- worker builds the others. It begins when every transaction has ended that could have written without knowing of them:
-- `barrier` is the first transaction id that could not.
CREATE TABLE assent.entity_indexes (
  org_id           text        NOT NULL,
  entity_type      text        NOT NULL,
  contract_version integer     NOT NULL,
  stamp            bigint      NOT NULL,
  fields           jsonb       NOT NULL,   -- field → type
  searched         text[]      NOT NULL,
  ready            text[]      NOT NULL,   -- fields, and * for the words
  built            boolean     NOT NULL,
  barrier          xid8,
  at_org           text,                   -- how far the worker has come
  at_id            uuid,
  done             bigint      NOT NULL DEFAULT 0,
  total            bigint,                 -- entities of the type when it began
  changed_at       timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT entity_indexes_pkey PRIMARY KEY (org_id, entity_type),
  CONSTRAINT indexes_are_of_all_orgs CHECK (org_id = '*')
);
SELECT assent.guard_by_org('assent.entity_indexes');
CREATE POLICY indexes_of_all_orgs_are_readable ON assent.entity_indexes FOR SELECT USING (org_id = '*');
GRANT SELECT ON assent.entity_indexes TO assent_engine;

-- Values of indexed fields as texts that sort as the values do, one row each and the empty text for none; and the words of
-- searched fields, under the field `*`. Only write_entities and the worker that builds an index write it. No foreign key:
-- entities are never deleted, and its check would cost as much as the row.
CREATE TABLE assent.indexed_values (
  org_id      text        NOT NULL,
  entity_type text        NOT NULL,
  field       text        NOT NULL,
  value       text        NOT NULL COLLATE "C",
  created_at  timestamptz NOT NULL,        -- of the entity: lists of one value go by it
  entity_id   uuid        NOT NULL,
  CONSTRAINT indexed_values_pkey PRIMARY KEY (org_id, entity_type, field, value, created_at, entity_id)
);
CREATE INDEX indexed_values_by_entity ON assent.indexed_values (org_id, entity_id, field, value);
SELECT assent.guard_by_org('assent.indexed_values');
GRANT SELECT ON assent.indexed_values TO assent_engine;

-- Replaces the indexed values of entities: `indexed` is field → texts, of the fields that are to be replaced.
CREATE FUNCTION assent.replace_indexed_values(changes jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM assent.indexed_values v
   USING jsonb_to_recordset(changes) AS c (org_id text, entity_id uuid, indexed jsonb)
   WHERE v.org_id = c.org_id AND v.entity_id = c.entity_id AND c.indexed ? v.field AND NOT c.indexed -> v.field ? v.value;
  INSERT INTO assent.indexed_values (org_id, entity_type, field, value, created_at, entity_id)
  SELECT c.org_id, e.entity_type, f.key, t.value, e.created_at, c.entity_id
    FROM jsonb_to_recordset(changes) AS c (org_id text, entity_id uuid, indexed jsonb)
    JOIN assent.entities e ON e.org_id = c.org_id AND e.id = c.entity_id
   CROSS JOIN LATERAL jsonb_each(c.indexed) f
   CROSS JOIN LATERAL jsonb_array_elements_text(f.value) t
  ON CONFLICT DO NOTHING;
END
$$;

-- The last number that each series has given out; a period, such as a year, begins at one. Only draw_numbers writes it. The
-- row stays locked until the transaction ends: a number that is not committed is the next one's, so there are no gaps.
CREATE TABLE assent.number_series (
  org_id      text   NOT NULL,
  entity_type text   NOT NULL,
  field       text   NOT NULL,
  period      text   NOT NULL,                  -- 2026-11, 2026, or empty
  last_number bigint NOT NULL,
  CONSTRAINT number_series_pkey PRIMARY KEY (org_id, entity_type, field, period),
  CONSTRAINT numbers_count_from_one CHECK (last_number >= 1)
);
SELECT assent.guard_by_org('assent.number_series');

-- What people mean by "the entity": its head, with the content of its current version.
CREATE VIEW assent.current_entities WITH (security_invoker = true) AS
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash,
       e.content_hash
  FROM assent.entities e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version;
GRANT SELECT ON assent.current_entities TO assent_engine, assent_client;

-- Refuses writes that do not come through write_entities or set_edit_windows, also the owner's plain SQL. These two allow
-- themselves by assent.door; nothing allows DELETE or TRUNCATE.
CREATE FUNCTION assent.require_entity_door() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP IN ('DELETE', 'TRUNCATE')
     OR coalesce(current_setting('assent.door', true), '') NOT IN ('mutate', 'advance') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('%s of %s did not come through mutate', TG_OP, TG_TABLE_NAME),
      HINT = 'Change entities with kernel.mutate; it keeps versions, audit and workflows in step.';
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER entities_change_only_in_mutate
  BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON assent.entities
  FOR EACH STATEMENT EXECUTE FUNCTION assent.require_entity_door();
CREATE TRIGGER versions_are_made_only_in_mutate BEFORE INSERT ON assent.entity_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.require_entity_door();

-- What a write may do to an entity's row. Reads the window that the row has under its lock. A window moves without the
-- content that is approved, too.
CREATE FUNCTION assent.guard_entity_row() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.entity_type, NEW.partition_id, NEW.amended_from_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.entity_type, OLD.partition_id, OLD.amended_from_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('entity %s keeps its identity', OLD.id);
  END IF;
  IF NEW.contract_version <> OLD.contract_version AND EXISTS (
       SELECT FROM assent.workflow_definitions d
        WHERE d.org_id = '*' AND d.definition_kind = 'envelope' AND d.key = OLD.entity_type
          AND d.version = OLD.contract_version) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('entity %s lives by version %s of its contract, not by %s', OLD.id, OLD.contract_version,
                       NEW.contract_version);
  END IF;
  IF current_setting('assent.door', true) = 'advance' THEN
    IF (NEW.version, NEW.state, NEW.data_hash, NEW.content_hash)
       IS DISTINCT FROM (OLD.version, OLD.state, OLD.data_hash, OLD.content_hash) THEN
      RAISE EXCEPTION USING ERRCODE = 'AS002',
        MESSAGE = format('the window of entity %s moves without its content', OLD.id);
    END IF;
    RETURN NEW;
  END IF;
  IF NEW.version <> OLD.version + 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'AS008',
      MESSAGE = format('entity %s is at version %s and cannot go to %s', OLD.id, OLD.version, NEW.version);
  END IF;
  IF NEW.data_hash <> OLD.data_hash AND OLD.edit_window = 'locked' AND NOT EXISTS (
       SELECT FROM assent.workflow_instances i
        WHERE i.org_id = OLD.org_id AND i.id = NEW.written_by_instance AND i.entity_id = OLD.id
          AND i.status = 'running') THEN
    RAISE EXCEPTION USING ERRCODE = 'AS007',
      MESSAGE = format('entity %s is locked: its content cannot be edited', OLD.id),
      HINT = 'Amend it: the amendment is a new entity that refers to this one.';
  END IF;
  IF NEW.edit_window <> OLD.edit_window AND (NEW.state = OLD.state OR OLD.instance_id IS NOT NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('the window of entity %s moves only with its state, or with its instance', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER entity_rows_are_guarded BEFORE UPDATE ON assent.entities
  FOR EACH ROW EXECUTE FUNCTION assent.guard_entity_row();

-- What people wrote in a version of an entity: its data without the fields that only the workflow writes.
CREATE FUNCTION assent.content_of(of_org text, of_entity uuid, in_version integer, of_type text, by_contract integer)
RETURNS jsonb LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT v.data - ARRAY(SELECT jsonb_array_elements_text(assent.contract_walls(of_type, by_contract) -> 'system'))
          FROM assent.entity_versions v
         WHERE v.org_id = of_org AND v.entity_id = of_entity AND v.version = in_version
           AND assent.contract_walls(of_type, by_contract) IS NOT NULL);

-- Approvals hold for a content hash, so another content must not come under the hash of the one before. The hash itself is
-- made in Python, of a canonical text that jsonb does not have (numbers keep their scale there): the database compares the
-- contents instead, which is the promise that the hash stands for. Only where the data changed and the hash did not is there
-- anything to compare: the workflow's own notes. The other way round, another hash for the same content, only voids approvals.
CREATE FUNCTION assent.guard_changed_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong uuid;
BEGIN
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.data_hash <> o.data_hash AND n.content_hash = o.content_hash
     AND assent.content_of(n.org_id, n.id, n.version, n.entity_type, n.contract_version)
         <> assent.content_of(n.org_id, n.id, o.version, n.entity_type, n.contract_version)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('entity %s has other content under the content hash of the version before', wrong);
  END IF;
  -- A window follows the tokens of the instance, and no token stands where edits are freer than the contract says of the
  -- entity's state.
  SELECT n.id INTO wrong FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
   WHERE n.version = o.version AND n.edit_window <> o.edit_window
     AND array_position('{editable,amend_only,locked}'::text[], n.edit_window)
         < array_position('{editable,amend_only,locked}'::text[], assent.contract_walls(n.entity_type, (
             SELECT (d.walls ->> 'envelope_version')::integer
               FROM assent.workflow_instances i
               JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
              WHERE i.org_id = n.org_id AND i.id = coalesce(n.instance_id, o.instance_id))) -> 'windows' ->> n.state)
   LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002', MESSAGE = format('the window of entity %s would be looser than its state', wrong);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER changed_entities_are_guarded AFTER UPDATE ON assent.entities
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_changed_entities();

CREATE FUNCTION assent.guard_new_entities() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  wrong record;
BEGIN
  SELECT born.entity_type, born.state, walls.initial INTO wrong
    FROM (SELECT DISTINCT n.entity_type, n.contract_version, n.state FROM new_rows n) AS born
   CROSS JOIN LATERAL (SELECT assent.contract_walls(born.entity_type, born.contract_version) ->> 'initial') AS walls (initial)
   WHERE walls.initial <> born.state LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s begins as %s, not as %s', wrong.entity_type, wrong.initial, wrong.state);
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER new_entities_begin_at_the_beginning AFTER INSERT ON assent.entities
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.guard_new_entities();

-- A state is reached by a way of the contract that the entity's instance is bound to, through that instance; and where every
-- such way takes an approval, one of this entity and instance is consumed in the same transaction and none of its round is
-- still open, or a step that waives it has been completed in the same generation. Checked at the commit: the instance, its
-- steps and its requests are written after the entity.
CREATE FUNCTION assent.guard_gate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  pinned jsonb;
  takes_approval boolean;
BEGIN
  SELECT d.walls INTO pinned
    FROM assent.workflow_instances i
    JOIN assent.workflow_definitions d ON d.org_id IN (i.org_id, '*') AND d.id = i.definition_id
   WHERE i.org_id = NEW.org_id AND i.id = NEW.written_by_instance AND i.entity_id = NEW.id;
  IF pinned IS NULL THEN
    IF assent.contract_walls(NEW.entity_type, NEW.contract_version) IS NULL THEN
      RETURN NULL; -- a type without a workflow
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('%s %s moves from %s to %s only by its workflow', NEW.entity_type, NEW.id, OLD.state, NEW.state);
  END IF;

  SELECT bool_and((way -> 'approval')::boolean) INTO takes_approval
    FROM jsonb_array_elements(
           assent.contract_walls(NEW.entity_type, (pinned ->> 'envelope_version')::integer) -> 'ways') AS way
   WHERE way ->> 'from' = OLD.state AND way ->> 'to' = NEW.state;
  IF takes_approval IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'AS012',
      MESSAGE = format('no transition of %s leads from %s to %s', NEW.entity_type, OLD.state, NEW.state);
  END IF;
  IF NOT takes_approval THEN
    RETURN NULL;
  END IF;

  PERFORM FROM assent.approval_requests r
    WHERE r.org_id = NEW.org_id AND r.instance_id = NEW.written_by_instance AND r.entity_id = NEW.id
      AND r.applied_xid = pg_current_xact_id()
      AND NOT EXISTS (SELECT FROM assent.approval_requests o
                       WHERE o.org_id = r.org_id AND o.instance_id = r.instance_id AND o.slot = r.slot
                         AND o.generation = r.generation AND o.status = 'pending');
  IF FOUND THEN
    RETURN NULL;
  END IF;
  IF pinned -> 'waives' <> '[]' THEN
    PERFORM FROM assent.workflow_step_executions gate
       JOIN assent.workflow_step_executions waiver
         ON waiver.org_id = gate.org_id AND waiver.instance_id = gate.instance_id
      WHERE gate.org_id = NEW.org_id AND gate.instance_id = NEW.written_by_instance
        AND gate.node_type = 'lifecycle_gate' AND gate.status = 'completed'
        AND gate.output_json ->> 'entity_version' = NEW.version::text
        AND waiver.status = 'completed' AND pinned -> 'waives' ? waiver.node_id
        AND split_part(waiver.token_id, '/', 1) = split_part(gate.token_id, '/', 1);
    IF FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS012',
    MESSAGE = format('%s %s goes from %s to %s with an approval only, and none was consumed', NEW.entity_type, NEW.id, OLD.state, NEW.state),
    HINT = 'Approvals are given by decisions of those who are asked, and consumed by the gate in the transaction that moves the state.';
END
$$;
CREATE CONSTRAINT TRIGGER states_are_reached_through_their_gates AFTER UPDATE ON assent.entities
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION assent.guard_gate();

-- An edit voids what is open or unapplied, in the edit's own transaction.
CREATE FUNCTION assent.void_approvals_of_old_content() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  -- Most updates move a window, or write fields of the workflow: asking first costs them less than an update of nothing.
  PERFORM FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id WHERE n.content_hash <> o.content_hash;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  WITH edited AS MATERIALIZED (
    SELECT n.org_id, n.id, n.version, n.updated_at FROM new_rows n JOIN old_rows o ON o.org_id = n.org_id AND o.id = n.id
     WHERE n.content_hash <> o.content_hash
  ), void AS (
    UPDATE assent.approval_requests r
       SET status = 'void', reason = format('edited: version %s', e.version), decided_at = coalesce(r.decided_at, e.updated_at)
      FROM edited e
     WHERE r.org_id = e.org_id AND r.entity_id = e.id AND r.status IN ('pending', 'approved') AND r.applied_at IS NULL
    RETURNING r.org_id, r.id
  )
  UPDATE assent.workflow_seats s SET status = 'closed', closed_at = assent.now()
    FROM void v WHERE s.org_id = v.org_id AND s.request_id = v.id AND s.status IN ('later', 'open');
  RETURN NULL;
END
$$;
CREATE TRIGGER edits_void_approvals AFTER UPDATE ON assent.entities
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION assent.void_approvals_of_old_content();

-- The three functions below are set-based, and check again what the kernel has checked, so that a bug above them cannot
-- write what must not be written.
--
-- They allow their writes by set_config and put back what it was: `SET assent.door` in a function's definition is refused to
-- all but a superuser, since PostgreSQL does not know the parameter. An error rolls the setting back with the rest. The
-- setting keeps the owner's plain SQL out. It is no key: the engine's role has no right to write these tables, whatever it
-- sets.

-- Locks entities and returns their current versions. Locks are taken in the same order everywhere: instances by id, then
-- entity rows by id.
CREATE FUNCTION assent.lock_entities(orgs text[], ids uuid[])
RETURNS SETOF assent.current_entities
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held uuid[];
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT unnest(orgs)) AS asked (org);

  -- LATERAL and OFFSET 0, here and below: a look-up by key for each, whatever the statistics say.
  SELECT coalesce(array_agg(i.instance_id), '{}') INTO held FROM (
    SELECT DISTINCT e.instance_id
      FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
        SELECT o.instance_id FROM assent.entities o
         WHERE o.org_id = asked.org_id AND o.id = asked.id OFFSET 0) e
     WHERE e.instance_id IS NOT NULL ORDER BY e.instance_id) i;
  PERFORM pg_advisory_xact_lock(hashtextextended(i::text, 0)) FROM unnest(held) AS i;

  -- Lock in one statement and read in the next: a join that waits for a row's lock would look for the content of the
  -- version that the row had before, and lose the row.
  PERFORM FROM (SELECT * FROM unnest(orgs, ids) AS given (org_id, id) ORDER BY id) AS asked CROSS JOIN LATERAL (
    SELECT FROM assent.entities o WHERE o.org_id = asked.org_id AND o.id = asked.id FOR UPDATE) e;

  -- An instance that came while we waited is locked now, out of order and so without waiting: a deadlock would be
  -- found too late, a retry finds it first.
  PERFORM FROM (
    SELECT e.instance_id FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
      SELECT o.instance_id FROM assent.entities o
       WHERE o.org_id = asked.org_id AND o.id = asked.id AND o.instance_id IS NOT NULL OFFSET 0) e
    EXCEPT SELECT unnest(held)) AS newcomer
    WHERE NOT pg_try_advisory_xact_lock(hashtextextended(newcomer.instance_id::text, 0));
  IF FOUND THEN
    RAISE serialization_failure USING MESSAGE = 'an instance started while its entity was being locked';
  END IF;

  RETURN QUERY SELECT c.* FROM unnest(orgs, ids) AS asked (org_id, id) CROSS JOIN LATERAL (
    SELECT * FROM assent.current_entities o WHERE o.org_id = asked.org_id AND o.id = asked.id OFFSET 0) c;
END
$$;
GRANT EXECUTE ON FUNCTION assent.lock_entities(text[], uuid[]) TO assent_engine;

-- Draws numbers for entities that the caller writes next in its transaction: `amount` of each series, and returns the last.
-- Counters are locked in the order of their keys.
CREATE FUNCTION assent.draw_numbers(draws jsonb)
RETURNS TABLE (org_id text, entity_type text, field text, period text, last_number bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT d ->> 'org_id' FROM jsonb_array_elements(draws) d) AS asked (org);
  RETURN QUERY
  INSERT INTO assent.number_series AS s (org_id, entity_type, field, period, last_number)
  SELECT d.org_id, d.entity_type, d.field, d.period, d.amount
    FROM jsonb_to_recordset(draws) AS d (org_id text, entity_type text, field text, period text, amount bigint)
   WHERE d.amount >= 1
   ORDER BY 1, 2, 3, 4
  ON CONFLICT ON CONSTRAINT number_series_pkey DO UPDATE SET last_number = s.last_number + excluded.last_number
  RETURNING s.org_id, s.entity_type, s.field, s.period, s.last_number;
END
$$;
GRANT EXECUTE ON FUNCTION assent.draw_numbers(jsonb) TO assent_engine;

-- Writes changes of entities: head, version and audit row of each, or nothing. An entity that changes more than once
-- in a set has its changes in successive layers; nearly always there is one layer.
CREATE FUNCTION assent.write_entities(changes jsonb, layers integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  wanted integer;
  written integer;
  disguised integer;
  indexed jsonb;
  taken_field text;
BEGIN
  -- Before the stamps of indexes are looked at: the build of an index waits for all transactions that had an id then.
  PERFORM pg_current_xact_id();
  PERFORM set_config('assent.door', 'mutate', true);
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT c ->> 'org_id' FROM jsonb_array_elements(changes) c) AS asked (org);
  PERFORM FROM jsonb_to_recordset(changes) AS c (layer integer, from_version integer, version integer)
    WHERE coalesce(c.layer NOT BETWEEN 1 AND layers, true) OR (c.from_version IS NULL AND c.version > 1);
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS008',
      MESSAGE = 'a change is in no layer, or begins an entity at another version than its first';
  END IF;

  FOR current_layer IN 1 .. layers LOOP
    WITH change AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset(changes) AS c (
        layer integer, org_id text, entity_id uuid, version_id uuid, audit_id uuid, entity_type text,
        contract_version integer, partition_id text, from_version integer, version integer, from_state text,
        state text, data jsonb, data_hash text, content_hash text, edit_window text, instance_id uuid, written_by_instance uuid,
        amended_from_id uuid, at timestamptz, actor_id text, actor_kind text, actor_roles text[], on_behalf_of text[],
        contributors text[], action text, changed jsonb, place text, reason text, channel text, trace_id text, index_stamp bigint)
       WHERE c.layer = current_layer
    ), created AS (
      INSERT INTO assent.entities (org_id, id, entity_type, contract_version, partition_id, state, version, data_hash,
             content_hash, edit_window, instance_id, written_by_instance, amended_from_id, created_at, updated_at)
      SELECT org_id, entity_id, entity_type, contract_version, partition_id, state, version, data_hash,
             content_hash, edit_window, instance_id, written_by_instance, amended_from_id, at, at
        FROM change WHERE from_version IS NULL
      ON CONFLICT (org_id, id) DO NOTHING
      RETURNING 1
    ), changed AS (
      UPDATE assent.entities e
         SET version = c.version, state = c.state, data_hash = c.data_hash, content_hash = c.content_hash,
             edit_window = c.edit_window, contract_version = c.contract_version, written_by_instance = c.written_by_instance, updated_at = c.at
        FROM change c
       WHERE e.org_id = c.org_id AND e.id = c.entity_id AND e.version = c.from_version
      RETURNING 1
    ), versioned AS (
      INSERT INTO assent.entity_versions (org_id, id, entity_id, version, entity_type, state, data, data_hash,
             created_at, created_by)
      SELECT org_id, version_id, entity_id, version, entity_type, state, data, data_hash, at, actor_id FROM change
      ON CONFLICT (org_id, entity_id, version) DO NOTHING
    ), audited AS (
      INSERT INTO assent.audit_log (org_id, id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
             from_version, to_version, from_state, to_state, changes, place, reason, channel, instance_id, trace_id,
             on_behalf_of, contributors)
      SELECT org_id, audit_id, at, actor_id, actor_kind, actor_roles, action, entity_type, entity_id,
             from_version, version, from_state, state, changed, place, reason, channel, written_by_instance, trace_id,
             on_behalf_of,
             -- Whose word the content is, where the caller does not say: the actor's own.
             coalesce(contributors, CASE WHEN written_by_instance IS NULL AND actor_kind <> 'system'
                                         THEN ARRAY[actor_id] ELSE '{}' END)
        FROM change
    )
    SELECT (SELECT count(*) FROM change), (SELECT count(*) FROM created) + (SELECT count(*) FROM changed),
           (SELECT count(*) FROM change c
              JOIN assent.entity_versions v
                ON v.org_id = c.org_id AND v.entity_id = c.entity_id AND v.version = c.from_version
             WHERE v.data_hash = c.data_hash AND v.data <> c.data)
      INTO wanted, written, disguised;
    -- Another transaction was first: the caller reads again and finds the new version.
    IF written <> wanted THEN
      RAISE serialization_failure USING
        MESSAGE = format('%s of %s entities have moved on since they were read', wanted - written, wanted);
    END IF;
    -- The guard of the rows knows an edit by its hash, so an edit must not come under the old one.
    IF disguised > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'AS002',
        MESSAGE = format('%s of %s entities have other content under the hash of the version before', disguised, wanted);
    END IF;
    -- In a statement of its own, behind the one that waited for locks: it sees what was committed meanwhile.
    PERFORM FROM (SELECT DISTINCT c.entity_type, c.index_stamp
                    FROM jsonb_to_recordset(changes) AS c (entity_type text, index_stamp bigint)) k
       LEFT JOIN assent.entity_indexes x ON x.org_id = '*' AND x.entity_type = k.entity_type
      WHERE coalesce(x.stamp, 0) <> coalesce(k.index_stamp, 0);
    IF FOUND THEN
      RAISE serialization_failure USING MESSAGE = 'the indexes of an entity type have changed since they were read';
    END IF;
    IF changes @? '$[*].indexed ? (@ != null)' THEN
      SELECT jsonb_agg(jsonb_build_object('org_id', c.org_id, 'entity_id', c.entity_id, 'indexed', c.indexed)) INTO indexed
        FROM jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_id uuid, indexed jsonb)
       WHERE c.layer = current_layer AND jsonb_typeof(c.indexed) = 'object';
      PERFORM assent.replace_indexed_values(indexed);
    END IF;
    CONTINUE WHEN NOT changes @? '$[*].unique_values ? (@ != null)';
    DELETE FROM assent.unique_values u
     USING jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_id uuid, amended_from_id uuid, unique_values jsonb)
     WHERE c.layer = current_layer AND jsonb_typeof(c.unique_values) = 'object' AND u.org_id = c.org_id
       AND u.entity_id IN (c.entity_id, c.amended_from_id);
    -- ON CONFLICT waits for a transaction that has written the same value and not ended yet.
    WITH value AS MATERIALIZED (
      SELECT c.org_id, c.entity_type, f.key AS field, sha256(convert_to(f.value, 'UTF8')) AS value_hash, c.entity_id
        FROM jsonb_to_recordset(changes) AS c (layer integer, org_id text, entity_type text, entity_id uuid, unique_values jsonb),
             jsonb_each_text(CASE jsonb_typeof(c.unique_values) WHEN 'object' THEN c.unique_values ELSE '{}' END) f
       WHERE c.layer = current_layer
       ORDER BY 1, 2, 3, 4
    ), kept AS (
      INSERT INTO assent.unique_values (org_id, entity_type, field, value_hash, entity_id)
      SELECT org_id, entity_type, field, value_hash, entity_id FROM value
      ON CONFLICT ON CONSTRAINT value_is_unique DO NOTHING
      RETURNING field, entity_id
    )
    SELECT v.field INTO taken_field
      FROM value v WHERE NOT EXISTS (SELECT FROM kept k WHERE k.entity_id = v.entity_id AND k.field = v.field)
     LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'AS013', MESSAGE = format('the value of %s is taken', taken_field), DETAIL = taken_field;
    END IF;
  END LOOP;
  PERFORM set_config('assent.door', former_door, true);
END
$$;
GRANT EXECUTE ON FUNCTION assent.write_entities(jsonb, integer) TO assent_engine;

-- Keeps the strictest window of an instance's active tokens on its entity; not a version. When the instance has ended the
-- window stays as it is and the entity is free for its next instance.
CREATE FUNCTION assent.set_edit_windows(windows jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  wanted integer := jsonb_array_length(windows);
  written integer;
BEGIN
  PERFORM set_config('assent.door', 'advance', true);
  PERFORM assent.require_org(org) FROM (SELECT DISTINCT w ->> 'org_id' FROM jsonb_array_elements(windows) w) AS asked (org);

  UPDATE assent.entities e
     SET edit_window = w.edit_window, instance_id = CASE WHEN NOT w.ended THEN w.instance_id END
    FROM jsonb_to_recordset(windows)
           AS w (org_id text, entity_id uuid, instance_id uuid, edit_window text, ended boolean)
    JOIN assent.workflow_instances i ON i.org_id = w.org_id AND i.id = w.instance_id AND i.entity_id = w.entity_id
   WHERE e.org_id = w.org_id AND e.id = w.entity_id
     -- An entity that is free is taken by an instance that runs; one that has ended lets go of what it holds.
     AND (e.instance_id = w.instance_id OR (e.instance_id IS NULL AND i.status IN ('running', 'paused')));
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'AS002',
      MESSAGE = format('%s of %s windows belong to another instance', wanted - written, wanted);
  END IF;
  PERFORM set_config('assent.door', former_door, true);
END
$$;
GRANT EXECUTE ON FUNCTION assent.set_edit_windows(jsonb) TO assent_engine;

-- Filters that people have saved under a name: a person's own, or the org's, which have no owner. A filter is of an entity
-- type, or of the inbox.
CREATE TABLE assent.saved_filters (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  filter_of  text        NOT NULL,       -- an entity type, or inbox
  owner_id   text        NOT NULL,       -- empty: shared with the org
  name       text        NOT NULL,
  filter     jsonb       NOT NULL,
  saved_by   text        NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT saved_filters_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT saved_filter_name_is_unique UNIQUE (org_id, filter_of, owner_id, name),
  CONSTRAINT saved_filter_is_an_object CHECK (jsonb_typeof(filter) = 'object')
);
CREATE INDEX saved_filters_by_name ON assent.saved_filters (org_id, filter_of, name, owner_id);
CREATE TRIGGER saved_filters_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.saved_filters FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('saved_filter', 'create', 'delete', 'id', 'filter_of name', 'filter owner_id');
SELECT assent.guard_by_org('assent.saved_filters');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.saved_filters TO assent_engine;
-- file: 60_instances.sql
-- Instances, their steps and the receipts of steps.
--
-- Steps are partitioned by month, as are events and effects. Their primary keys hold the partition key, so receipts, which
-- are not partitioned, make a step, an event or an effect unique over all time (WF-02, WF-11, WF-16).

-- A projection of the steps: it can be rebuilt (WF-15). No foreign key to the definition, which may belong to
-- org * and so to another shard; published definitions cannot be deleted, which gives the same safety.
CREATE TABLE assent.workflow_instances (
  org_id                 text        NOT NULL,
  id                     uuid        NOT NULL,
  definition_id          uuid        NOT NULL,
  definition_version     integer     NOT NULL,
  definition_hash        text        NOT NULL,
  workflow_id            text        NOT NULL,  -- the definition's key
  entity_type            text,
  entity_id              uuid,
  entity_version         integer     NOT NULL DEFAULT 0,
  partition_id           text,
  subject_id             text        NOT NULL,  -- the actor who started it
  status                 text        NOT NULL DEFAULT 'running',
  active_tokens          jsonb       NOT NULL DEFAULT '[]',
  current_nodes          text[]      NOT NULL DEFAULT '{}',
  context_json           jsonb       NOT NULL DEFAULT '{}',
  originators            jsonb       NOT NULL DEFAULT '{"ids": [], "approved": false}', -- whose work is approved next
  version                integer     NOT NULL DEFAULT 1, -- counts the effects of its steps
  generation             integer     NOT NULL DEFAULT 0, -- of the newest root token
  chain_length           integer     NOT NULL DEFAULT 0, -- automatic calls since a step last waited
  incident               jsonb,                 -- why it is paused or failed: code, message, node
  idempotency_key        text,
  last_step_id           uuid,
  started_at             timestamptz NOT NULL DEFAULT assent.now(),
  updated_at             timestamptz NOT NULL DEFAULT assent.now(),
  completed_at           timestamptz,
  expires_at             timestamptz,
  receipts_pruned_at     timestamptz,           -- ended instances stay: this says which of them still have receipts
  CONSTRAINT workflow_instances_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT instance_status_is_known CHECK (status IN ('running', 'paused', 'completed', 'failed', 'cancelled')),
  CONSTRAINT instance_has_an_entity_with_its_type_or_none CHECK ((entity_id IS NULL) = (entity_type IS NULL)),
  CONSTRAINT instance_without_entity_has_version_zero CHECK (entity_id IS NOT NULL OR entity_version = 0),
  CONSTRAINT instance_ended_exactly_when_terminal
    CHECK ((completed_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled'))),
  CONSTRAINT instance_idempotency_key_is_unique UNIQUE (org_id, idempotency_key),
  CONSTRAINT instance_is_of_an_entity FOREIGN KEY (org_id, entity_id) REFERENCES assent.entities (org_id, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX one_active_instance_per_entity ON assent.workflow_instances (org_id, entity_type, entity_id)
  WHERE status IN ('running', 'paused');
CREATE INDEX instances_by_entity ON assent.workflow_instances (org_id, entity_type, entity_id);
CREATE INDEX instances_by_partition ON assent.workflow_instances (org_id, partition_id) WHERE partition_id IS NOT NULL;
CREATE INDEX instances_by_status ON assent.workflow_instances (org_id, status, updated_at);
-- A page of some statuses is read status by status, newest first.
CREATE INDEX instances_in_status ON assent.workflow_instances (org_id, status, id);
CREATE INDEX instances_paused ON assent.workflow_instances (org_id, updated_at, id) WHERE status = 'paused';
CREATE INDEX instances_by_definition ON assent.workflow_instances (org_id, definition_id);
CREATE INDEX instances_by_subject ON assent.workflow_instances (org_id, subject_id, status);
CREATE INDEX instances_to_expire ON assent.workflow_instances (expires_at)
  WHERE status = 'running' AND expires_at IS NOT NULL;
CREATE INDEX instances_to_prune ON assent.workflow_instances (completed_at)
  WHERE completed_at IS NOT NULL AND receipts_pruned_at IS NULL;
CREATE TRIGGER instance_status_moves_forward BEFORE UPDATE ON assent.workflow_instances
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_instances');
SELECT assent.guard_by_org('assent.workflow_instances');
GRANT SELECT, INSERT, UPDATE ON assent.workflow_instances TO assent_engine;
GRANT SELECT ON assent.workflow_instances TO assent_client;

CREATE TABLE assent.workflow_step_executions (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid        NOT NULL,
  node_id               text        NOT NULL,
  node_type             text        NOT NULL,
  token_id              text        NOT NULL,
  entity_version        integer     NOT NULL,
  status                text        NOT NULL DEFAULT 'pending',
  run_as                text        NOT NULL DEFAULT 'actor',
  idempotency_key       text        NOT NULL,
  started_at            timestamptz,
  completed_at          timestamptz,
  duration_ms           bigint,                 -- an integer would end after 24 days; people and timers take longer
  input_json            jsonb,
  output_json           jsonb,
  error                 text,
  actor_user_id         text,
  approval_request_id   uuid,
  applied               boolean,
  snapshot_version_id   uuid,
  resume_at             timestamptz,
  waiting_for_event_key text,
  CONSTRAINT workflow_step_executions_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT step_status_is_known
    CHECK (status IN ('pending', 'running', 'completed', 'failed', 'skipped', 'cancelled')),
  CONSTRAINT step_run_as_is_known CHECK (run_as IN ('actor', 'system', 'service_account')),
  CONSTRAINT step_snapshot_is_a_version FOREIGN KEY (org_id, snapshot_version_id)
    REFERENCES assent.entity_versions (org_id, id) DEFERRABLE INITIALLY DEFERRED
) PARTITION BY RANGE (created_at);
CREATE INDEX steps_by_instance ON assent.workflow_step_executions (org_id, instance_id, created_at);
-- Two indexes that one might expect are left out, for every step would pay for them. (org_id, actor_user_id, status) would
-- serve the approval inbox, which reads seats. (org_id, instance_id, node_id, status) would find whether a step is done,
-- which the receipts show; an instance's few steps are found by steps_by_instance.
CREATE INDEX steps_by_snapshot ON assent.workflow_step_executions (org_id, snapshot_version_id)
  WHERE snapshot_version_id IS NOT NULL;
CREATE INDEX steps_to_resume ON assent.workflow_step_executions (org_id, resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';
-- Timers are found across orgs by their time; steps_to_resume has the org first.
CREATE INDEX steps_due ON assent.workflow_step_executions (resume_at)
  WHERE resume_at IS NOT NULL AND status = 'pending';
CREATE INDEX steps_waiting_for_event ON assent.workflow_step_executions (org_id, waiting_for_event_key)
  WHERE status = 'pending' AND waiting_for_event_key IS NOT NULL;
-- What waits. An index of its own: of an instance's steps nearly all have ended.
CREATE INDEX steps_resting ON assent.workflow_step_executions (org_id, instance_id) WHERE status = 'pending';
CREATE TABLE assent.workflow_step_executions_default PARTITION OF assent.workflow_step_executions DEFAULT;
SELECT assent.guard_by_org('assent.workflow_step_executions');
SELECT assent.guard_by_org('assent.workflow_step_executions_default');
GRANT SELECT, INSERT, UPDATE (status, started_at, completed_at, duration_ms, output_json, error,
  approval_request_id, applied, resume_at, waiting_for_event_key) ON assent.workflow_step_executions TO assent_engine;
GRANT SELECT (org_id, created_at, id, instance_id, node_id, node_type, token_id, entity_version, status, run_as,
              started_at, completed_at, duration_ms, error, actor_user_id, approval_request_id, applied,
              snapshot_version_id, resume_at) ON assent.workflow_step_executions TO assent_client;
CREATE TRIGGER step_status_moves_forward BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_step_executions');

CREATE FUNCTION assent.restrict_step_execution_updates() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.created_at, NEW.id, NEW.instance_id, NEW.node_id, NEW.node_type, NEW.token_id,
      NEW.entity_version, NEW.run_as, NEW.idempotency_key, NEW.input_json, NEW.actor_user_id,
      NEW.snapshot_version_id)
     IS DISTINCT FROM
     (OLD.org_id, OLD.created_at, OLD.id, OLD.instance_id, OLD.node_id, OLD.node_type, OLD.token_id,
      OLD.entity_version, OLD.run_as, OLD.idempotency_key, OLD.input_json, OLD.actor_user_id,
      OLD.snapshot_version_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('step %s keeps its identity, input and actor; only status and evidence may change', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER steps_keep_their_identity BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_step_execution_updates();

-- The result of a step stays as it is once it has ended, but for evidence of what was sent, which is only added, and the mark
-- that its approval was consumed. Workers, who are the owner, also put the evidence of a later attempt in the place of an
-- earlier one's, when a dead letter is sent again; and reduce old outputs to fewer of the same keys, which then say so.
CREATE FUNCTION assent.guard_ended_step() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (NEW.started_at, NEW.completed_at, NEW.duration_ms, NEW.error, NEW.approval_request_id)
     IS NOT DISTINCT FROM (OLD.started_at, OLD.completed_at, OLD.duration_ms, OLD.error, OLD.approval_request_id)
     AND (NEW.applied IS NOT DISTINCT FROM OLD.applied OR NEW.applied)
     AND (NEW.output_json IS NOT DISTINCT FROM OLD.output_json
          OR coalesce(OLD.output_json, '{}') - 'evidence' = NEW.output_json - 'evidence'
             AND (NEW.output_json -> 'evidence' @> coalesce(OLD.output_json -> 'evidence', '{}')
                  OR NOT row_security_active(TG_RELID)
                     AND NEW.output_json -> 'evidence' ?& ARRAY(SELECT jsonb_object_keys(OLD.output_json -> 'evidence')))
          OR NOT row_security_active(TG_RELID) AND NEW.output_json -> 'compacted' = 'true'
             AND OLD.output_json @> (NEW.output_json - 'compacted')) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS006',
    MESSAGE = format('step %s has ended: its result stays, and only gains evidence', OLD.id);
END
$$;
CREATE TRIGGER ended_steps_only_gain_evidence BEFORE UPDATE ON assent.workflow_step_executions
  FOR EACH ROW WHEN (OLD.status IN ('completed', 'failed', 'skipped', 'cancelled'))
  EXECUTE FUNCTION assent.guard_ended_step();

CREATE TABLE assent.workflow_step_receipts (
  org_id            text        NOT NULL,
  instance_id       uuid        NOT NULL,
  idempotency_key   text        NOT NULL,
  step_id           uuid        NOT NULL,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_step_receipts_pkey PRIMARY KEY (org_id, instance_id, idempotency_key)
);
-- Append-only; prune_receipts and delete_ended_instances alone delete.
CREATE TRIGGER step_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_step_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER step_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_step_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_step_receipts');
GRANT SELECT, INSERT ON assent.workflow_step_receipts TO assent_engine;

-- Keys under which flows were started. A key stands for one start for good: it outlives the instance, which retention
-- may delete, and is never used for another flow or input.
CREATE TABLE assent.workflow_start_keys (
  org_id       text        NOT NULL,
  key          text        NOT NULL,  -- as in workflow_instances.idempotency_key: behind its partition, if it is of one
  instance_id  uuid        NOT NULL,  -- no foreign key: the instance may be gone
  request_hash text        NOT NULL,  -- of the flow and the input
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_start_keys_pkey PRIMARY KEY (org_id, key),
  CONSTRAINT start_key_is_not_blank CHECK (NOT assent.is_blank(key))
);
CREATE TRIGGER start_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_start_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER start_keys_are_never_emptied BEFORE TRUNCATE ON assent.workflow_start_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_start_keys');
GRANT SELECT, INSERT ON assent.workflow_start_keys TO assent_engine;

-- A worker notes whose events it is about to process before it starts. A note whose worker is gone names the instances that
-- may have killed it; they are run again one by one. It names the org of each instance, so that no statement about them goes
-- by an instance's id alone.
CREATE TABLE assent.workflow_batches (
  id           uuid        NOT NULL,
  org_ids      text[]      NOT NULL,
  instance_ids uuid[]      NOT NULL,
  started_at   timestamptz NOT NULL,
  CONSTRAINT workflow_batches_pkey PRIMARY KEY (id)
);
ALTER TABLE assent.workflow_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.workflow_batches USING (false);

-- How far the outputs of each org's old steps have been compacted: through this step, in the order of the primary key.
CREATE TABLE assent.step_compactions (
  org_id          text        NOT NULL,
  step_created_at timestamptz NOT NULL,
  step_id         uuid        NOT NULL,
  CONSTRAINT step_compactions_pkey PRIMARY KEY (org_id)
);
SELECT assent.guard_by_org('assent.step_compactions');

-- What compaction took out of the output of a step; reads of history put it back. One row per step, written once.
CREATE TABLE assent.step_evidence (
  org_id          text        NOT NULL,
  step_created_at timestamptz NOT NULL,
  step_id         uuid        NOT NULL,
  instance_id     uuid        NOT NULL,
  evidence        jsonb       NOT NULL,  -- compressed by pglz, which every server has; lz4 is an option of its build
  CONSTRAINT step_evidence_pkey PRIMARY KEY (org_id, step_created_at, step_id),
  CONSTRAINT step_evidence_is_an_object CHECK (jsonb_typeof(evidence) = 'object')
);
CREATE INDEX step_evidence_by_instance ON assent.step_evidence (org_id, instance_id);
-- Append-only; delete_ended_instances alone deletes.
CREATE TRIGGER step_evidence_is_append_only BEFORE UPDATE OR DELETE ON assent.step_evidence
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER step_evidence_is_never_emptied BEFORE TRUNCATE ON assent.step_evidence
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.step_evidence');
GRANT SELECT ON assent.step_evidence TO assent_engine;

-- Returns the output of a step as it was before compaction took evidence out of it. A dead letter that was sent again
-- since has left evidence of its own, which stands beside what was taken out.
CREATE FUNCTION assent.whole_output(output jsonb, taken_out jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN taken_out IS NULL THEN output ELSE
           taken_out || (output - 'compacted')
           || CASE WHEN taken_out ? 'evidence' AND output ? 'evidence'
                THEN jsonb_build_object('evidence', taken_out -> 'evidence' || (output -> 'evidence')) ELSE '{}' END
         END
$$;
GRANT EXECUTE ON FUNCTION assent.whole_output(jsonb, jsonb) TO assent_engine;
-- file: 65_events.sql
-- Events that advance instances, the receipts of events and effects, and the sources of events from outside.

CREATE TABLE assent.workflow_events_outbox (
  org_id                text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  id                    uuid        NOT NULL,
  instance_id           uuid,                   -- null: an event under a key, for the instances that wait for it
  entity_version        integer     NOT NULL DEFAULT 0,
  definition_version    integer,
  event_type            text        NOT NULL,
  payload_json          jsonb       NOT NULL DEFAULT '{}',
  event_idempotency_key text        NOT NULL,
  trace_id              text,
  status                text        NOT NULL DEFAULT 'pending',
  attempts              integer     NOT NULL DEFAULT 0,
  attempts_max          integer     NOT NULL DEFAULT 5,
  retry_at              timestamptz,
  claimed_at            timestamptz,
  completed_at          timestamptz,
  error                 text,
  CONSTRAINT workflow_events_outbox_pkey PRIMARY KEY (org_id, created_at, id),
  CONSTRAINT event_status_is_known CHECK (status IN ('pending', 'processing', 'completed', 'failed', 'dead')),
  CONSTRAINT event_attempts_are_counted CHECK (attempts >= 0 AND attempts_max >= 1)
) PARTITION BY RANGE (created_at);
CREATE INDEX events_to_process ON assent.workflow_events_outbox (status, retry_at, created_at)
  WHERE status IN ('pending', 'failed');
CREATE INDEX events_by_instance ON assent.workflow_events_outbox (org_id, instance_id);
-- The claim goes org by org, oldest first, so that one org's backlog is not another's wait. What is due at once and what
-- is to be tried again at some time are two indexes: so a claim finds the orgs that have work now, without a look at those
-- that have not. What waits for a pause to end (infinity) is in neither.
CREATE INDEX events_of_org_due ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at IS NULL;
CREATE INDEX events_of_org_to_retry ON assent.workflow_events_outbox (org_id, retry_at)
  WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at < 'infinity';
-- The same of events under a key, which are of no instance yet.
CREATE INDEX arrivals_of_org ON assent.workflow_events_outbox (org_id, created_at, id)
  WHERE status IN ('pending', 'failed') AND instance_id IS NULL;
-- What is open for an instance, in order: read under its lock, by workers and by commands. Their statements say NOT IN too,
-- which matches no other index: by the statistics of a quiet server nothing is open, and events_to_process, with whatever is
-- open in all orgs, looks as good.
CREATE INDEX events_of_instance_to_process ON assent.workflow_events_outbox (org_id, instance_id, created_at, id)
  WHERE status NOT IN ('completed', 'dead', 'processing');
-- Which expiries were emitted.
CREATE INDEX events_of_expiry ON assent.workflow_events_outbox (org_id, instance_id)
  WHERE event_type = 'on_expired';
CREATE INDEX events_claimed ON assent.workflow_events_outbox (claimed_at) WHERE status = 'processing';
-- Finished rows by age, for pruning.
CREATE INDEX events_completed ON assent.workflow_events_outbox (completed_at) WHERE status = 'completed';
-- The same of one org, for its latency.
CREATE INDEX events_of_org_completed ON assent.workflow_events_outbox (org_id, completed_at) WHERE status = 'completed';
-- Dead letters are found without reading the events that went well.
CREATE INDEX events_dead ON assent.workflow_events_outbox (org_id, created_at, id) WHERE status = 'dead';
CREATE TRIGGER event_status_moves_forward BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_events_outbox');
CREATE TRIGGER event_claim_is_dated BEFORE UPDATE ON assent.workflow_events_outbox
  FOR EACH ROW WHEN (NEW.status = 'processing' AND OLD.status <> 'processing') EXECUTE FUNCTION assent.date_claim();
CREATE TABLE assent.workflow_events_outbox_default PARTITION OF assent.workflow_events_outbox DEFAULT;
SELECT assent.guard_by_org('assent.workflow_events_outbox');
SELECT assent.guard_by_org('assent.workflow_events_outbox_default');
GRANT SELECT, INSERT, UPDATE ON assent.workflow_events_outbox TO assent_engine;

-- An event without an instance keeps its receipt under the nil UUID.
CREATE TABLE assent.workflow_outbox_receipts (
  org_id                text        NOT NULL,
  instance_id           uuid        NOT NULL,
  source_table          text        NOT NULL,
  event_idempotency_key text        NOT NULL,
  created_at            timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT workflow_outbox_receipts_pkey PRIMARY KEY (org_id, instance_id, source_table, event_idempotency_key),
  CONSTRAINT receipt_is_for_events_or_side_effects CHECK (source_table IN ('events', 'side_effects'))
);
-- Append-only; prune_receipts and delete_ended_instances alone delete.
CREATE TRIGGER outbox_receipts_are_append_only BEFORE UPDATE OR DELETE ON assent.workflow_outbox_receipts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER outbox_receipts_are_never_emptied BEFORE TRUNCATE ON assent.workflow_outbox_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.workflow_outbox_receipts');
GRANT SELECT, INSERT ON assent.workflow_outbox_receipts TO assent_engine;

-- An event under a key for which nothing waits yet: kept for the first step that will.
CREATE TABLE assent.workflow_kept_events (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,
  event_key    text        NOT NULL,
  partition_id text,                            -- the partition that it was emitted in; null: the whole org
  payload      jsonb       NOT NULL,
  created_at   timestamptz NOT NULL,
  CONSTRAINT workflow_kept_events_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT kept_event_key_is_not_blank CHECK (NOT assent.is_blank(event_key))
);
CREATE INDEX kept_events_by_key ON assent.workflow_kept_events (org_id, event_key, id);
-- Kept events that nothing waited for are found by their age.
CREATE INDEX kept_events_by_age ON assent.workflow_kept_events (created_at);
SELECT assent.guard_by_org('assent.workflow_kept_events');
GRANT SELECT, INSERT, DELETE ON assent.workflow_kept_events TO assent_engine;

-- Who emits events to us, and how we verify it: an event whose key begins so is taken only with a signature. Like
-- effect_secrets the table is the owner's to read. Two secrets hold, while a sender changes from one to the other.
CREATE TABLE assent.event_sources (
  org_id        text        NOT NULL,
  name          text        NOT NULL,
  key_prefix    text        NOT NULL,
  secret        text        NOT NULL,
  former_secret text,
  created_by    text        NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT assent.now(),
  rotated_at    timestamptz,
  CONSTRAINT event_sources_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT event_source_prefix_is_unique UNIQUE (org_id, key_prefix),
  CONSTRAINT event_source_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT event_source_prefix_is_not_blank CHECK (NOT assent.is_blank(key_prefix)),
  CONSTRAINT event_source_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT event_source_prefix_is_short CHECK (length(key_prefix) BETWEEN 1 AND 200),
  CONSTRAINT event_source_secret_is_one_of_standard_webhooks CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$'),
  CONSTRAINT former_event_secret_is_one_of_standard_webhooks
    CHECK (former_secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$')
);
CREATE TRIGGER event_sources_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.event_sources FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('event_source', 'create', 'delete', 'name', 'key_prefix',
    'key_prefix rotated_at');
SELECT assent.guard_by_org('assent.event_sources');
-- Which keys need a signature, for steps that emit events; the secrets stay with the owner.
GRANT SELECT (org_id, key_prefix) ON assent.event_sources TO assent_engine;

-- Emits an event under a key; false where this cause emitted it before (WF-11). For programs in any language, in their own
-- transaction. It runs as its owner, since the caller has no right to write, and holds itself to the org of the transaction
-- (`assent.org_id`) by name.
CREATE FUNCTION assent.emit_event(key text, data jsonb DEFAULT NULL, cause text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  org text := assent.org_id();
  event_id uuid := gen_random_uuid();
  emitted_by text := coalesce(cause, event_id::text);
  receipt text;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF coalesce(assent.is_blank(key), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'an event needs a key', DETAIL = format('Found %L.', key);
  END IF;
  IF assent.is_blank(cause) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the cause of an event is not blank',
      DETAIL = format('Found %L.', cause), HINT = 'Leave it out where there is none.';
  END IF;
  -- As assent.model.ids.arrival_key makes it: an event is its key and its cause, by whichever way it comes.
  receipt := encode(sha256(convert_to(
    format('7:arrival0:%s:%s%s:%s', length(key), key, length(emitted_by), emitted_by), 'UTF8')), 'hex');
  INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
  VALUES (org, '00000000-0000-0000-0000-000000000000', 'events', receipt, assent.now())
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, event_type, payload_json, event_idempotency_key)
  VALUES (org, assent.now(), event_id, 'on_event', jsonb_build_object('cause', emitted_by, 'key', key, 'data', data), receipt);
  PERFORM pg_notify('assent_events', '');
  RETURN true;
END
$$;
GRANT EXECUTE ON FUNCTION assent.emit_event(text, jsonb, text) TO assent_engine, assent_client;

-- The claims of workers. Each goes from org to org by one step in an index. A server that was quiet has statistics by which
-- nothing is open: then sorting whatever is open looks as cheap to PostgreSQL as the first row by index, and each step reads the
-- whole backlog. So sorts are no choice here, and with that the plan is the same for all arguments and made once a session.

-- Locks instances with events that are due and whose locks are free, of the first orgs behind one that have such events: each
-- org a fair share of the batch, oldest first. Every org that was looked at is in the answer, also where all its instances are
-- busy; so the caller knows where to go on. Two workers never claim the same. New events of before `since` are not looked at: the
-- index still has an entry of each that was processed while another session's snapshot may see it.
CREATE FUNCTION assent.claim_instances(batch_max integer, behind text, since timestamptz)
RETURNS TABLE (org_id text, instance_id uuid, created_at timestamptz)
LANGUAGE plpgsql SET enable_sort = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE fresh (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at IS NULL AND org_id > behind
        AND created_at >= since
      ORDER BY org_id, created_at, id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL AND e.retry_at IS NULL
               AND e.org_id > fresh.org_id AND e.created_at >= since
             ORDER BY e.org_id, e.created_at, e.id LIMIT 1), fresh.n + 1
      FROM fresh WHERE fresh.org_id IS NOT NULL AND fresh.n < batch_max
  ), retried (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NOT NULL AND retry_at < 'infinity'
        AND retry_at <= (SELECT assent.now()) AND org_id > behind
      ORDER BY org_id, retry_at LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL AND e.retry_at < 'infinity'
               AND e.retry_at <= (SELECT assent.now()) AND e.org_id > retried.org_id
             ORDER BY e.org_id, e.retry_at LIMIT 1), retried.n + 1
      FROM retried WHERE retried.org_id IS NOT NULL AND retried.n < batch_max
  ), org AS MATERIALIZED (
    SELECT org_id FROM (SELECT org_id FROM fresh UNION SELECT org_id FROM retried) AS found
     WHERE org_id IS NOT NULL ORDER BY org_id LIMIT batch_max
  ), share AS (SELECT greatest(1, batch_max / greatest(1, count(*)::integer)) AS events FROM org)
  SELECT org.org_id, due.instance_id, min(due.created_at) AS created_at
    FROM org CROSS JOIN share LEFT JOIN LATERAL (
      SELECT first.instance_id, first.created_at FROM (
        -- Not sorted together: that would read all of a backlog. What is tried again was there before what is new.
        (SELECT e.instance_id, NULL::timestamptz AS created_at FROM assent.workflow_events_outbox e
          WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL
            AND e.retry_at < 'infinity' AND e.retry_at <= (SELECT assent.now())
            -- Batches that run hold their instances' locks; of those that died, recovery finds out which event did it.
            AND e.instance_id NOT IN (SELECT unnest(instance_ids) FROM assent.workflow_batches)
          -- The limit keeps the locks above it: below, a plan that sorts would lock the whole backlog. Others may hold
          -- the oldest, so more are looked at than are wanted.
          ORDER BY e.retry_at LIMIT share.events * 50)
        UNION ALL
        (SELECT e.instance_id, e.created_at FROM assent.workflow_events_outbox e
          WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NOT NULL
            AND e.retry_at IS NULL AND e.created_at >= since
            AND e.instance_id NOT IN (SELECT unnest(instance_ids) FROM assent.workflow_batches)
          ORDER BY e.created_at, e.id LIMIT share.events * 50)) AS first
       WHERE pg_try_advisory_xact_lock(hashtextextended(first.instance_id::text, 0))
       LIMIT share.events) AS due ON true
   GROUP BY 1, 2 ORDER BY 1;
END
$$;

-- Claims events under a key that are of no instance yet, of the first orgs behind one that have such events: each org a fair
-- share, oldest first. Every org that was looked at is in the answer.
CREATE FUNCTION assent.claim_arrivals(batch_max integer, behind text, since timestamptz)
RETURNS TABLE (org_id text, created_at timestamptz, id uuid, payload_json jsonb, trace_id text)
LANGUAGE plpgsql SET enable_sort = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE found (org_id, n) AS (
    (SELECT org_id, 1 FROM assent.workflow_events_outbox
      WHERE status IN ('pending', 'failed') AND instance_id IS NULL AND event_type = 'on_event'
        AND (retry_at IS NULL OR retry_at <= (SELECT assent.now())) AND org_id > behind AND created_at >= since
      ORDER BY org_id, created_at, id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.org_id FROM assent.workflow_events_outbox e
             WHERE e.status IN ('pending', 'failed') AND e.instance_id IS NULL AND e.event_type = 'on_event'
               AND (e.retry_at IS NULL OR e.retry_at <= (SELECT assent.now())) AND e.org_id > found.org_id
               AND e.created_at >= since
             ORDER BY e.org_id, e.created_at, e.id LIMIT 1), found.n + 1
      FROM found WHERE found.org_id IS NOT NULL AND found.n < batch_max
  ), org AS MATERIALIZED (SELECT org_id FROM found WHERE org_id IS NOT NULL),
  share AS (SELECT greatest(1, batch_max / greatest(1, count(*)::integer)) AS events FROM org)
  SELECT org.org_id, arrival.created_at, arrival.id, arrival.payload_json, arrival.trace_id
    FROM org CROSS JOIN share LEFT JOIN LATERAL (
      SELECT e.created_at, e.id, e.payload_json, e.trace_id FROM assent.workflow_events_outbox e
       WHERE e.org_id = org.org_id AND e.status IN ('pending', 'failed') AND e.instance_id IS NULL
         AND e.event_type = 'on_event' AND (e.retry_at IS NULL OR e.retry_at <= (SELECT assent.now())) AND e.created_at >= since
       ORDER BY e.created_at, e.id LIMIT share.events FOR UPDATE SKIP LOCKED) AS arrival ON true
   ORDER BY 1, 2, 3;
END
$$;
-- file: 70_forms.sql
-- Seats, one for each person who is asked, and forms that people fill in.

-- One person who is asked. An approval asks approvers, a form its assignees.
CREATE TABLE assent.workflow_seats (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  kind        text        NOT NULL DEFAULT 'approval',
  request_id  uuid        NOT NULL,             -- the approval request, or the step of the form
  instance_id uuid        NOT NULL,
  user_id     text        NOT NULL,
  group_name  text        NOT NULL,
  position    integer     NOT NULL,
  via         text        NOT NULL,             -- how this person came to be asked
  email       text,                             -- where they are notified
  status      text        NOT NULL DEFAULT 'open',
  replaces_id uuid,                             -- the seat that was reassigned to this one
  note        text,
  created_at  timestamptz NOT NULL DEFAULT assent.now(),
  closed_at   timestamptz,
  CONSTRAINT workflow_seats_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT seat_kind_is_known CHECK (kind IN ('approval', 'form')),
  CONSTRAINT seat_status_is_known CHECK (status IN ('later', 'open', 'decided', 'closed'))
);
CREATE INDEX seats_by_request ON assent.workflow_seats (org_id, request_id);
CREATE INDEX seats_open ON assent.workflow_seats (org_id, user_id, created_at, id) WHERE status = 'open';
-- Whether a person was ever asked in an instance, also in a seat that is closed.
CREATE INDEX seats_of_instance ON assent.workflow_seats (org_id, instance_id, user_id);
CREATE TRIGGER seat_status_moves_forward BEFORE UPDATE ON assent.workflow_seats
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_seats');

CREATE FUNCTION assent.guard_seat() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.org_id, NEW.id, NEW.kind, NEW.request_id, NEW.instance_id, NEW.user_id, NEW.group_name, NEW.position, NEW.via,
      NEW.email, NEW.replaces_id, NEW.created_at)
     IS DISTINCT FROM
     (OLD.org_id, OLD.id, OLD.kind, OLD.request_id, OLD.instance_id, OLD.user_id, OLD.group_name, OLD.position, OLD.via,
      OLD.email, OLD.replaces_id, OLD.created_at) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('seat %s stays whose it is', OLD.id),
      HINT = 'Reassigning closes it and opens another.';
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER seats_keep_their_identity BEFORE UPDATE ON assent.workflow_seats
  FOR EACH ROW EXECUTE FUNCTION assent.guard_seat();
SELECT assent.guard_by_org('assent.workflow_seats');
GRANT SELECT, INSERT, UPDATE (status, closed_at, note) ON assent.workflow_seats TO assent_engine;
GRANT SELECT ON assent.workflow_seats TO assent_client;

-- A form: what is asked, the people who are asked, who has claimed it, and the draft. The step is the truth about how a form ended; this row
-- is what people work with until then, and goes with its instance when retention deletes it.
CREATE TABLE assent.workflow_forms (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,          -- of the step; seats refer to it as their request
  instance_id    uuid        NOT NULL,
  node_id        text        NOT NULL,
  node_name      text        NOT NULL,
  label          text,
  entity_type    text,
  entity_id      uuid,
  entity_version integer     NOT NULL DEFAULT 0,
  partition_id   text,
  title          text,                          -- what the inbox shows of the entity as it was then
  figure         numeric,
  currency       text,
  schema_json    jsonb       NOT NULL,          -- JSON Schema 2020-12 of what is to be filled in
  answers        text[]      NOT NULL,          -- the events with which it can be sent
  assignee       jsonb       NOT NULL,          -- who was sought, found and skipped: frozen, also when it is reassigned
  requested_by   text        NOT NULL,
  status         text        NOT NULL DEFAULT 'open',
  reason         text,                          -- why it ended as it did
  claimed_by     text,
  claimed_at     timestamptz,
  draft_json     jsonb,
  draft_by       text,
  draft_at       timestamptz,
  draft_problems jsonb,
  due_at         timestamptz,
  created_at     timestamptz NOT NULL DEFAULT assent.now(),
  ended_at       timestamptz,
  CONSTRAINT workflow_forms_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT form_status_is_known CHECK (status IN ('open', 'answered', 'cancelled')),
  CONSTRAINT form_ends_when_its_status_says_so CHECK ((status = 'open') = (ended_at IS NULL)),
  CONSTRAINT form_claim_is_dated CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  CONSTRAINT form_draft_is_signed_dated_and_checked
    CHECK (num_nulls(draft_json, draft_by, draft_at, draft_problems) IN (0, 4))
);
CREATE INDEX forms_by_instance ON assent.workflow_forms (org_id, instance_id);
CREATE TRIGGER form_status_moves_forward BEFORE UPDATE ON assent.workflow_forms
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('workflow_forms');

-- What may change of a form: its status, its claim and the draft; nothing once it has ended.
CREATE FUNCTION assent.guard_form() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] :=
    '{status,reason,claimed_by,claimed_at,draft_json,draft_by,draft_at,draft_problems,ended_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s keeps what it asks, and its assignees', OLD.id);
  END IF;
  IF OLD.status <> 'open' AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('form %s is %s and stays as it is', OLD.id, OLD.status);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER forms_keep_what_they_ask BEFORE UPDATE ON assent.workflow_forms
  FOR EACH ROW EXECUTE FUNCTION assent.guard_form();
SELECT assent.guard_by_org('assent.workflow_forms');
GRANT SELECT, INSERT,
      UPDATE (status, reason, claimed_by, claimed_at, draft_json, draft_by, draft_at, draft_problems, ended_at)
   ON assent.workflow_forms TO assent_engine;
GRANT SELECT (org_id, id, instance_id, node_id, node_name, label, entity_type, entity_id, entity_version, partition_id,
              title, figure, currency, schema_json, answers, assignee, requested_by, status, reason, claimed_by, claimed_at,
              due_at, created_at, ended_at) ON assent.workflow_forms TO assent_client;
-- file: 75_approvals.sql
-- Approvals: chains are templates, requests are what is asked at one version, decisions are what people decided. These tables
-- are the authority; a step only refers to its request.

CREATE TABLE assent.approval_chains (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  name        text        NOT NULL,
  entity_type text,                             -- null: for any
  active      boolean     NOT NULL DEFAULT true,
  created_at  timestamptz NOT NULL DEFAULT assent.now(),
  updated_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_chains_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT approval_chain_name_is_unique UNIQUE (org_id, name)
);
CREATE TRIGGER chains_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chains FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain', 'create', 'delete', 'id', 'name', 'entity_type active');
SELECT assent.guard_by_org('assent.approval_chains');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.approval_chains TO assent_engine;
GRANT SELECT ON assent.approval_chains TO assent_client;

CREATE TABLE assent.approval_chain_steps (
  org_id      text    NOT NULL,
  chain_id    uuid    NOT NULL,
  position    integer NOT NULL,
  name        text    NOT NULL,
  approvers   jsonb   NOT NULL,
  mode        text    NOT NULL DEFAULT 'any',
  quorum      integer,
  due_seconds integer,
  CONSTRAINT approval_chain_steps_pkey PRIMARY KEY (org_id, chain_id, position),
  CONSTRAINT chain_step_is_of_a_chain FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
    ON DELETE CASCADE,
  CONSTRAINT chain_step_position_counts_from_one CHECK (position >= 1),
  CONSTRAINT chain_step_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence')),
  CONSTRAINT chain_step_quorum_goes_with_its_modes
    CHECK ((quorum IS NOT NULL) = (mode IN ('quorum', 'percentage')) AND quorum >= 1
      AND (mode <> 'percentage' OR quorum <= 100)),
  CONSTRAINT chain_step_due_is_in_the_future CHECK (due_seconds > 0)
);
CREATE TRIGGER chain_steps_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.approval_chain_steps FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('chain_step', 'create', 'delete', 'chain_id', 'position',
    'name approvers mode quorum due_seconds');
SELECT assent.guard_by_org('assent.approval_chain_steps');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.approval_chain_steps TO assent_engine;
GRANT SELECT ON assent.approval_chain_steps TO assent_client;

-- Whose turn it was last, for approvers who are picked from a role in turn.
CREATE TABLE assent.approval_turns (
  org_id  text        NOT NULL,
  role    text        NOT NULL,
  user_id text        NOT NULL,
  last_at timestamptz NOT NULL,
  CONSTRAINT approval_turns_pkey PRIMARY KEY (org_id, role, user_id)
);
SELECT assent.guard_by_org('assent.approval_turns');
GRANT SELECT, INSERT, UPDATE (last_at) ON assent.approval_turns TO assent_engine;

-- No foreign key to the instance, nor to the step: when retention deletes the instance its approvals stay, for like versions
-- and audit entries they are evidence about the entity.
CREATE TABLE assent.approval_requests (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  instance_id         uuid        NOT NULL,
  step_id             uuid        NOT NULL,
  node_id             text        NOT NULL,
  node_name           text,                     -- what the inbox shows of the step that asks
  token_id            text        NOT NULL DEFAULT '0',
  generation          integer     NOT NULL DEFAULT 0, -- of the root token: one round of asking
  slot                text        NOT NULL DEFAULT '',
  partition_id        text,
  entity_type         text,
  entity_id           uuid,
  entity_version      integer     NOT NULL,     -- approved means this version
  snapshot_version_id uuid,
  content_hash        text,                     -- what the approvers see, and what alone it holds for
  title               text,                     -- what the inbox shows of the entity at this version
  figure              numeric,
  currency            text,                     -- of the figure, where it is money with a currency
  chain_id            uuid,
  mode                text        NOT NULL DEFAULT 'any',
  approvers           jsonb       NOT NULL,     -- resolved once, frozen
  originators         text[]      NOT NULL DEFAULT '{}', -- who may not approve it
  may_repeat          boolean     NOT NULL DEFAULT false, -- whether one person may fill several seats
  requested_by        text        NOT NULL,
  status              text        NOT NULL DEFAULT 'pending',
  reason              text,                     -- why it ended as it did
  claimed_by          text,
  claimed_at          timestamptz,
  applied_at          timestamptz,              -- when a gate consumed it (WF-03)
  applied_step_id     uuid,                     -- the gate's step that consumed it
  applied_xid         xid8,                     -- the transaction that consumed it: the database's own word
  due_at              timestamptz,
  questions           integer     NOT NULL DEFAULT 0, -- how many its approvers have asked those whose work it is
  created_at          timestamptz NOT NULL DEFAULT assent.now(),
  decided_at          timestamptz,
  CONSTRAINT approval_requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT approval_request_status_is_known
    CHECK (status IN ('pending', 'approved', 'rejected', 'returned', 'void', 'cancelled')),
  CONSTRAINT approval_request_mode_is_known CHECK (mode IN ('any', 'all', 'quorum', 'percentage', 'sequence', 'groups')),
  CONSTRAINT approval_request_claim_is_dated CHECK ((claimed_by IS NULL) = (claimed_at IS NULL)),
  CONSTRAINT only_an_approved_request_is_applied CHECK (applied_at IS NULL OR status = 'approved'),
  CONSTRAINT only_what_was_applied_has_its_step CHECK (applied_step_id IS NULL OR applied_at IS NOT NULL),
  CONSTRAINT approval_request_about_an_entity_has_its_snapshot CHECK ((entity_id IS NULL) = (snapshot_version_id IS NULL)),
  CONSTRAINT approval_request_about_an_entity_has_its_content CHECK ((entity_id IS NULL) = (content_hash IS NULL)),
  CONSTRAINT approval_request_snapshot_is_a_version FOREIGN KEY (org_id, snapshot_version_id)
    REFERENCES assent.entity_versions (org_id, id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT approval_request_chain_exists FOREIGN KEY (org_id, chain_id) REFERENCES assent.approval_chains (org_id, id)
);
CREATE INDEX approval_requests_by_instance ON assent.approval_requests (org_id, instance_id);
-- By entity, for voiding, for who wrote since the last approval, and for evidence. An entity has few requests; and an
-- index that knows nothing of their status leaves room for updates in place.
CREATE INDEX approval_requests_by_entity ON assent.approval_requests (org_id, entity_id, entity_version)
  WHERE entity_id IS NOT NULL;
CREATE TRIGGER approval_request_status_moves_forward BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('approval_requests');
SELECT assent.guard_by_org('assent.approval_requests');
-- Only what may change: what was asked stays.
GRANT SELECT, INSERT,
      UPDATE (status, reason, applied_at, applied_step_id, decided_at, claimed_by, claimed_at, originators, questions)
   ON assent.approval_requests TO assent_engine;
GRANT SELECT ON assent.approval_requests TO assent_client;

CREATE TABLE assent.approval_decisions (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  request_id     uuid        NOT NULL,
  seat_id        uuid,
  approver_id    text        NOT NULL,
  on_behalf_of   text,                          -- the owner of the seat, where a delegate decided
  decision       text        NOT NULL,
  outcome        text,                          -- an outcome of the node's own, when the decision is `returned`
  reason         text,
  entity_version integer     NOT NULL,
  decided_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT approval_decisions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT one_decision_per_seat UNIQUE (org_id, seat_id), -- guard_decision checks who may fill several seats
  CONSTRAINT decision_is_known CHECK (decision IN ('approved', 'rejected', 'abstained', 'returned')),
  CONSTRAINT returned_says_as_what CHECK ((decision = 'returned') = (outcome IS NOT NULL)),
  CONSTRAINT decision_is_on_a_request FOREIGN KEY (org_id, request_id)
    REFERENCES assent.approval_requests (org_id, id)
);
CREATE INDEX decisions_by_request ON assent.approval_decisions (org_id, request_id);
CREATE TRIGGER decisions_are_append_only BEFORE UPDATE OR DELETE ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER decisions_are_never_emptied BEFORE TRUNCATE ON assent.approval_decisions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.approval_decisions');
GRANT SELECT, INSERT ON assent.approval_decisions TO assent_engine;
GRANT SELECT ON assent.approval_decisions TO assent_client;

-- Which links in mails have decided: each person once on a request, whatever mails they got.
CREATE TABLE assent.decision_link_uses (
  org_id     text        NOT NULL,
  request_id uuid        NOT NULL,
  user_id    text        NOT NULL,
  used_at    timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT decision_link_uses_pkey PRIMARY KEY (org_id, request_id, user_id)
);
CREATE TRIGGER decision_link_uses_are_append_only BEFORE UPDATE OR DELETE ON assent.decision_link_uses
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER decision_link_uses_are_never_emptied BEFORE TRUNCATE ON assent.decision_link_uses
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.decision_link_uses');
GRANT SELECT, INSERT ON assent.decision_link_uses TO assent_engine;

-- What may change of a request: its status, its claim and how often its approvers asked back. Consumed is consumed (WF-03),
-- and only what was approved for the present content can be.
CREATE FUNCTION assent.guard_approval_request() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  changing CONSTANT text[] :=
    '{status,reason,applied_at,applied_step_id,decided_at,claimed_by,claimed_at,originators,questions}';
BEGIN
  IF (to_jsonb(NEW) - changing) IS DISTINCT FROM (to_jsonb(OLD) - changing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('approval request %s keeps what it asks, its approvers and its version', OLD.id);
  END IF;
  IF NOT NEW.originators @> OLD.originators THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006',
      MESSAGE = format('approval request %s keeps its originators; others may join them', OLD.id);
  END IF;
  IF OLD.applied_at IS NOT NULL AND (NEW.applied_at, NEW.applied_step_id, NEW.status)
     IS DISTINCT FROM (OLD.applied_at, OLD.applied_step_id, OLD.status) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009', MESSAGE = format('approval request %s was consumed before', OLD.id);
  END IF;
  IF NEW.applied_at IS NOT NULL AND OLD.applied_at IS NULL AND NEW.entity_id IS NOT NULL AND NOT EXISTS (
       SELECT FROM assent.entities e
        WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id AND e.content_hash = NEW.content_hash) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009',
      MESSAGE = format('approval request %s is about another content than entity %s has', OLD.id, OLD.entity_id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER approval_requests_keep_what_they_ask BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_approval_request();

-- A request shows a version, and holds for the content of that version and no other.
CREATE FUNCTION assent.guard_asked_content() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM FROM assent.entities e WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id;
  IF NOT FOUND THEN
    RETURN NEW; -- the foreign key of its snapshot asks at the commit
  END IF;
  PERFORM FROM assent.entities e
     JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = NEW.entity_version
    WHERE e.org_id = NEW.org_id AND e.id = NEW.entity_id AND e.content_hash = NEW.content_hash
      AND v.id = NEW.snapshot_version_id
      AND (v.version = e.version OR NOT coalesce(
             assent.content_of(e.org_id, e.id, v.version, e.entity_type, e.contract_version)
             <> assent.content_of(e.org_id, e.id, e.version, e.entity_type, e.contract_version), false));
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS009',
      MESSAGE = format('approval request %s is about another content than entity %s has, or shows another', NEW.id, NEW.entity_id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER approval_requests_show_what_they_are_about BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.entity_id IS NOT NULL AND NEW.status = 'pending') EXECUTE FUNCTION assent.guard_asked_content();

CREATE FUNCTION assent.note_consumption() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  NEW.applied_xid := CASE WHEN NEW.applied_at IS NOT NULL THEN pg_current_xact_id() END;
  RETURN NEW;
END
$$;
-- After approval_requests_keep_what_they_ask, by its name: that one compares what the caller changed.
CREATE TRIGGER approval_requests_note_who_consumed_them BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_at IS NOT NULL AND OLD.applied_at IS NULL) EXECUTE FUNCTION assent.note_consumption();
CREATE TRIGGER approval_requests_begin_unconsumed BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.applied_xid IS NOT NULL OR NEW.applied_at IS NOT NULL)
  EXECUTE FUNCTION assent.note_consumption();

-- What people write beside the work: comments on an entity, and questions of approvers to a person whose work they are to
-- approve, with the answer. A question moves nothing: its request stays open, and its approvers and originators as they are.
CREATE TABLE assent.comments (
  org_id         text        NOT NULL,
  id             uuid        NOT NULL,
  kind           text        NOT NULL,
  author_id      text        NOT NULL,
  text           text        NOT NULL,
  mentions       text[]      NOT NULL DEFAULT '{}', -- members that the text names, and who were notified
  partition_id   text,
  entity_type    text,
  entity_id      uuid,
  entity_version integer     NOT NULL DEFAULT 0, -- the version that it was written at
  request_id     uuid,                          -- of a question: the approval request
  instance_id    uuid,
  asks           text,                          -- of a question: who is to answer
  answer         text,
  answered_at    timestamptz,
  closed_at      timestamptz,                   -- when the request ended without an answer
  created_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT comments_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT comment_kind_is_known CHECK (kind IN ('comment', 'question')),
  CONSTRAINT comment_is_about_an_entity CHECK (kind = 'question' OR entity_id IS NOT NULL),
  CONSTRAINT commented_entity_has_its_type CHECK ((entity_id IS NULL) = (entity_type IS NULL)),
  CONSTRAINT question_is_of_a_request_to_a_member
    CHECK (num_nulls(request_id, instance_id, asks) = CASE kind WHEN 'question' THEN 0 ELSE 3 END),
  CONSTRAINT question_is_to_another CHECK (asks <> author_id),
  CONSTRAINT answer_is_dated CHECK ((answer IS NULL) = (answered_at IS NULL)),
  CONSTRAINT only_a_question_ends CHECK (kind = 'question' OR num_nonnulls(answered_at, closed_at) = 0),
  CONSTRAINT question_is_answered_or_closed CHECK (num_nonnulls(answered_at, closed_at) < 2),
  CONSTRAINT question_is_of_an_approval_request FOREIGN KEY (org_id, request_id)
    REFERENCES assent.approval_requests (org_id, id)
);
CREATE INDEX comments_of_entity ON assent.comments (org_id, entity_id, created_at, id) WHERE entity_id IS NOT NULL;
CREATE INDEX questions_of_request ON assent.comments (org_id, request_id, created_at, id) WHERE kind = 'question';
CREATE INDEX questions_open ON assent.comments (org_id, asks, created_at, id)
  WHERE kind = 'question' AND answered_at IS NULL AND closed_at IS NULL;

-- What was written stays. A question is answered once, or closed.
CREATE FUNCTION assent.guard_comment() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  changing CONSTANT text[] := '{answer,answered_at,closed_at}';
BEGIN
  IF (to_jsonb(NEW) - changing) IS DISTINCT FROM (to_jsonb(OLD) - changing) OR num_nonnulls(OLD.answered_at, OLD.closed_at) > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('comment %s stays as it was written', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER comments_stay_as_written BEFORE UPDATE ON assent.comments
  FOR EACH ROW EXECUTE FUNCTION assent.guard_comment();
CREATE TRIGGER comments_are_never_deleted BEFORE DELETE ON assent.comments
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER comments_are_never_emptied BEFORE TRUNCATE ON assent.comments
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.comments');
GRANT SELECT, INSERT, UPDATE (answer, answered_at, closed_at) ON assent.comments TO assent_engine;

CREATE FUNCTION assent.close_questions() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE assent.comments SET closed_at = assent.now()
   WHERE org_id = NEW.org_id AND request_id = NEW.id AND kind = 'question' AND answered_at IS NULL AND closed_at IS NULL;
  RETURN NULL;
END
$$;
-- The condition costs a request without questions nothing.
CREATE TRIGGER approval_requests_close_their_questions AFTER UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending' AND NEW.questions > 0)
  EXECUTE FUNCTION assent.close_questions();

-- Whether this is enough: the name of a group that has agreed, or all or any of several such.
CREATE FUNCTION assent.is_enough(wanted jsonb, agreed text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF jsonb_typeof(wanted) = 'string' THEN
    RETURN wanted #>> '{}' = ANY (agreed);
  END IF;
  IF wanted ? 'any' THEN
    RETURN (SELECT coalesce(bool_or(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'any') part);
  END IF;
  RETURN (SELECT coalesce(bool_and(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'all') part);
END
$$;

-- The groups of a request that have agreed, by the decisions in the seats of those who were found, or who replaced one of
-- them. Where one is enough, the first who said yes or no has decided.
CREATE FUNCTION assent.agreed_groups(asked assent.approval_requests) RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(g.name), '{}')
    FROM jsonb_to_recordset(asked.approvers -> 'groups') AS g (name text, mode text, needed integer)
   CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE d.decision = 'approved') AS yes,
             (array_agg(d.decision ORDER BY d.id) FILTER (WHERE d.decision IN ('approved', 'rejected')))[1] AS first
        FROM assent.approval_decisions d
        JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.id = d.seat_id AND s.request_id = d.request_id
        LEFT JOIN assent.workflow_seats before ON before.org_id = s.org_id AND before.id = s.replaces_id
              AND before.request_id = s.request_id AND before.group_name = s.group_name
       WHERE d.org_id = asked.org_id AND d.request_id = asked.id AND s.group_name = g.name
         AND (before.id IS NOT NULL OR asked.approvers -> 'people'
                @> jsonb_build_array(jsonb_build_object('user', s.user_id, 'group', s.group_name)))) decided
   WHERE CASE g.mode WHEN 'any' THEN decided.first = 'approved' ELSE decided.yes >= g.needed END
$$;
-- Triggers run as the role that writes, and call both.
GRANT EXECUTE ON FUNCTION assent.is_enough(jsonb, text[]), assent.agreed_groups(assent.approval_requests) TO assent_engine;

-- A request becomes approved only where the decisions of those who were asked add up to what was declared to be enough when
-- they were asked, or where its time is over and that is its default. Also when the status is written by hand.
CREATE FUNCTION assent.guard_approval() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  agreed CONSTANT text[] := assent.agreed_groups(NEW);
BEGIN
  -- After an escalation one approver of that group is enough.
  IF 'escalation' = ANY (agreed) OR assent.is_enough(NEW.approvers -> 'enough', agreed) THEN
    RETURN NEW;
  END IF;
  -- A minute, because the clock by which its time was over need not be the server's.
  IF NEW.approvers #>> '{default,status}' = 'approved'
     AND least(NEW.decided_at, assent.now() + interval '1 minute') >= (NEW.approvers #>> '{default,at}')::timestamptz THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS011',
    MESSAGE = format('approval request %s is not approved: of what is enough (%s) only %s agreed', NEW.id,
                     NEW.approvers -> 'enough', agreed),
    HINT = 'Approvals are given by decisions of those who are asked.';
END
$$;
CREATE TRIGGER approval_requests_begin_unapproved BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved') EXECUTE FUNCTION assent.guard_approval();
CREATE TRIGGER approval_requests_are_approved_by_those_who_are_asked BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved' AND OLD.status <> 'approved') EXECUTE FUNCTION assent.guard_approval();

-- A decision is given on a request that is open, in a seat that is asked, by its owner or by a delegate of the owner; never
-- by a person who had a part in what is to be approved, who fills another seat of the round, or who was found among the
-- members and is not what they were asked as any more. Also when it is written by hand. The rule of assent.engine.consent,
-- where the database can know it.
CREATE FUNCTION assent.guard_decision() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  asked assent.approval_requests;
  seat assent.workflow_seats;
  owner CONSTANT text := coalesce(NEW.on_behalf_of, NEW.approver_id);
  names CONSTANT text[] := ARRAY[NEW.approver_id, owner];
BEGIN
  SELECT * INTO asked FROM assent.approval_requests r WHERE r.org_id = NEW.org_id AND r.id = NEW.request_id;
  IF NOT FOUND THEN
    RETURN NEW; -- row security or the foreign key refuses it
  END IF;
  IF asked.status <> 'pending' THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('approval request %s is %s and takes no more decisions', asked.id, asked.status);
  END IF;
  IF asked.originators && names THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s had a part in what request %s is about', NEW.approver_id, asked.id);
  END IF;
  IF NOT asked.may_repeat AND EXISTS (
       SELECT FROM assent.approval_requests o
         JOIN assent.approval_decisions d ON d.org_id = o.org_id AND d.request_id = o.id
        WHERE o.org_id = asked.org_id AND o.instance_id = asked.instance_id AND o.slot = asked.slot
          AND o.generation = asked.generation AND o.status NOT IN ('void', 'cancelled')
          AND ARRAY[d.approver_id, d.on_behalf_of] && names) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s fills another seat of the round of request %s', NEW.approver_id, asked.id);
  END IF;
  -- The engine writes that a seat is decided before it writes the decision.
  SELECT * INTO seat FROM assent.workflow_seats s
   WHERE s.org_id = NEW.org_id AND s.id = NEW.seat_id AND s.request_id = NEW.request_id AND s.user_id = owner
     AND s.status IN ('open', 'decided');
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s has no seat at request %s', owner, asked.id);
  END IF;
  -- A minute each way, because the clock by which a delegation holds need not be the server's.
  IF owner <> NEW.approver_id AND NOT EXISTS (
       SELECT FROM assent.approval_delegations d
         JOIN assent.workflow_instances i ON i.org_id = asked.org_id AND i.id = asked.instance_id
        WHERE d.org_id = asked.org_id AND d.to_user = NEW.approver_id AND d.from_user = owner AND d.revoked_at IS NULL
          AND d.starts_at <= assent.now() + interval '1 minute'
          AND (d.ends_at IS NULL OR d.ends_at > assent.now() - interval '1 minute')
          AND (d.entity_types = '{}' OR asked.entity_type = ANY (d.entity_types))
          AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows))) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s does not stand in for %s at request %s', NEW.approver_id, owner, asked.id);
  END IF;
  -- Only where they were found among the members: an application may keep its people elsewhere.
  IF asked.approvers @> '{"directory": "members"}' AND (
       EXISTS (SELECT FROM assent.members m WHERE m.org_id = asked.org_id AND m.user_id = ANY (names) AND NOT m.active)
       OR (starts_with(seat.via, 'role:') AND NOT EXISTS (
             SELECT FROM assent.members m
              WHERE m.org_id = asked.org_id AND m.user_id = owner AND m.roles @> ARRAY[substr(seat.via, 6)]))) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS010',
      MESSAGE = format('%s is not what they were asked as at request %s any more (%s)', owner, asked.id, seat.via);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER decisions_are_of_those_who_are_asked BEFORE INSERT ON assent.approval_decisions
  FOR EACH ROW EXECUTE FUNCTION assent.guard_decision();

-- What a person may read: the seats that wait for them, and the instances that they take part in.

-- The open seats of an owner that a reader, the owner or a delegate, could fill now, approvals and forms alike. `is_present`
-- says whether the owner is active now, `held` which roles they hold; the caller asked the directory, which need not be
-- `members`. LATERAL and OFFSET 0: look-ups by key for each seat, in the order of the seats, whatever the statistics say.
CREATE FUNCTION assent.waiting_for(of_org text, reader text, seated text, at timestamptz, is_present boolean, held text[])
RETURNS TABLE (id uuid, kind text, bucket text, user_id text, created_at timestamptz, via text, group_name text,
  request_id uuid, instance_id uuid, workflow text, node_id text, node_name text, entity_type text, entity_id uuid,
  entity_version integer, state text, title text, figure numeric, currency text, due_at timestamptz, requested_by text,
  claimed_by text, questions integer, question text)
LANGUAGE sql STABLE AS $$
  SELECT s.id, s.kind, CASE WHEN seated <> reader THEN 'delegated'
                            WHEN starts_with(s.via, 'role:') THEN 'roles' ELSE 'mine' END,
         s.user_id, s.created_at, s.via, s.group_name, s.request_id, s.instance_id, i.workflow_id, r.node_id,
         r.node_name, r.entity_type, r.entity_id, r.entity_version,
         (SELECT e.state FROM assent.entities e WHERE e.org_id = s.org_id AND e.id = r.entity_id), r.title, r.figure,
         r.currency, r.due_at, r.requested_by, r.claimed_by, r.questions, NULL::text
    FROM assent.workflow_seats s
   CROSS JOIN LATERAL (
      SELECT o.node_id, coalesce(o.node_name, o.node_id) AS node_name, o.entity_type, o.entity_id, o.entity_version,
             o.title, o.figure, o.currency, o.due_at, o.requested_by, o.claimed_by, o.originators, o.may_repeat, o.slot,
             o.generation, o.questions
        FROM assent.approval_requests o WHERE s.kind = 'approval' AND o.org_id = s.org_id AND o.id = s.request_id
      UNION ALL
      -- A form has no originators: everyone who is asked may fill it in.
      SELECT o.node_id, o.node_name, o.entity_type, o.entity_id, o.entity_version, o.title, o.figure, o.currency, o.due_at,
             o.requested_by, o.claimed_by, '{}', true, NULL, NULL, 0
        FROM assent.workflow_forms o WHERE s.kind = 'form' AND o.org_id = s.org_id AND o.id = s.request_id
      OFFSET 0) AS r
   CROSS JOIN LATERAL (
      SELECT * FROM assent.workflow_instances o WHERE o.org_id = s.org_id AND o.id = s.instance_id OFFSET 0) AS i
   WHERE s.org_id = of_org AND s.user_id = seated AND s.status = 'open'
     AND NOT r.originators && ARRAY[reader, seated]
     AND (r.may_repeat OR NOT EXISTS (
           SELECT FROM assent.approval_requests o
            WHERE o.org_id = s.org_id AND o.instance_id = s.instance_id AND o.slot = r.slot
              AND o.generation = r.generation AND o.status NOT IN ('void', 'cancelled')
              AND EXISTS (SELECT FROM assent.approval_decisions d
                           WHERE d.org_id = o.org_id AND d.request_id = o.id
                             AND (d.approver_id IN (reader, seated) OR d.on_behalf_of IN (reader, seated)) OFFSET 0)
           OFFSET 0))
     AND (seated = reader OR EXISTS (
           SELECT FROM assent.approval_delegations d
            WHERE d.org_id = of_org AND d.to_user = reader AND d.from_user = seated AND d.revoked_at IS NULL
              AND d.starts_at <= at AND (d.ends_at IS NULL OR d.ends_at > at)
              AND (d.entity_types = '{}' OR r.entity_type = ANY (d.entity_types))
              AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows))))
     AND (s.via = 'starter' OR (is_present AND (NOT starts_with(s.via, 'role:') OR substr(s.via, 6) = ANY (held))))
$$;
GRANT EXECUTE ON FUNCTION assent.waiting_for(text, text, text, timestamptz, boolean, text[]) TO assent_engine;

-- The open questions to a reader, as items of an inbox. A question is for its addressee, and for no delegate: it asks what they
-- did. Not a part of `waiting_for`: the planner takes no order from within a UNION ALL of joins, and a page would read everything.
CREATE FUNCTION assent.questions_to(of_org text, reader text, seated text, is_present boolean)
RETURNS TABLE (id uuid, kind text, bucket text, user_id text, created_at timestamptz, via text, group_name text,
  request_id uuid, instance_id uuid, workflow text, node_id text, node_name text, entity_type text, entity_id uuid,
  entity_version integer, state text, title text, figure numeric, currency text, due_at timestamptz, requested_by text,
  claimed_by text, questions integer, question text)
LANGUAGE sql STABLE AS $$
  SELECT c.id, c.kind, 'mine', c.asks, c.created_at, 'question', '', c.id, c.instance_id, i.workflow_id, r.node_id,
         coalesce(r.node_name, r.node_id), c.entity_type, c.entity_id, c.entity_version,
         (SELECT e.state FROM assent.entities e WHERE e.org_id = c.org_id AND e.id = c.entity_id), r.title, r.figure,
         r.currency, r.due_at, c.author_id, NULL::text, r.questions, c.text
    FROM assent.comments c
   CROSS JOIN LATERAL (
      SELECT * FROM assent.approval_requests o WHERE o.org_id = c.org_id AND o.id = c.request_id OFFSET 0) AS r
   CROSS JOIN LATERAL (
      SELECT * FROM assent.workflow_instances o WHERE o.org_id = c.org_id AND o.id = c.instance_id OFFSET 0) AS i
   WHERE c.org_id = of_org AND c.asks = seated AND c.kind = 'question' AND c.answered_at IS NULL AND c.closed_at IS NULL
     AND seated = reader AND is_present
$$;
GRANT EXECUTE ON FUNCTION assent.questions_to(text, text, text, boolean) TO assent_engine;

-- Whether a person takes part in an instance: they started it, are or were asked in it, or are a delegate of one who is.
CREATE FUNCTION assent.takes_part(i assent.workflow_instances, person text, at timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT i.subject_id = person
      OR EXISTS (SELECT FROM assent.workflow_seats s
                  WHERE s.org_id = i.org_id AND s.user_id = person AND s.instance_id = i.id AND s.status <> 'later')
      OR EXISTS (SELECT FROM assent.approval_delegations d
                   JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.user_id = d.from_user
                    AND s.instance_id = i.id AND s.status = 'open'
                  WHERE d.org_id = i.org_id AND d.to_user = person AND d.revoked_at IS NULL AND d.starts_at <= at
                    AND (d.ends_at IS NULL OR d.ends_at > at)
                    AND (d.entity_types = '{}' OR i.entity_type = ANY (d.entity_types))
                    AND (d.workflows = '{}' OR i.workflow_id = ANY (d.workflows)))
$$;

-- Whether an instance is one of those that a reader of lists may see: an entity's by its type, a flow's by its definition
-- or because they take part in it.
CREATE FUNCTION assent.is_readable(i assent.workflow_instances, hidden_types text[], all_flows boolean,
  definitions uuid[], person text, at timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN i.entity_type IS NOT NULL THEN i.entity_type <> ALL (hidden_types)
              ELSE all_flows OR i.definition_id = ANY (definitions) OR assent.takes_part(i, person, at) END
$$;
GRANT EXECUTE ON FUNCTION assent.takes_part(assent.workflow_instances, text, timestamptz),
  assent.is_readable(assent.workflow_instances, text[], boolean, uuid[], text, timestamptz) TO assent_engine;
-- file: 77_targets.sql
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
-- file: 80_outside_requests.sql
-- Outside requests: what is asked of outside parties, what they send back, and what it points to.
--
-- Rows that change are narrow: what was asked and what was sent, as it was, is in outside_request_history, which only grows.
-- Nothing here is ever deleted, so that a key, and a cargo, is taken once for ever.

-- Whether a text points to something: to a thing of ours by its id, or to something of an outside system. One thing has
-- one spelling, for it is taken once. The same as assent.model.outside_request.
CREATE FUNCTION assent.is_cargo(pointer text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pointer ~ '^((version|document|entity|screening)://assent/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|external://[a-z0-9][a-z0-9._-]{0,62}/[!-~]{1,255})$';

CREATE TABLE assent.outside_requests (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  partition_id      text,
  instance_id       uuid,                           -- none where a person asked for the documents of a subject alone
  step_id           uuid,                           -- the step that waits; none where a person asked
  node_id           text,
  token_id          text,
  entity_type       text,
  entity_id         uuid,
  name              text        NOT NULL,           -- what was asked: the workflow and the node
  expected          integer     NOT NULL DEFAULT 1, -- how many items make it complete
  received          integer     NOT NULL DEFAULT 0, -- completed items
  failed            integer     NOT NULL DEFAULT 0, -- items that failed or expired
  status            text        NOT NULL DEFAULT 'pending',
  error             text,                           -- the last one that was reported
  trace_id          text,
  expires_at        timestamptz,
  created_at        timestamptz NOT NULL DEFAULT assent.now(),
  ended_at          timestamptz,
  CONSTRAINT outside_requests_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT outside_request_name_is_short CHECK (length(name) BETWEEN 1 AND 500),
  CONSTRAINT step_of_request_is_of_an_instance CHECK (
    (step_id IS NULL) = (node_id IS NULL) AND (step_id IS NULL) = (token_id IS NULL) AND (step_id IS NULL OR instance_id IS NOT NULL)),
  CONSTRAINT outside_request_expects_something CHECK (expected BETWEEN 1 AND 500),
  CONSTRAINT results_are_counted CHECK (received >= 0 AND failed >= 0),
  CONSTRAINT outside_request_status_is_known
    CHECK (status IN ('pending', 'partial', 'completed', 'failed', 'expired', 'cancelled')),
  CONSTRAINT completed_request_has_what_it_expected CHECK (status <> 'completed' OR received >= expected),
  CONSTRAINT partial_request_has_something CHECK (status <> 'partial' OR received BETWEEN 1 AND expected - 1),
  CONSTRAINT outside_request_ends_when_its_status_says_so
    CHECK ((status IN ('pending', 'partial')) = (ended_at IS NULL))
);
CREATE INDEX outside_requests_by_time ON assent.outside_requests (org_id, created_at, id);
CREATE INDEX outside_requests_by_status ON assent.outside_requests (org_id, status, created_at, id);
CREATE INDEX outside_requests_by_instance ON assent.outside_requests (org_id, instance_id);
CREATE INDEX outside_requests_by_step ON assent.outside_requests (org_id, step_id);
CREATE INDEX outside_requests_to_expire ON assent.outside_requests (expires_at) WHERE status IN ('pending', 'partial');
CREATE TRIGGER outside_request_status_moves_forward BEFORE UPDATE ON assent.outside_requests
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('outside_requests');

-- What may change of a request: its status and counts; nothing once it has ended, and what was received stays received.
CREATE FUNCTION assent.guard_outside_request() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  standing CONSTANT text[] := '{status,received,failed,error,ended_at}';
BEGIN
  IF (to_jsonb(NEW) - standing) IS DISTINCT FROM (to_jsonb(OLD) - standing) THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('request %s keeps what it asks, and who waits', OLD.id);
  END IF;
  IF OLD.ended_at IS NOT NULL AND NEW IS DISTINCT FROM OLD THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('request %s is %s and stays as it is', OLD.id, OLD.status);
  END IF;
  IF NEW.received < OLD.received OR NEW.failed < OLD.failed THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('what request %s received stays received', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER outside_requests_keep_what_they_ask BEFORE UPDATE ON assent.outside_requests
  FOR EACH ROW EXECUTE FUNCTION assent.guard_outside_request();
SELECT assent.guard_by_org('assent.outside_requests');
GRANT SELECT, INSERT, UPDATE (status, error, ended_at) ON assent.outside_requests TO assent_engine;
GRANT SELECT ON assent.outside_requests TO assent_client;

-- One row for each bundle that came: for ever the proof that its key was taken. Its job folds it.
CREATE TABLE assent.outside_request_deliveries (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,                -- also of its job, and of its bundle in outside_request_history
  position     bigint      GENERATED BY DEFAULT AS IDENTITY,  -- the order in which they came
  request_id   uuid        NOT NULL,
  key          text        NOT NULL,                -- the sender's own: the same again changes nothing
  source       text        NOT NULL,
  pushed_by    text,                                -- the member who brought it, where one did
  people       text[]      NOT NULL DEFAULT '{}',   -- the members whose work it is, the maker of their key among them
  origin       text,                                -- where it was read, of one from a stream: kafka:results/0/1042
  late         boolean     NOT NULL DEFAULT false,  -- it came when the request had ended: only its documents count
  received_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_deliveries_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT delivery_key_is_taken_once UNIQUE (org_id, request_id, key),
  CONSTRAINT delivery_is_to_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.outside_requests (org_id, id),
  CONSTRAINT delivery_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT delivery_key_is_not_blank CHECK (NOT assent.is_blank(key)),
  CONSTRAINT delivery_source_is_known
    CHECK (source IN ('http', 'callback', 'sql', 'python', 'upload', 'table', 'redis', 'kafka', 'nats'))
);
CREATE TRIGGER deliveries_are_never_deleted BEFORE DELETE ON assent.outside_request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER deliveries_are_never_emptied BEFORE TRUNCATE ON assent.outside_request_deliveries
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

CREATE FUNCTION assent.guard_delivery() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF (to_jsonb(NEW) - 'late') IS DISTINCT FROM (to_jsonb(OLD) - 'late') OR OLD.late AND NOT NEW.late THEN
    RAISE EXCEPTION USING ERRCODE = 'AS006', MESSAGE = format('delivery %s keeps its key, and its request', OLD.id);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER deliveries_keep_their_key BEFORE UPDATE ON assent.outside_request_deliveries
  FOR EACH ROW EXECUTE FUNCTION assent.guard_delivery();
SELECT assent.guard_by_org('assent.outside_request_deliveries');
GRANT SELECT, INSERT ON assent.outside_request_deliveries TO assent_engine;

-- What came, one by one. The first status of a cargo holds.
CREATE TABLE assent.outside_request_items (
  org_id      text        NOT NULL,
  id          uuid        NOT NULL,
  request_id  uuid        NOT NULL,
  delivery_id uuid        NOT NULL,
  cargo       text,
  kind        text,                                 -- what the sender calls it, such as passport
  status      text        NOT NULL,
  error       text,
  received_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_items_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT cargo_is_received_once UNIQUE (org_id, request_id, cargo),
  CONSTRAINT item_is_of_a_delivery FOREIGN KEY (org_id, delivery_id) REFERENCES assent.outside_request_deliveries (org_id, id),
  CONSTRAINT item_status_is_known CHECK (status IN ('completed', 'failed', 'expired')),
  CONSTRAINT completed_item_points_to_something CHECK (status <> 'completed' OR cargo IS NOT NULL),
  CONSTRAINT item_cargo_is_a_pointer CHECK (assent.is_cargo(cargo))
);
CREATE INDEX items_by_request ON assent.outside_request_items (org_id, request_id, id);
CREATE TRIGGER items_are_append_only BEFORE UPDATE OR DELETE ON assent.outside_request_items
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER items_are_never_emptied BEFORE TRUNCATE ON assent.outside_request_items
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.outside_request_items');
GRANT SELECT ON assent.outside_request_items TO assent_engine, assent_client;

-- Everything that happened to a request, as it was: asked, delivered, and how it ended.
CREATE TABLE assent.outside_request_history (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  request_id uuid        NOT NULL,
  what       text        NOT NULL,
  source     text        NOT NULL,
  body       jsonb,                                 -- what was asked, the bundle that came, or why it ended
  payload    jsonb,                                 -- what a sender wants kept with its bundle; never looked at
  at         timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT outside_request_history_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT history_is_of_a_request FOREIGN KEY (org_id, request_id) REFERENCES assent.outside_requests (org_id, id),
  CONSTRAINT history_tells_what_is_known
    CHECK (what IN ('asked', 'delivered', 'completed', 'failed', 'expired', 'cancelled'))
);
CREATE INDEX history_by_request ON assent.outside_request_history (org_id, request_id, at);
CREATE TRIGGER outside_request_history_is_append_only BEFORE UPDATE OR DELETE ON assent.outside_request_history
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER outside_request_history_is_never_emptied BEFORE TRUNCATE ON assent.outside_request_history
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.outside_request_history');
GRANT SELECT, INSERT ON assent.outside_request_history TO assent_engine;

-- Messages of streams that could not be kept as results, as they were read. Each is a dead job of the kind result, under the
-- same id: listed, retried and discarded as every dead letter. A message that is read again is here once.
CREATE TABLE assent.dead_messages (
  org_id    text        NOT NULL,
  id        uuid        NOT NULL,                   -- of its job
  transport text        NOT NULL,
  stream    text        NOT NULL,
  position  text        NOT NULL,                   -- in the stream: 0/1042 is offset 1042 of partition 0
  names     text        NOT NULL DEFAULT '',        -- how the names of requests begin for which the stream may push
  body      bytea       NOT NULL,                   -- of a very long one the beginning
  size      bigint      NOT NULL,                   -- bytes
  hash      bytea       NOT NULL,                   -- SHA-256 of the whole: a stream that was made again counts again
  read_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT dead_messages_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT dead_message_is_kept_once UNIQUE (org_id, transport, stream, position, hash),
  CONSTRAINT dead_message_transport_is_known CHECK (transport IN ('redis', 'kafka', 'nats')),
  CONSTRAINT dead_message_is_short CHECK (length(body) <= least(size, 1048576))
);
CREATE TRIGGER dead_messages_are_append_only BEFORE UPDATE OR DELETE ON assent.dead_messages
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER dead_messages_are_never_emptied BEFORE TRUNCATE ON assent.dead_messages
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.dead_messages');
GRANT SELECT, INSERT ON assent.dead_messages TO assent_engine;

-- Keeps bundles for requests, in the order of the list, each once for its key, and returns the outcome of each: `accepted`;
-- `repeated`, where its key was taken before, or by one before it in the list; `late`, where the request has ended; or why
-- not: NOT_FOUND (no such request), UNKNOWN_VERSION (an item points to a version that is not there), REQUEST_NOT_OF_STREAM (the
-- request's name does not begin with `names`), SIGNATURE_MISSING (a source signs these results, and `unsigned` are refused).
-- Each of the list has org_id, request_id, body (a bundle that was checked), origin and payload. However many there are, it is
-- one statement. It runs as its owner, who alone takes numbers of the sequence, and holds itself to the org by name.
CREATE FUNCTION assent.keep_deliveries(
  bundles jsonb, come_by text, brought_by text DEFAULT NULL, names text DEFAULT '', unsigned boolean DEFAULT true,
  work_of text[] DEFAULT '{}')
RETURNS TABLE (number bigint, outcome text, version uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
-- Its statement is planned once a session, by index: planning it for each result took longer than keeping one (230 a second, 550).
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  has_work boolean := false;
BEGIN
  PERFORM assent.require_org(b.org_id) FROM (SELECT DISTINCT one ->> 'org_id' AS org_id FROM jsonb_array_elements(bundles) AS one) AS b;
  FOR number, outcome, version IN
    WITH given AS MATERIALIZED (
      SELECT b.number, b.one ->> 'org_id' AS org_id, (b.one ->> 'request_id')::uuid AS request_id, b.one -> 'body' AS body,
             b.one -> 'body' ->> 'key' AS key, b.one ->> 'origin' AS origin, nullif(b.one -> 'payload', 'null') AS payload
        FROM jsonb_array_elements(bundles) WITH ORDINALITY AS b (one, number)
    ), asked AS MATERIALIZED (
      SELECT g.*, r.name, r.partition_id, r.ended_at IS NOT NULL AS is_late
        FROM given g LEFT JOIN assent.outside_requests r ON r.org_id = g.org_id AND r.id = g.request_id
    ), lacking AS MATERIALIZED (
      SELECT DISTINCT ON (p.number) p.number, p.version
        FROM (SELECT a.number, a.org_id, a.partition_id, i.place,
                     substring(i.item ->> 'cargo' FROM '^version://assent/(.*)$')::uuid AS version
                FROM asked a CROSS JOIN LATERAL jsonb_array_elements(a.body -> 'items') WITH ORDINALITY AS i (item, place)
             ) AS p
       WHERE p.version IS NOT NULL AND NOT EXISTS (
         SELECT FROM assent.document_versions v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
          WHERE v.org_id = p.org_id AND v.id = p.version
            AND (d.partition_id IS NULL OR p.partition_id IS NULL OR d.partition_id = p.partition_id))
       ORDER BY p.number, p.place
    ), judged AS MATERIALIZED (
      SELECT a.*, l.version,
             CASE WHEN a.name IS NULL THEN 'NOT_FOUND'
                  WHEN NOT starts_with(a.name, names) THEN 'REQUEST_NOT_OF_STREAM'
                  WHEN NOT unsigned AND EXISTS (
                    SELECT FROM assent.event_sources s
                     WHERE s.org_id = a.org_id AND starts_with('result:' || a.name, s.key_prefix)) THEN 'SIGNATURE_MISSING'
                  WHEN l.version IS NOT NULL THEN 'UNKNOWN_VERSION' END AS problem
        FROM asked a LEFT JOIN lacking l ON l.number = a.number
    ), fresh AS MATERIALIZED (
      -- Positions are taken in the order of the list; rows are inserted in the order of their keys, so that two
      -- transactions with the same keys never wait for each other in a circle.
      SELECT f.*, assent.new_id() AS id, nextval('assent.outside_request_deliveries_position_seq') AS position
        FROM (SELECT * FROM (
                SELECT DISTINCT ON (j.org_id, j.request_id, j.key) j.*
                  FROM judged j WHERE j.problem IS NULL ORDER BY j.org_id, j.request_id, j.key, j.number) AS first
               ORDER BY first.number) AS f
    ), taken AS (
      INSERT INTO assent.outside_request_deliveries
             (org_id, id, position, request_id, key, source, pushed_by, people, origin, late, received_at)
      SELECT f.org_id, f.id, f.position, f.request_id, f.key, come_by, brought_by, work_of, f.origin, f.is_late, assent.now()
        FROM fresh f ORDER BY f.org_id, f.request_id, f.key
      ON CONFLICT (org_id, request_id, key) DO NOTHING
      RETURNING id
    ), queued AS (
      INSERT INTO assent.jobs (org_id, id, kind, lane, status, attempts_max, ended_at)
      SELECT f.org_id, f.id, 'result', left(f.name, 200), 'queued', 5, NULL
        FROM fresh f JOIN taken t ON t.id = f.id
    ), noted AS (
      INSERT INTO assent.outside_request_history (org_id, id, request_id, what, source, body, payload, at)
      SELECT f.org_id, f.id, f.request_id, 'delivered', come_by, f.body, f.payload, assent.now()
        FROM fresh f JOIN taken t ON t.id = f.id
    )
    SELECT j.number, coalesce(j.problem, CASE WHEN t.id IS NULL THEN 'repeated' WHEN j.is_late THEN 'late' ELSE 'accepted' END),
           j.version
      FROM judged j LEFT JOIN fresh f ON f.number = j.number LEFT JOIN taken t ON t.id = f.id
     ORDER BY j.number
  LOOP
    has_work := has_work OR outcome IN ('accepted', 'late');
    RETURN NEXT;
  END LOOP;
  IF has_work THEN
    PERFORM pg_notify('assent_results', '');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.keep_deliveries(jsonb, text, text, text, boolean, text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.keep_deliveries(jsonb, text, text, text, boolean, text[]) TO assent_engine;

-- Keeps one bundle for a request of the transaction's org: `accepted`, `repeated`, `late` or UNKNOWN_VERSION, as above; null where
-- there is no such request.
CREATE FUNCTION assent.keep_delivery(to_request uuid, bundle jsonb, come_by text, brought_by text,
  work_of text[] DEFAULT '{}')
RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp
RETURN (
  SELECT nullif(k.outcome, 'NOT_FOUND')
    FROM assent.keep_deliveries(
      jsonb_build_array(jsonb_build_object('org_id', assent.org_id(), 'request_id', to_request, 'body', bundle)),
      come_by, brought_by, work_of => work_of) AS k);

-- What is wrong with an item of a bundle; null where it is right.
CREATE FUNCTION assent.item_problem(item jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE
  WHEN jsonb_typeof(item) IS DISTINCT FROM 'object' THEN 'an item is an object'
  WHEN item - '{cargo,kind,status,error}'::text[] <> '{}' THEN 'an item has cargo, kind, status and error, and nothing else'
  WHEN EXISTS (SELECT FROM jsonb_each(item) WHERE jsonb_typeof(value) NOT IN ('string', 'null')) THEN 'an item holds texts'
  WHEN coalesce(item ->> 'status', 'completed') NOT IN ('completed', 'failed', 'expired')
    THEN 'the status of an item is completed, failed or expired'
  WHEN item ? 'status' AND item ->> 'status' IS NULL THEN 'the status of an item is completed, failed or expired'
  WHEN NOT assent.is_cargo(item ->> 'cargo')
    THEN 'the cargo of an item is version://assent/<id>, document://…, entity://…, screening://… or external://<system>/<id>'
  WHEN coalesce(item ->> 'status', 'completed') = 'completed' AND item ->> 'cargo' IS NULL
    THEN 'a completed item points to its cargo'
  WHEN length(item ->> 'kind') NOT BETWEEN 1 AND 200 THEN 'the kind of an item has 1 to 200 characters'
  WHEN length(item ->> 'error') > 2000 THEN 'the error of an item has 2000 characters at most'
END;

-- What is wrong with a bundle; null where it is right. The same as assent.model.outside_request.
CREATE FUNCTION assent.bundle_problem(key text, items jsonb, status text, error text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
RETURN CASE
  WHEN coalesce(length(key), 0) NOT BETWEEN 1 AND 200 THEN 'a result needs a key of 1 to 200 characters'
  WHEN assent.is_blank(key) THEN 'the key of a result is not blank'
  WHEN status IS NULL OR status NOT IN ('completed', 'failed', 'expired')
    THEN 'the status of a result is completed, failed or expired'
  WHEN length(error) > 2000 THEN 'the error of a result has 2000 characters at most'
  WHEN jsonb_typeof(items) IS DISTINCT FROM 'array' THEN 'the items of a result are a list'
  WHEN jsonb_array_length(items) > 500 THEN 'a result has 500 items at most'
  WHEN status = 'completed' AND items = '[]' THEN 'a completed result has items'
  ELSE (SELECT min(assent.item_problem(item)) FROM jsonb_array_elements(items) AS item)
END;

-- Pushes what an outside party sends for a request: `accepted`, `repeated` where its key was pushed before, or `late` where
-- the request has ended. For programs in any language, in their own transaction. It runs as its owner, since the caller has
-- no right to write, and holds itself to the org of the transaction (`assent.org_id`) by name.
CREATE FUNCTION assent.push_result(
  request_id uuid, key text, items jsonb, status text DEFAULT 'completed', error text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  problem text := assent.bundle_problem(key, items, status, error);
  pushed text;
BEGIN
  IF assent.org_id() IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a result needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF problem IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = problem;
  END IF;
  pushed := assent.keep_delivery(
    request_id, jsonb_build_object('key', key, 'status', status, 'items', items, 'error', error), 'sql', NULL);
  IF pushed IS NULL THEN
    RAISE no_data_found USING MESSAGE = format('no request %s', coalesce(request_id::text, 'without an id'));
  END IF;
  IF pushed = 'UNKNOWN_VERSION' THEN
    RAISE no_data_found USING MESSAGE = format('a result for request %s points to a version that is not there', request_id),
      HINT = 'Create the version first.';
  END IF;
  RETURN pushed;
END
$$;

-- Where programs in any language insert results, row by row or in bulk, in their own transaction. No row stays: what an
-- INSERT brings goes on at its end, by the trigger, to where push_result brings it. A row that cannot be kept is an error of
-- the INSERT, since its program can see why; whatever happens to a result later is no error of the program.
CREATE TABLE assent.incoming_results (
  org_id     text   NOT NULL DEFAULT assent.org_id(),
  number     bigint GENERATED BY DEFAULT AS IDENTITY,  -- the order in which they came
  request_id uuid,
  key        text,                                  -- the sender's own: the same again changes nothing
  status     text   DEFAULT 'completed',
  error      text,
  cargo      text,                                  -- of a result of one item
  kind       text,
  items      jsonb,                                 -- of a result of several
  payload    jsonb,                                 -- whatever the sender wants kept with it, for the record
  CONSTRAINT incoming_results_pkey PRIMARY KEY (org_id, number)
);
SELECT assent.guard_by_org('assent.incoming_results');
GRANT INSERT (org_id, request_id, key, status, error, cargo, kind, items, payload) ON assent.incoming_results TO assent_client;

-- Refuses a result of no org with words that say what to do, before row security refuses it without.
CREATE FUNCTION assent.refuse_result_without_org() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  RAISE invalid_parameter_value USING MESSAGE = 'a result needs an org',
    HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
END
$$;
CREATE TRIGGER incoming_results_have_an_org BEFORE INSERT ON assent.incoming_results
  FOR EACH ROW WHEN (NEW.org_id IS NULL) EXECUTE FUNCTION assent.refuse_result_without_org();

-- Takes what one INSERT brought: all of it, or none with an error that names the first row that cannot be kept.
CREATE FUNCTION assent.take_incoming_results() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bundles jsonb;
  refused record;
BEGIN
  SELECT jsonb_agg(jsonb_build_object(
           'org_id', i.org_id, 'request_id', i.request_id, 'payload', i.payload, 'both', i.items IS NOT NULL AND i.cargo IS NOT NULL,
           'body', jsonb_build_object('key', i.key, 'status', i.status, 'error', i.error, 'items',
             CASE WHEN i.items IS NOT NULL THEN i.items
                  WHEN i.cargo IS NULL AND i.kind IS NULL THEN '[]'
                  ELSE jsonb_build_array(jsonb_build_object('cargo', i.cargo, 'kind', i.kind, 'status', i.status)) END))
           ORDER BY i.number) INTO bundles
    FROM inserted i;
  IF bundles IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT b.one, p.problem INTO refused
    FROM jsonb_array_elements(bundles) WITH ORDINALITY AS b (one, number)
   CROSS JOIN LATERAL (SELECT CASE
     WHEN (b.one ->> 'both')::boolean THEN 'a result has items, or the cargo of its one item, and not both'
     ELSE assent.bundle_problem(b.one #>> '{body,key}', b.one #> '{body,items}', b.one #>> '{body,status}',
                                b.one #>> '{body,error}') END) AS p (problem)
   WHERE p.problem IS NOT NULL ORDER BY b.number LIMIT 1;
  IF FOUND THEN
    RAISE invalid_parameter_value USING MESSAGE = refused.problem,
      DETAIL = format('Found in the row for request %s with the key %L.', refused.one ->> 'request_id', refused.one #>> '{body,key}');
  END IF;
  SELECT k.outcome, k.version, bundles -> (k.number - 1)::integer AS one INTO refused
    FROM assent.keep_deliveries(bundles, 'table', NULL) AS k
   WHERE k.outcome NOT IN ('accepted', 'repeated', 'late') ORDER BY k.number LIMIT 1;
  IF FOUND THEN
    RAISE no_data_found USING
      MESSAGE = CASE refused.outcome WHEN 'UNKNOWN_VERSION' THEN format('no version %s', refused.version)
                ELSE format('no request %s', coalesce(refused.one ->> 'request_id', 'without an id')) END,
      DETAIL = format('Found in the row for request %s with the key %L.', refused.one ->> 'request_id', refused.one #>> '{body,key}');
  END IF;
  DELETE FROM assent.incoming_results r USING inserted i WHERE r.org_id = i.org_id AND r.number = i.number;
  RETURN NULL;
END
$$;
CREATE TRIGGER incoming_results_are_taken AFTER INSERT ON assent.incoming_results
  REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION assent.take_incoming_results();
GRANT EXECUTE ON FUNCTION assent.is_cargo(text), assent.item_problem(jsonb),
                          assent.bundle_problem(text, jsonb, text, text),
                          assent.keep_delivery(uuid, jsonb, text, text, text[]) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.push_result(uuid, text, jsonb, text, text) TO assent_engine, assent_client;
-- file: 82_documents.sql
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
-- file: 85_jobs.sql
-- Jobs: the one queue. Effects, tasks and results (outside_request_deliveries) are kinds of job.

-- Until when each worker is taken to be alive: one lease for all tasks, effects and results that it has claimed. A worker
-- that has claimed something has a row here. Workers belong to no org.
CREATE TABLE assent.worker_leases (
  worker_id    uuid        NOT NULL,
  leased_until timestamptz NOT NULL,
  lost_jobs    integer,                         -- how many it had when its lease was found to be over
  CONSTRAINT worker_leases_pkey PRIMARY KEY (worker_id)
);
ALTER TABLE assent.worker_leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.worker_leases USING (false);

-- What the code of workers declares by name, such as `operation:bank.pay`, and until when it is taken to be there: workers that
-- run say so again and again. An older worker leaves to a newer one what it does not know. Names belong to no org.
CREATE TABLE assent.declared_names (
  name           text        NOT NULL,
  declared_until timestamptz NOT NULL,
  CONSTRAINT declared_names_pkey PRIMARY KEY (name)
);
ALTER TABLE assent.declared_names ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.declared_names USING (false);

-- Whether the code of a worker declares one of these names.
CREATE FUNCTION assent.is_declared(names text[]) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM assent.declared_names d WHERE d.name = ANY (names) AND d.declared_until > assent.now());
REVOKE ALL ON FUNCTION assent.is_declared(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.is_declared(text[]) TO assent_engine;

-- One row for each job, narrow, because it changes with every attempt. What a job is about is in the row of its kind
-- (task_submissions, effects, outside_request_deliveries) under the same id, and the outcomes of its attempts are in job_attempts:
-- those rows are only inserted.
CREATE TABLE assent.jobs (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- sorts by the time of creation
  kind         text        NOT NULL,
  lane         text        NOT NULL,            -- type of a task, destination of an effect, name of a result's request
  status       text        NOT NULL DEFAULT 'queued',
  priority     smallint    NOT NULL DEFAULT 128, -- the higher the sooner; then the oldest
  attempts     integer     NOT NULL DEFAULT 0,  -- counted when they begin
  attempts_max integer     NOT NULL,
  run_at       timestamptz NOT NULL DEFAULT assent.now(), -- not before; after a failure, the next attempt; in the background, until then
  repeatable   boolean     NOT NULL DEFAULT true, -- whether it may run again after an attempt of unknown outcome
  worker_id    uuid,                            -- the worker that has claimed it
  claimed_at   timestamptz,
  losses       integer     NOT NULL DEFAULT 0,  -- how many workers were lost while they had it
  suspect      boolean     NOT NULL DEFAULT false, -- whether it may have killed one: no other suspect starts beside it
  resolved     boolean     NOT NULL DEFAULT false, -- of a dead one: its step or parent went on without it, or a person discarded it
  parent_id    uuid,                            -- of a subtask: the task that waits for it
  throttle     uuid,                            -- of a task: what limits when it may run, in task_throttles
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  ended_at     timestamptz,
  CONSTRAINT jobs_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT job_kind_is_known CHECK (kind IN ('task', 'effect', 'result')),
  CONSTRAINT job_lane_is_a_short_name CHECK (length(lane) BETWEEN 1 AND 200),
  CONSTRAINT job_status_is_known CHECK (status IN
    ('queued', 'running', 'blocked', 'background', 'retrying', 'done', 'cancelled', 'dead')),
  CONSTRAINT job_priority_is_a_byte CHECK (priority BETWEEN 0 AND 255),
  CONSTRAINT job_attempts_are_counted CHECK (attempts BETWEEN 0 AND attempts_max AND attempts_max >= 1),
  CONSTRAINT running_job_has_a_worker CHECK ((status = 'running') = (worker_id IS NOT NULL)),
  CONSTRAINT job_ends_when_its_status_says_so
    CHECK ((status IN ('done', 'cancelled', 'dead')) = (ended_at IS NOT NULL)),
  CONSTRAINT only_a_dead_job_is_resolved CHECK (NOT resolved OR status = 'dead'),
  CONSTRAINT only_a_task_is_throttled CHECK (throttle IS NULL OR kind = 'task'),
  CONSTRAINT only_a_task_has_a_parent CHECK (parent_id IS NULL OR kind = 'task'),
  CONSTRAINT only_a_task_waits_for_others CHECK (status NOT IN ('blocked', 'background') OR kind = 'task')
) WITH (fillfactor = 70);
-- The claim goes from org to org and lane to lane, and takes from each what is due first: what is to run tomorrow stands
-- behind what is due, and is never read. Tasks that a limit holds back have an index of their own: no other claim reads them.
CREATE INDEX jobs_to_run ON assent.jobs (kind, org_id, lane, priority, run_at, id)
  WHERE status IN ('queued', 'retrying') AND throttle IS NULL;
CREATE INDEX jobs_throttled ON assent.jobs (throttle, org_id, lane, priority, run_at, id)
  WHERE status IN ('queued', 'retrying') AND throttle IS NOT NULL;
CREATE INDEX jobs_running_throttled ON assent.jobs (org_id, throttle) WHERE status = 'running' AND throttle IS NOT NULL;
CREATE INDEX jobs_suspect ON assent.jobs (kind, run_at, org_id, id) WHERE status IN ('queued', 'retrying') AND suspect;
CREATE INDEX jobs_running ON assent.jobs (kind, worker_id) WHERE status = 'running';
CREATE INDEX jobs_dead ON assent.jobs (org_id, created_at, id) WHERE status = 'dead' AND NOT resolved;
-- Tasks that wait for their subtasks, and those subtasks that have not ended: one look for each parent, however many there are.
CREATE INDEX jobs_blocked ON assent.jobs (org_id, id) WHERE status = 'blocked';
CREATE INDEX jobs_background ON assent.jobs (run_at, org_id, id) WHERE status = 'background';
CREATE INDEX jobs_open_subtasks ON assent.jobs (org_id, parent_id, id)
  WHERE parent_id IS NOT NULL AND status NOT IN ('done', 'cancelled', 'dead');
CREATE INDEX jobs_ended ON assent.jobs (kind, ended_at) WHERE status IN ('done', 'cancelled');
CREATE TRIGGER job_status_moves_forward BEFORE UPDATE ON assent.jobs
  FOR EACH ROW EXECUTE FUNCTION assent.restrict_status_regression('jobs');
SELECT assent.guard_by_org('assent.jobs');
-- Other programs see tasks, and no other job.
CREATE POLICY clients_see_tasks ON assent.jobs AS RESTRICTIVE FOR SELECT TO assent_client USING (kind = 'task');
GRANT SELECT, INSERT, UPDATE (status, run_at, attempts_max, worker_id, suspect, resolved, ended_at) ON assent.jobs TO assent_engine;
GRANT SELECT ON assent.jobs TO assent_client;

-- Jobs that wait for a worker, in two parts: each has its own index.
CREATE VIEW assent.jobs_waiting WITH (security_invoker = true) AS
SELECT * FROM assent.jobs WHERE status IN ('queued', 'retrying') AND throttle IS NULL
UNION ALL
SELECT * FROM assent.jobs WHERE status IN ('queued', 'retrying') AND throttle IS NOT NULL;
GRANT SELECT ON assent.jobs_waiting TO assent_engine;

-- The outcome of each attempt; that of the last one is the job's own output or error.
CREATE TABLE assent.job_attempts (
  org_id     text        NOT NULL,
  job_id     uuid        NOT NULL,
  attempt    integer     NOT NULL,
  kind       text        NOT NULL,
  outcome    text        NOT NULL,
  output     jsonb,                             -- what a task returned; what a receiver answered to an effect
  code       text,
  error      text,
  ambiguous  boolean     NOT NULL DEFAULT false, -- whether it may have had its effect all the same
  error_type text,                              -- of a task's attempt that raised an exception: its type
  stack_trace text,
  retryable  boolean,                           -- of one that failed: whether a further attempt could help
  worker_id  uuid,                              -- null where a task was ended from outside, or its time there was over
  people     text[]      NOT NULL DEFAULT '{}', -- the members who ended it from outside: its output is their work
  started_at timestamptz NOT NULL,
  ended_at   timestamptz NOT NULL,
  CONSTRAINT job_attempts_pkey PRIMARY KEY (org_id, job_id, attempt),
  CONSTRAINT job_attempt_outcome_is_known CHECK (outcome IN ('done', 'blocked', 'background', 'failed', 'lost')),
  CONSTRAINT job_attempt_that_failed_says_why
    CHECK (num_nonnulls(code, error) = CASE WHEN outcome IN ('failed', 'lost') THEN 2 ELSE 0 END)
);
CREATE TRIGGER job_attempts_are_append_only BEFORE UPDATE OR DELETE ON assent.job_attempts
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER job_attempts_are_never_emptied BEFORE TRUNCATE ON assent.job_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.job_attempts');
-- What receivers answered to effects is not for other programs.
CREATE POLICY clients_see_attempts_at_tasks ON assent.job_attempts AS RESTRICTIVE FOR SELECT TO assent_client
  USING (kind = 'task');
GRANT SELECT, INSERT ON assent.job_attempts TO assent_engine;
GRANT SELECT ON assent.job_attempts TO assent_client;

-- Effects: HTTP calls, e-mails and messages that a step wants sent, or that Assent itself writes, without a step.
CREATE TABLE assent.effects (
  org_id          text        NOT NULL,
  id              uuid        NOT NULL,            -- of its job
  instance_id     uuid,
  step_id         uuid,
  step_created_at timestamptz,                     -- the step's partition, for its evidence
  type            text        NOT NULL,
  payload         jsonb       NOT NULL DEFAULT '{}',
  key             text        NOT NULL,            -- what the receiver sees as Idempotency-Key
  awaited         boolean     NOT NULL DEFAULT false, -- whether its step rests until the answer is there
  attempts_max    integer     NOT NULL,            -- of which a dead effect gets as many again
  trace_id        text,
  created_at      timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT effects_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_type_is_known CHECK (type IN ('webhook', 'email', 'sms', 'in_app', 'chat', 'integration')),
  CONSTRAINT effect_of_a_step_names_its_instance CHECK (num_nulls(instance_id, step_id, step_created_at) IN (0, 3)),
  CONSTRAINT only_a_step_awaits_an_effect CHECK (NOT awaited OR step_id IS NOT NULL)
);
CREATE INDEX effects_by_instance ON assent.effects (org_id, instance_id);
CREATE INDEX effects_by_step ON assent.effects (org_id, step_id);
CREATE TRIGGER effects_are_append_only BEFORE UPDATE OR DELETE ON assent.effects
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER effects_are_never_emptied BEFORE TRUNCATE ON assent.effects
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.effects');
GRANT SELECT, INSERT ON assent.effects TO assent_engine;

-- What an org writes in place of Assent's own mails, part by part; a part that is null is Assent's.
CREATE TABLE assent.mail_templates (
  org_id     text        NOT NULL,
  kind       text        NOT NULL,
  language   text        NOT NULL,
  subject    text,
  text       text,
  html       text,
  updated_by text        NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT mail_templates_pkey PRIMARY KEY (org_id, kind, language),
  CONSTRAINT mail_template_language_is_a_tag CHECK (language ~ '^[a-z]{2,3}(-[A-Z]{2})?$'),
  CONSTRAINT mail_template_has_a_part CHECK (num_nonnulls(subject, text, html) > 0),
  CONSTRAINT mail_template_subject_is_one_line CHECK (subject !~ '[\r\n]')
);
CREATE TRIGGER mail_templates_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.mail_templates FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('mail_template', 'create', 'delete', 'kind', 'language',
    'subject text html');
SELECT assent.guard_by_org('assent.mail_templates');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.mail_templates TO assent_engine;

-- What an org's webhooks are signed with. Settings of the org can be read by expressions, so these are not there; the
-- engine's role has no right to this table at all. Two may be active, while receivers change from one to the other.
CREATE TABLE assent.effect_secrets (
  org_id     text        NOT NULL,
  id         uuid        NOT NULL,
  secret     text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT assent.now(),
  retired_at timestamptz,
  CONSTRAINT effect_secrets_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT effect_secret_is_one_of_standard_webhooks CHECK (secret ~ '^whsec_[A-Za-z0-9+/]{32,88}={0,2}$')
);
CREATE TRIGGER effect_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.effect_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('effect_secret', 'create', 'delete', 'id', '', 'retired_at');
SELECT assent.guard_by_org('assent.effect_secrets');

-- Credentials for receivers, by the names that definitions call them. As with effect_secrets, the engine's role has no right
-- to this table: values are written by the owner's functions, and read by the effects worker when it sends. Each is for some
-- hosts only, so that an author cannot have it sent elsewhere.
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
CREATE TRIGGER named_secrets_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.named_secrets FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('secret', 'create', 'delete', 'name', '', 'hosts changed_at');
SELECT assent.guard_by_org('assent.named_secrets');

-- Tasks: background work of the application, as it was submitted.
CREATE TABLE assent.task_submissions (
  org_id       text        NOT NULL,
  id           uuid        NOT NULL,            -- of its job
  type         text        NOT NULL,
  input        jsonb       NOT NULL,
  key          text,
  attempts_max integer     NOT NULL,            -- of which a dead task gets as many again
  submitted_by text        NOT NULL,
  partition_id text,
  instance_id  uuid,                            -- of the step that submitted it
  step_id      uuid,
  awaited      boolean     NOT NULL DEFAULT false, -- whether that step rests until it has ended
  trace_id     text,
  parent_id    uuid,                            -- of a subtask: the task that made it
  parent_attempt integer,                       -- and at which attempt: subtasks of one attempt are waited for together
  depth        smallint    NOT NULL DEFAULT 0,  -- how many tasks it has above it
  is_callback  boolean     NOT NULL DEFAULT false, -- whether it was submitted with a batch, and runs when that has ended
  people       text[]      NOT NULL DEFAULT '{}', -- the members whose work it hands on; none of them approves what follows from it
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT task_submissions_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_of_a_step_names_its_instance CHECK ((instance_id IS NULL) = (step_id IS NULL)),
  CONSTRAINT only_a_step_awaits_a_task CHECK (NOT awaited OR step_id IS NOT NULL),
  CONSTRAINT subtask_names_the_attempt_that_made_it CHECK ((parent_id IS NULL) = (parent_attempt IS NULL)),
  CONSTRAINT subtask_has_its_depth CHECK ((parent_id IS NULL) = (depth = 0)),
  CONSTRAINT subtask_is_awaited_by_its_parent_alone CHECK (NOT awaited OR parent_id IS NULL)
);
CREATE INDEX task_submissions_by_parent ON assent.task_submissions (org_id, parent_id, parent_attempt, id)
  WHERE parent_id IS NOT NULL;
CREATE INDEX task_submissions_by_type ON assent.task_submissions (org_id, type, id);
CREATE INDEX task_submissions_by_step ON assent.task_submissions (org_id, instance_id, step_id)
  WHERE instance_id IS NOT NULL;
CREATE TRIGGER task_submissions_are_append_only BEFORE UPDATE OR DELETE ON assent.task_submissions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting('prune');
CREATE TRIGGER task_submissions_are_never_emptied BEFORE TRUNCATE ON assent.task_submissions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_submissions');
GRANT SELECT, INSERT ON assent.task_submissions TO assent_engine;
GRANT SELECT ON assent.task_submissions TO assent_client;

-- What tasks use that can do only so much at a time, such as a model server: the newest worker that declares it says how many tasks
-- of all orgs may run with it. How many do is counted, and kept nowhere. Resources belong to no org.
CREATE TABLE assent.resources (
  name            text        NOT NULL,
  max_concurrency integer,                      -- without it, any number
  declared_at     timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT resources_pkey PRIMARY KEY (name),
  CONSTRAINT resource_name_is_short CHECK (length(name) BETWEEN 1 AND 100 AND NOT assent.is_blank(name)),
  CONSTRAINT resource_lets_one_task_run CHECK (max_concurrency >= 1)
);
ALTER TABLE assent.resources ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.resources USING (false);

-- What limits when tasks may run: the resources that they use, and how many of a key may start in a period. Tasks with the same limits
-- share a row, whose id is a hash of it.
CREATE TABLE assent.task_throttles (
  org_id      text    NOT NULL,
  id          uuid    NOT NULL,
  resources   text[]  NOT NULL,
  rate_key    text,
  rate_max    integer,
  rate_period interval,
  CONSTRAINT task_throttles_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT task_throttle_limits_something CHECK (cardinality(resources) > 0 OR rate_key IS NOT NULL),
  CONSTRAINT task_throttle_has_few_resources CHECK (cardinality(resources) <= 10),
  CONSTRAINT rate_of_a_throttle_is_whole CHECK (num_nulls(rate_key, rate_max, rate_period) IN (0, 3)),
  CONSTRAINT rate_of_a_throttle_lets_one_start CHECK (rate_max BETWEEN 1 AND 100000 AND rate_period > interval '0'),
  CONSTRAINT rate_key_is_short CHECK (length(rate_key) BETWEEN 1 AND 500)
);
CREATE TRIGGER task_throttles_are_append_only BEFORE UPDATE OR DELETE ON assent.task_throttles
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_throttles_are_never_emptied BEFORE TRUNCATE ON assent.task_throttles
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_throttles');
GRANT SELECT, INSERT ON assent.task_throttles TO assent_engine;

-- The starts of tasks that have a rate limit, as long as they count. Only workers write here.
CREATE TABLE assent.rate_starts (
  org_id     text        NOT NULL,
  key        text        NOT NULL,
  at         timestamptz NOT NULL,
  task_id    uuid        NOT NULL,
  expires_at timestamptz NOT NULL,
  CONSTRAINT rate_starts_pkey PRIMARY KEY (org_id, key, at, task_id)
);
CREATE INDEX rate_starts_expired ON assent.rate_starts (expires_at);
SELECT assent.guard_by_org('assent.rate_starts');

-- The resources with how many tasks of all orgs run with each: numbers, and nothing of whose they are.
CREATE FUNCTION assent.list_resources() RETURNS TABLE (name text, max_concurrency integer, running bigint, declared_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT r.name, r.max_concurrency,
         (SELECT count(*) FROM assent.jobs j JOIN assent.task_throttles t ON t.org_id = j.org_id AND t.id = j.throttle
           WHERE j.status = 'running' AND j.throttle IS NOT NULL AND r.name = ANY (t.resources)),
         r.declared_at
    FROM assent.resources r ORDER BY r.name;
END;
REVOKE ALL ON FUNCTION assent.list_resources() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.list_resources() TO assent_engine;

-- Tasks whose end a process waits for: the transaction that ends one notifies those who wait, and no other does.
CREATE TABLE assent.task_waiters (
  org_id  text NOT NULL,
  task_id uuid NOT NULL,
  CONSTRAINT task_waiters_pkey PRIMARY KEY (org_id, task_id)
);
SELECT assent.guard_by_org('assent.task_waiters');
GRANT SELECT, INSERT, DELETE ON assent.task_waiters TO assent_engine;

-- Notifies the processes that wait for the end of these tasks. It is a statement of its own after the one that ended them: it
-- sees who began to wait meanwhile.
CREATE FUNCTION assent.notify_waiters(orgs text[], tasks uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  task uuid;
BEGIN
  IF NOT EXISTS (SELECT FROM assent.task_waiters) THEN
    RETURN;
  END IF;
  FOR task IN
    DELETE FROM assent.task_waiters w USING unnest(orgs, tasks) AS ended (org_id, id)
     WHERE w.org_id = ended.org_id AND w.task_id = ended.id RETURNING w.task_id
  LOOP
    PERFORM pg_notify('assent_task_ends', task::text);
  END LOOP;
END
$$;
REVOKE ALL ON FUNCTION assent.notify_waiters(text[], uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.notify_waiters(text[], uuid[]) TO assent_engine;

-- How far a task is, as its attempt said last: one row, overwritten at most once in a worker's interval.
CREATE TABLE assent.task_progress (
  org_id   text             NOT NULL,
  task_id  uuid             NOT NULL,
  attempt  integer          NOT NULL,
  fraction double precision NOT NULL,
  message  text             NOT NULL,
  at       timestamptz      NOT NULL,
  CONSTRAINT task_progress_pkey PRIMARY KEY (org_id, task_id),
  CONSTRAINT task_progress_is_a_part_of_the_whole CHECK (fraction BETWEEN 0 AND 1)
);
SELECT assent.guard_by_org('assent.task_progress');
-- A task that writes rows of its own writes its notes in the same transaction, as this role.
GRANT SELECT, INSERT, UPDATE ON assent.task_progress TO assent_engine;

-- The lines that attempts wrote. Only workers write here, and a task's lines are deleted with it.
CREATE TABLE assent.task_log_lines (
  org_id   text        NOT NULL,
  task_id  uuid        NOT NULL,
  attempt  integer     NOT NULL,
  position integer     NOT NULL,                -- from 1, in the attempt
  level    text        NOT NULL,
  message  text        NOT NULL,
  at       timestamptz NOT NULL,
  CONSTRAINT task_log_lines_pkey PRIMARY KEY (org_id, task_id, attempt, position),
  CONSTRAINT task_log_level_is_known CHECK (level IN ('debug', 'info', 'warning', 'error'))
);
SELECT assent.guard_by_org('assent.task_log_lines');
GRANT SELECT, INSERT ON assent.task_log_lines TO assent_engine;

-- A key stands for one task of its type in its partition for good, also after that is pruned.
CREATE TABLE assent.task_keys (
  org_id       text  NOT NULL,
  type         text  NOT NULL,
  partition_id text  NOT NULL DEFAULT '',       -- '' is the whole org, because a primary key needs a value
  key          text  NOT NULL,
  task_id      uuid  NOT NULL,
  input_hash   bytea NOT NULL,
  CONSTRAINT task_keys_pkey PRIMARY KEY (org_id, type, partition_id, key),
  CONSTRAINT task_key_is_short CHECK (length(key) BETWEEN 1 AND 200),
  CONSTRAINT task_key_is_not_blank CHECK (NOT assent.is_blank(key))
);
CREATE TRIGGER task_keys_are_append_only BEFORE UPDATE OR DELETE ON assent.task_keys
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER task_keys_are_never_emptied BEFORE TRUNCATE ON assent.task_keys
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
SELECT assent.guard_by_org('assent.task_keys');
GRANT SELECT, INSERT ON assent.task_keys TO assent_engine;

-- The hash of an input, whatever its source: jsonb has one text for what is equal.
CREATE FUNCTION assent.input_hash(input jsonb) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sha256(convert_to(input::text, 'UTF8'));

-- Submits a task and returns its id; the same key again returns the id of the task that it submitted before, and another
-- input under it is refused. For programs in any language, in their own transaction: the task is of the whole org, and its
-- keys meet no partition's. It runs as its owner, since the caller has no right to write, and holds itself to the org of the
-- transaction (`assent.org_id`) by name.
CREATE FUNCTION assent.submit_task(type text, input jsonb DEFAULT '{}', key text DEFAULT NULL,
  priority integer DEFAULT 128, run_at timestamptz DEFAULT NULL, attempts_max integer DEFAULT 8,
  delay interval DEFAULT NULL, resources text[] DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  org text := assent.org_id();
  task uuid := assent.new_id();
  due timestamptz := coalesce(run_at, assent.now() + coalesce(delay, interval '0'));
  used text[] := ARRAY(SELECT DISTINCT r FROM unnest(resources) AS r ORDER BY r);
  throttle uuid := CASE WHEN cardinality(used) > 0 THEN md5(used::text)::uuid END;
  known record;
BEGIN
  IF org IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs an org',
      HINT = 'SELECT set_config(''assent.org_id'', ''acme'', true) first, in the same transaction.';
  END IF;
  IF jsonb_typeof(input) IS DISTINCT FROM 'object' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the input of a task is an object';
  END IF;
  IF coalesce(assent.is_blank(type), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task needs a type', DETAIL = format('Found %L.', type);
  END IF;
  IF assent.is_blank(key) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the key of a task is not blank', DETAIL = format('Found %L.', key),
      HINT = 'Leave it out where there is none.';
  END IF;
  IF run_at IS NOT NULL AND delay IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task has a time or a delay, and not both';
  END IF;
  IF NOT used <@ ARRAY(SELECT r.name FROM assent.resources r) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a task uses resources that workers have declared',
      DETAIL = format('Found %L.', used);
  END IF;
  IF key IS NOT NULL THEN
    INSERT INTO assent.task_keys (org_id, type, partition_id, key, task_id, input_hash)
    VALUES (org, type, '', key, task, assent.input_hash(input)) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT k.task_id, k.input_hash INTO STRICT known FROM assent.task_keys k
       WHERE k.org_id = org AND k.type = submit_task.type AND k.partition_id = '' AND k.key = submit_task.key;
      IF known.input_hash <> assent.input_hash(input) THEN
        RAISE unique_violation USING
          MESSAGE = format('key %L of %s was used for another input, by task %s', key, type, known.task_id),
          HINT = 'A key stands for one task for good; take another.';
      END IF;
      RETURN known.task_id;
    END IF;
  END IF;
  INSERT INTO assent.task_throttles (org_id, id, resources)
  SELECT org, throttle, used WHERE throttle IS NOT NULL ON CONFLICT DO NOTHING;
  INSERT INTO assent.jobs (org_id, id, kind, lane, priority, run_at, attempts_max, throttle)
  VALUES (org, task, 'task', type, priority, due, attempts_max, throttle);
  INSERT INTO assent.task_submissions (org_id, id, type, input, key, attempts_max, submitted_by)
  VALUES (org, task, type, input, key, attempts_max, 'sql:' || assent.calling_role());
  IF due <= assent.now() THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  RETURN task;
END
$$;
GRANT EXECUTE ON FUNCTION assent.input_hash(jsonb) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.submit_task(text, jsonb, text, integer, timestamptz, integer, interval, text[])
  TO assent_engine, assent_client;

-- Cancels tasks that have not ended, with their subtasks that have not, and notifies the workers once where one of them runs. It goes
-- from level to level: subtasks are looked for after their parent was locked, for the parent may just have made them.
CREATE FUNCTION assent.cancel_tasks(orgs text[], tasks uuid[]) RETURNS TABLE (org_id text, id uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  level_orgs text[] := orgs;
  level_tasks uuid[] := tasks;
  some_run boolean;
  any_runs boolean := false;
BEGIN
  LOOP
    WITH open AS MATERIALIZED (
      SELECT j.org_id, j.id, j.status FROM unnest(level_orgs, level_tasks) AS level (org_id, id)
        JOIN assent.jobs j ON j.org_id = level.org_id AND j.id = level.id
       WHERE j.kind = 'task' AND j.status NOT IN ('done', 'cancelled', 'dead')
       ORDER BY j.org_id, j.id FOR UPDATE OF j
    ), cancelled AS (
      UPDATE assent.jobs j SET status = 'cancelled', worker_id = NULL, ended_at = assent.now()
        FROM open WHERE j.org_id = open.org_id AND j.id = open.id
    )
    SELECT array_agg(open.org_id), array_agg(open.id), bool_or(open.status = 'running')
      INTO level_orgs, level_tasks, some_run FROM open;
    EXIT WHEN level_tasks IS NULL;
    any_runs := any_runs OR some_run;
    PERFORM assent.notify_waiters(level_orgs, level_tasks);
    RETURN QUERY SELECT level.* FROM unnest(level_orgs, level_tasks) AS level;
    SELECT array_agg(j.org_id), array_agg(j.id) INTO level_orgs, level_tasks
      FROM unnest(level_orgs, level_tasks) AS parent (org_id, id)
      JOIN assent.jobs j ON j.org_id = parent.org_id AND j.parent_id = parent.id
     WHERE j.status NOT IN ('done', 'cancelled', 'dead');
    EXIT WHEN level_tasks IS NULL;
  END LOOP;
  IF any_runs THEN
    PERFORM pg_notify('assent_tasks', 'cancelled');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.cancel_tasks(text[], uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.cancel_tasks(text[], uuid[]) TO assent_engine;

-- Whose work a task hands on: of its submission and of its ends from outside, and the same of all subtasks below it.
CREATE FUNCTION assent.people_of_task(org text, task uuid) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  WITH RECURSIVE tree AS (
    SELECT s.id, s.people FROM assent.task_submissions s WHERE s.org_id = org AND s.id = task
    UNION ALL
    SELECT s.id, s.people FROM tree JOIN assent.task_submissions s ON s.org_id = org AND s.parent_id = tree.id
  )
  SELECT coalesce(array_agg(DISTINCT p.person ORDER BY p.person), '{}')
    FROM (SELECT unnest(t.people) AS person FROM tree t
          UNION ALL
          SELECT unnest(a.people) FROM tree t JOIN assent.job_attempts a ON a.org_id = org AND a.job_id = t.id) AS p;
END;
REVOKE ALL ON FUNCTION assent.people_of_task(text, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.people_of_task(text, uuid) TO assent_engine;

-- Ends the attempt at a task from outside of the workers, whether its function has returned or still runs: the first end counts.
-- It is a row of its own in job_attempts, and the task has as many attempts left as before. Returns the task's status then,
-- null where it is not under way. The steps and tasks that wait for it go on.
CREATE FUNCTION assent.end_task(
  org text, task uuid, output jsonb, code text, error text, retryable boolean, people text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  former record;
  ended record;
  event_key text;
BEGIN
  SELECT j.status, j.attempts, j.attempts_max INTO former FROM assent.jobs j
   WHERE j.org_id = org AND j.id = task AND j.kind = 'task' AND j.status IN ('background', 'running') FOR UPDATE;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  UPDATE assent.jobs j
     SET status = CASE WHEN code IS NULL THEN 'done' WHEN retryable AND j.attempts < j.attempts_max THEN 'retrying' ELSE 'dead' END,
         attempts = j.attempts + 1, attempts_max = j.attempts_max + 1, worker_id = NULL, suspect = false,
         run_at = CASE WHEN code IS NULL THEN j.run_at
                       ELSE assent.now() + least(3600, 2 ^ least(j.attempts - 1, 12)) * interval '1 second' END,
         resolved = code IS NOT NULL AND NOT (retryable AND j.attempts < j.attempts_max) AND j.parent_id IS NOT NULL,
         ended_at = CASE WHEN code IS NULL OR NOT (retryable AND j.attempts < j.attempts_max) THEN assent.now() END
   WHERE j.org_id = org AND j.id = task
  RETURNING j.status, j.attempts, j.claimed_at, j.parent_id INTO ended;
  INSERT INTO assent.job_attempts (org_id, job_id, attempt, kind, outcome, output, code, error, retryable, people, started_at,
         ended_at)
  VALUES (org, task, ended.attempts, 'task', CASE WHEN code IS NULL THEN 'done' ELSE 'failed' END, output, code, left(error, 2000),
          CASE WHEN code IS NOT NULL THEN retryable END, people, ended.claimed_at, assent.now());
  IF former.status = 'running' THEN
    PERFORM pg_notify('assent_tasks', 'cancelled');
  END IF;
  IF ended.status = 'retrying' THEN
    RETURN ended.status;
  END IF;
  PERFORM assent.notify_waiters(ARRAY[org], ARRAY[task]);
  UPDATE assent.jobs p SET status = 'queued', run_at = assent.now()
   WHERE p.org_id = org AND p.id = ended.parent_id AND p.status = 'blocked'
     AND NOT EXISTS (SELECT FROM assent.jobs c WHERE c.org_id = org AND c.parent_id = p.id
                        AND c.status NOT IN ('done', 'cancelled', 'dead'));
  IF FOUND THEN
    PERFORM pg_notify('assent_tasks', '');
  END IF;
  event_key := encode(sha256(convert_to(format('task ended:%s', task), 'UTF8')), 'hex');
  WITH awaited AS (
    SELECT s.instance_id, s.step_id, s.trace_id FROM assent.task_submissions s
     WHERE s.org_id = org AND s.id = task AND s.awaited
  ), receipt AS (
    INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
    SELECT org, instance_id, 'events', event_key, assent.now() FROM awaited
  )
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, instance_id, event_type, payload_json, event_idempotency_key,
         trace_id)
  SELECT org, assent.now(), assent.new_id(), instance_id, 'on_event',
         jsonb_build_object('cause', task, 'step', step_id,
           'outcome', CASE WHEN code IS NULL THEN 'completed' ELSE 'error' END,
           'data', CASE WHEN code IS NULL THEN output ELSE jsonb_build_object('code', code, 'message', error) END,
           'people', assent.people_of_task(org, task)),
         event_key, trace_id
    FROM awaited;
  IF FOUND THEN
    PERFORM pg_notify('assent_events', '');
  END IF;
  RETURN ended.status;
END
$$;
REVOKE ALL ON FUNCTION assent.end_task(text, uuid, jsonb, text, text, boolean, text[]) FROM PUBLIC;

-- Completes a task that is in the background, for the org of the transaction; returns its status then, null where it is not under
-- way. For programs in any language, in their own transaction.
CREATE FUNCTION assent.complete_task(task uuid, output jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN assent.end_task(assent.org_id(), task, output, NULL, NULL, false);

-- The same with the members whose work the output is, which other programs cannot say.
CREATE FUNCTION assent.complete_task_by(task uuid, output jsonb, people text[]) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN assent.end_task(assent.org_id(), task, output, NULL, NULL, false, people);

-- Fails a task that is in the background. It is tried again where that may help and attempts are left; else it is dead.
CREATE FUNCTION assent.fail_task(task uuid, message text, code text DEFAULT 'TASK_FAILED', retryable boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(assent.is_blank(message) OR assent.is_blank(code), true) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a failure has a code and a message',
      DETAIL = format('Found %L and %L.', code, message);
  END IF;
  RETURN assent.end_task(assent.org_id(), task, NULL, code, message, coalesce(retryable, false));
END
$$;
REVOKE ALL ON FUNCTION assent.complete_task(uuid, jsonb), assent.complete_task_by(uuid, jsonb, text[]),
  assent.fail_task(uuid, text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.complete_task_by(uuid, jsonb, text[]) TO assent_engine;
GRANT EXECUTE ON FUNCTION assent.complete_task(uuid, jsonb), assent.fail_task(uuid, text, text, boolean)
  TO assent_engine, assent_client;

-- What jobs of every kind are about: the step that wants them, and how many attempts they were given.
CREATE VIEW assent.job_origins WITH (security_invoker = true) AS
SELECT s.org_id, s.id, 'task' AS kind, s.attempts_max, s.awaited, s.instance_id, s.step_id, s.partition_id, s.trace_id
  FROM assent.task_submissions s
UNION ALL
SELECT e.org_id, e.id, 'effect', e.attempts_max, e.awaited, e.instance_id, e.step_id,
       (SELECT i.partition_id FROM assent.workflow_instances i WHERE i.org_id = e.org_id AND i.id = e.instance_id), e.trace_id
  FROM assent.effects e
UNION ALL
SELECT d.org_id, d.id, 'result', 5, false, r.instance_id, r.step_id, r.partition_id, r.trace_id
  FROM assent.outside_request_deliveries d JOIN assent.outside_requests r ON r.org_id = d.org_id AND r.id = d.request_id
UNION ALL
SELECT m.org_id, m.id, 'result', 5, false, NULL, NULL, NULL, NULL FROM assent.dead_messages m;
GRANT SELECT ON assent.job_origins TO assent_engine;

-- What waits for an operator, each thing once: instances that an error paused; events and jobs that are dead. A dead event, or
-- a job that its step awaited, belongs to the incident of its instance while that is paused.
CREATE VIEW assent.incidents WITH (security_invoker = true) AS
SELECT i.org_id, i.id, 'instance' AS kind, i.incident ->> 'code' AS code, i.incident ->> 'message' AS message,
       i.incident ->> 'node' AS node, i.updated_at AS since, NULL AS what, i.id AS instance_id, i.partition_id,
       i.workflow_id AS definition, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.workflow_instances i
 WHERE i.status = 'paused' AND coalesce(i.incident ->> 'code', 'PAUSED') <> 'PAUSED'
UNION ALL
SELECT e.org_id, e.id, 'event', 'EVENT_FAILED', e.error, NULL, e.created_at, e.event_type, e.instance_id,
       coalesce(e.payload_json ->> 'partition', i.partition_id),
       i.workflow_id, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.workflow_events_outbox e
  LEFT JOIN assent.workflow_instances i ON i.org_id = e.org_id AND i.id = e.instance_id
 WHERE e.status = 'dead' AND i.status IS DISTINCT FROM 'paused'
UNION ALL
SELECT j.org_id, j.id, j.kind, coalesce(a.code, 'UNKNOWN'), a.error,
       (SELECT s.node_id FROM assent.workflow_step_executions s
         WHERE s.org_id = o.org_id AND s.instance_id = o.instance_id AND s.id = o.step_id),
       j.ended_at, j.lane, o.instance_id, o.partition_id,
       i.workflow_id, i.definition_id, i.definition_version, i.definition_hash
  FROM assent.jobs j
 CROSS JOIN LATERAL (
    SELECT * FROM assent.job_origins s WHERE s.org_id = j.org_id AND s.id = j.id AND s.kind = j.kind) AS o
  LEFT JOIN assent.job_attempts a ON a.org_id = j.org_id AND a.job_id = j.id AND a.attempt = j.attempts
  LEFT JOIN assent.workflow_instances i ON i.org_id = o.org_id AND i.id = o.instance_id
 WHERE j.status = 'dead' AND NOT j.resolved AND NOT (o.awaited AND coalesce(i.status = 'paused', false));
GRANT SELECT ON assent.incidents TO assent_engine;

-- Which open incidents an org's alerts have named, and when its last alert was. Only workers write here.
CREATE TABLE assent.alerted_incidents (
  org_id      text        NOT NULL,
  kind        text        NOT NULL,
  incident_id uuid        NOT NULL,
  alerted_at  timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT alerted_incidents_pkey PRIMARY KEY (org_id, kind, incident_id)
);
SELECT assent.guard_by_org('assent.alerted_incidents');

CREATE TABLE assent.alert_times (
  org_id  text        NOT NULL,
  last_at timestamptz NOT NULL DEFAULT '-infinity',
  CONSTRAINT alert_times_pkey PRIMARY KEY (org_id)
);
SELECT assent.guard_by_org('assent.alert_times');

-- Open incidents that no alert has named yet. An alert that is dead itself is none: alerts make no alerts.
CREATE VIEW assent.incidents_to_alert WITH (security_invoker = true) AS
SELECT i.* FROM assent.incidents i
 WHERE NOT EXISTS (SELECT FROM assent.alerted_incidents a
                    WHERE a.org_id = i.org_id AND a.kind = i.kind AND a.incident_id = i.id)
   AND NOT (i.kind = 'effect' AND EXISTS (
         SELECT FROM assent.effects e
          WHERE e.org_id = i.org_id AND e.id = i.id AND e.type = 'webhook' AND e.payload ? 'alert'));
-- file: 87_schedules.sql
-- Schedules: cron lines that start tasks. A worker moves a schedule to its next time in the transaction that submits the task of
-- this one, with the row locked: each time starts one task, however many workers look.
CREATE TABLE assent.schedules (
  org_id       text        NOT NULL,
  name         text        NOT NULL,
  task_type    text        NOT NULL,
  input        jsonb       NOT NULL DEFAULT '{}',
  cron         text        NOT NULL,
  zone         text        NOT NULL DEFAULT 'UTC',
  missed       text        NOT NULL DEFAULT 'once', -- times that came while no worker ran: none of them, one task for all, one for each
  partition_id text,
  declared     boolean     NOT NULL DEFAULT false,  -- by the code of an application, which alone changes it
  paused       boolean     NOT NULL DEFAULT false,
  problem      text,                                -- why a worker paused it
  next_at      timestamptz NOT NULL,
  last_at      timestamptz,                         -- the last time that started a task
  last_task_id uuid,
  created_by   text        NOT NULL,
  people       text[]      NOT NULL DEFAULT '{}',   -- the members who made and changed it: its tasks hand on their work
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  updated_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT schedules_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT schedule_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT schedule_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT schedule_input_is_an_object CHECK (jsonb_typeof(input) = 'object'),
  CONSTRAINT schedule_line_is_short CHECK (length(cron) BETWEEN 9 AND 100),
  CONSTRAINT schedule_zone_is_short CHECK (length(zone) BETWEEN 1 AND 100),
  CONSTRAINT schedule_missed_is_known CHECK (missed IN ('skip', 'once', 'all')),
  CONSTRAINT only_a_paused_schedule_has_a_problem CHECK (problem IS NULL OR paused),
  CONSTRAINT schedule_that_ran_names_its_task CHECK ((last_at IS NULL) = (last_task_id IS NULL))
);
CREATE INDEX schedules_due ON assent.schedules (next_at, org_id, name) WHERE NOT paused;
-- What people administer is noted, and not that a time has come: that is a task.
CREATE TRIGGER schedules_are_audited
  AFTER INSERT OR DELETE OR UPDATE OF task_type, input, cron, zone, missed, partition_id, declared, paused, problem ON assent.schedules
  FOR EACH ROW EXECUTE FUNCTION assent.note_administration('schedule', 'create', 'delete', 'name', 'task_type',
    'task_type input cron zone missed paused problem');
SELECT assent.guard_by_org('assent.schedules');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.schedules TO assent_engine;
-- file: 88_nodes.sql
-- The processes that run: workers and servers say so again and again, in one row each. Nothing is decided by it: jobs of a worker
-- that died are rescued by its lease. Processes belong to no org.
CREATE TABLE assent.nodes (
  node_id        uuid        NOT NULL,          -- of a worker: the worker_id of its jobs and their attempts
  host           text        NOT NULL,
  pid            integer     NOT NULL,
  version        text        NOT NULL,          -- of Assent
  serves         boolean     NOT NULL,          -- whether it is an HTTP server
  duties         text[]      NOT NULL,          -- what it runs in the background
  task_types     text[]      NOT NULL,          -- of tasks, where it runs some
  started_at     timestamptz NOT NULL DEFAULT assent.now(),
  seen_at        timestamptz NOT NULL DEFAULT assent.now(),
  expected_until timestamptz NOT NULL,          -- taken for lost, where it has said nothing by then
  CONSTRAINT nodes_pkey PRIMARY KEY (node_id)
);
ALTER TABLE assent.nodes ENABLE ROW LEVEL SECURITY;
CREATE POLICY rows_of_nobody ON assent.nodes USING (false);

-- The processes that run, and those that were lost not long ago, by host and id. The caller checks who may see them.
CREATE FUNCTION assent.list_nodes(after_host text, after_id uuid, most integer)
RETURNS TABLE (id uuid, host text, pid integer, version text, status text, serves boolean, duties text[], task_types text[],
               started_at timestamptz, seen_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
  SELECT n.node_id, n.host, n.pid, n.version, CASE WHEN n.expected_until > assent.now() THEN 'alive' ELSE 'lost' END,
         n.serves, n.duties, n.task_types, n.started_at, n.seen_at
    FROM assent.nodes n
   WHERE after_host IS NULL OR (n.host, n.node_id) > (after_host, after_id)
   ORDER BY n.host, n.node_id LIMIT most;
END;
REVOKE ALL ON FUNCTION assent.list_nodes(text, uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.list_nodes(text, uuid, integer) TO assent_engine;
-- file: 89_triggers.sql
-- Joins: which tasks of the types that a join waits for have completed, by the key that they have in common. One row for each key,
-- for good: the worker whose completion was the last one missing starts the task, and writes its id here in the same statement.
CREATE TABLE assent.task_joins (
  org_id       text        NOT NULL,
  name         text        NOT NULL,             -- of the join, which the code of an application declares
  partition_id text        NOT NULL DEFAULT '',  -- empty: tasks of the whole org
  key          text        NOT NULL,
  types        text[]      NOT NULL,             -- that it waits for
  completed    jsonb       NOT NULL,             -- type → {"task": id, "output": …, "people": […]}, of the first task of each type
  task_id      uuid        NOT NULL,             -- of the task that it has started; before, of no task yet
  started      boolean     NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT task_joins_pkey PRIMARY KEY (org_id, name, partition_id, key),
  CONSTRAINT task_join_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT task_join_key_is_short CHECK (length(key) BETWEEN 1 AND 256),
  CONSTRAINT task_join_completed_is_an_object CHECK (jsonb_typeof(completed) = 'object')
);
SELECT assent.guard_by_org('assent.task_joins');

-- What the database itself emits, where the code of some worker declares that something waits for it, by a name such as
-- `watch:document.version`. It stays watched while no worker runs.
CREATE INDEX names_that_watch ON assent.declared_names (name) WHERE starts_with(name, 'watch:');

-- Emits events that the database has seen, each once for its key and its cause, in the transaction of what has happened.
CREATE FUNCTION assent.emit_seen(events jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WITH seen AS MATERIALIZED (
    SELECT e.*, encode(sha256(convert_to(format('%s by the database:%s', e.key, e.cause), 'UTF8')), 'hex') AS receipt
      FROM jsonb_to_recordset(events) AS e (
             org_id text, key text, cause text, partition_id text, trace_id text, people jsonb, data jsonb)
  ), receipts AS (
    INSERT INTO assent.workflow_outbox_receipts (org_id, instance_id, source_table, event_idempotency_key, created_at)
    SELECT org_id, '00000000-0000-0000-0000-000000000000', 'events', receipt, assent.now() FROM seen
    ON CONFLICT DO NOTHING
    RETURNING org_id, event_idempotency_key
  )
  INSERT INTO assent.workflow_events_outbox (org_id, created_at, id, event_type, payload_json, event_idempotency_key, trace_id)
  SELECT s.org_id, assent.now(), assent.new_id(), 'on_event',
         jsonb_strip_nulls(jsonb_build_object('partition', s.partition_id, 'people', s.people))
         || jsonb_build_object('cause', s.cause, 'key', s.key, 'data', s.data), s.receipt, s.trace_id
    FROM seen s JOIN receipts r ON r.org_id = s.org_id AND r.event_idempotency_key = s.receipt;
  IF FOUND THEN
    PERFORM pg_notify('assent_events', '');
  END IF;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_seen(jsonb) FROM PUBLIC;

-- Tasks that have completed, by whichever way, as events under `task.completed:<type>`.
CREATE FUNCTION assent.emit_completions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Most applications watch nothing, and pay this look for a whole batch.
  IF NOT EXISTS (SELECT FROM assent.declared_names d WHERE starts_with(d.name, 'watch:')) THEN
    RETURN NULL;
  END IF;
  PERFORM assent.emit_seen(jsonb_agg(jsonb_build_object('org_id', a.org_id, 'key', 'task.completed:' || s.type, 'cause', a.job_id,
            'partition_id', s.partition_id, 'trace_id', s.trace_id, 'people', nullif(assent.people_of_task(a.org_id, a.job_id), '{}'),
            'data', jsonb_build_object('id', a.job_id, 'type', s.type, 'input', s.input, 'output', a.output))))
     FROM written a JOIN assent.task_submissions s ON s.org_id = a.org_id AND s.id = a.job_id
    WHERE a.kind = 'task' AND a.outcome = 'done'
      AND EXISTS (SELECT FROM assent.declared_names d WHERE d.name = 'watch:task.completed:' || s.type)
   HAVING count(*) > 0;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_completions() FROM PUBLIC;
CREATE TRIGGER completed_tasks_emit_events AFTER INSERT ON assent.job_attempts REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION assent.emit_completions();

-- Versions of documents, as events under `document.version`.
CREATE FUNCTION assent.emit_versions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM assent.declared_names d WHERE d.name = 'watch:document.version') THEN
    RETURN NULL;
  END IF;
  PERFORM assent.emit_seen(jsonb_agg(jsonb_build_object('org_id', v.org_id, 'key', 'document.version', 'cause', v.id,
            'partition_id', d.partition_id, 'people', array_remove(ARRAY[v.created_by, v.maker_id], NULL),
            'data', jsonb_build_object('id', v.id, 'document_id', v.document_id, 'document_type', d.document_type,
              'subject', d.subject, 'version', v.version_no, 'mime_type', v.content_type))))
     FROM written v JOIN assent.documents d ON d.org_id = v.org_id AND d.id = v.document_id
   HAVING count(*) > 0;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION assent.emit_versions() FROM PUBLIC;
CREATE TRIGGER versions_emit_events AFTER INSERT ON assent.document_versions REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION assent.emit_versions();
-- file: 90_http.sql
-- Replies that the HTTP API keeps under the keys that callers gave to their requests, to return them again.

-- A key is the caller's own: another caller's key may look the same.
CREATE TABLE assent.http_replies (
  org_id       text        NOT NULL,
  actor_id     text        NOT NULL,
  key          text        NOT NULL,
  request_hash text        NOT NULL,
  status       integer     NOT NULL,
  headers      jsonb       NOT NULL DEFAULT '{}',
  media_type   text        NOT NULL DEFAULT 'application/json',
  body         text        NOT NULL,            -- as it was sent, to the byte
  about        jsonb       NOT NULL DEFAULT '[]', -- what it shows: returned again only to a caller who may still read that
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  expires_at   timestamptz NOT NULL,
  CONSTRAINT http_replies_pkey PRIMARY KEY (org_id, actor_id, key),
  CONSTRAINT reply_key_is_short CHECK (length(key) BETWEEN 1 AND 255),
  CONSTRAINT request_is_kept_as_sha256 CHECK (request_hash ~ '^[0-9a-f]{64}$'),
  CONSTRAINT reply_has_a_status_of_http CHECK (status BETWEEN 200 AND 599),
  CONSTRAINT reply_is_kept_for_a_time CHECK (expires_at > created_at)
);
CREATE INDEX http_replies_to_forget ON assent.http_replies (org_id, expires_at);
SELECT assent.guard_by_org('assent.http_replies');
GRANT SELECT, INSERT, UPDATE (request_hash, status, headers, media_type, body, about, created_at, expires_at), DELETE
  ON assent.http_replies TO assent_engine;
-- file: 92_vacuum.sql
-- When tables are vacuumed and analyzed. PostgreSQL's own settings wait until a fifth of a table is dead: of a million events
-- that is two hundred thousand, which every claim and every page then steps over. Three ways of writing have three settings;
-- a table that is not here is small, or changes rarely. Partitions take those of their default partition (95_upkeep.sql).

-- Queues: few rows live at a time, and each dies soon. Vacuumed by number, however large the table once was.
ALTER TABLE assent.workflow_batches SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE assent.incoming_results SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE assent.workflow_kept_events SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.http_replies SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.rate_starts SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.task_waiters SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- Counters and leases: the same few rows again and again, with no index on what changes. Room on each page keeps the
-- new version of a row beside the old one (HOT).
ALTER TABLE assent.worker_leases SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE assent.task_progress SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE assent.number_series SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- Work: each row is inserted, changes a few times within a short time, and stays as history.
ALTER TABLE assent.workflow_events_outbox_default SET (autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_step_executions_default SET (autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.jobs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_instances SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.entities SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.approval_requests SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_seats SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_forms SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.outside_requests SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);

-- History: rows are inserted, and never change. VACUUM freezes them and marks pages as visible to all, for index-only scans.
ALTER TABLE assent.workflow_step_receipts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.workflow_outbox_receipts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.entity_versions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.audit_log SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.approval_decisions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.job_attempts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.effects SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.task_submissions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.task_log_lines SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.outside_request_deliveries SET (autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.outside_request_items SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- file: 95_upkeep.sql
-- Upkeep: partitions are made ahead of time, receipts and jobs are pruned, ended instances are deleted.
--
-- The default partition of each partitioned table catches rows of a month that was not prepared, so that no insert is ever
-- refused at a month's turn; the next call of ensure_partitions moves such rows to where they belong.

-- Makes the partition of one month, taking over its rows and storage settings from the default partition; false when it was
-- there.
-- The bounds go through text, where another zone or style may write IST for India and read it as Israel.
CREATE FUNCTION assent.ensure_partition(parent text, month date) RETURNS boolean
LANGUAGE plpgsql SET timezone = 'UTC' SET datestyle = 'ISO, YMD' AS $$
DECLARE
  partition CONSTANT text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
  lower_bound CONSTANT timestamptz := month::timestamp AT TIME ZONE 'UTC';
  upper_bound CONSTANT timestamptz := (month + interval '1 month')::timestamp AT TIME ZONE 'UTC';
BEGIN
  IF to_regclass(format('assent.%I', partition)) IS NOT NULL THEN
    RETURN false;
  END IF;
  -- The parent first: a statement that waits for a partition has already read the list of partitions, and finds moved rows
  -- in none of them. Then the default partition: no row may be added between the move and the attachment.
  EXECUTE format('LOCK TABLE ONLY assent.%I IN ACCESS EXCLUSIVE MODE', parent);
  EXECUTE format('LOCK TABLE assent.%I IN ACCESS EXCLUSIVE MODE', parent || '_default');
  EXECUTE format('CREATE TABLE assent.%I (LIKE assent.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
    partition, parent);
  EXECUTE format('WITH moved AS (DELETE FROM assent.%I WHERE created_at >= $1 AND created_at < $2 RETURNING *) '
    'INSERT INTO assent.%I SELECT * FROM moved', parent || '_default', partition)
    USING lower_bound, upper_bound;
  EXECUTE format('ALTER TABLE assent.%I ATTACH PARTITION assent.%I FOR VALUES FROM (%L) TO (%L)',
    parent, partition, lower_bound, upper_bound);
  PERFORM assent.guard_by_org(format('assent.%I', partition)::regclass);
  EXECUTE format('ALTER TABLE assent.%I SET (%s)', partition, array_to_string(
    (SELECT reloptions FROM pg_class WHERE oid = format('assent.%I', parent || '_default')::regclass), ', '));
  RETURN true;
END
$$;

-- Makes the partitions of this month and the months ahead, and those of months that have rows waiting in a default
-- partition; returns how many were missing.
CREATE FUNCTION assent.ensure_partitions(months_ahead integer DEFAULT 3) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  parent text;
  month date;
  made integer := 0;
BEGIN
  -- Two maintenance calls at once would race for the same names.
  PERFORM pg_advisory_xact_lock(hashtextextended('assent.ensure_partitions', 0));
  FOREACH parent IN ARRAY ARRAY['workflow_step_executions', 'workflow_events_outbox']
  LOOP
    FOR month IN EXECUTE format(
      'SELECT generate_series(date_trunc(''month'', assent.now() AT TIME ZONE ''UTC''), '
      '         date_trunc(''month'', assent.now() AT TIME ZONE ''UTC'') + make_interval(months => $1), ''1 month'')::date '
      'UNION SELECT DISTINCT date_trunc(''month'', created_at AT TIME ZONE ''UTC'')::date FROM assent.%I ORDER BY 1',
      parent || '_default') USING months_ahead
    LOOP
      made := made + assent.ensure_partition(parent, month)::integer;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;

-- Deletes the receipts of instances that ended before a time, a number of instances at once. Terminal is final: what comes
-- late is ignored without a receipt.
CREATE FUNCTION assent.prune_receipts(ended_before timestamptz, instances_max integer)
RETURNS TABLE (instances bigint, step_receipts bigint, outbox_receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH ended AS MATERIALIZED (
    SELECT org_id, id FROM assent.workflow_instances
     WHERE completed_at < ended_before AND receipts_pruned_at IS NULL
     ORDER BY completed_at LIMIT instances_max
     FOR NO KEY UPDATE SKIP LOCKED
  ), marked AS (
    UPDATE assent.workflow_instances i SET receipts_pruned_at = assent.now()
      FROM ended e WHERE i.org_id = e.org_id AND i.id = e.id
    RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  ), of_outboxes AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended e WHERE r.org_id = e.org_id AND r.instance_id = e.id
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM marked), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_outboxes);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- Deletes jobs of a kind that went well, or were cancelled, before a time, a number at once. The keys of tasks stay, and so do
-- subtasks of a task that is still to read what came out of them, maybe after a retry.
CREATE FUNCTION assent.prune_jobs(of_kind text, ended_before timestamptz, jobs_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  pruned bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH old AS MATERIALIZED (
    SELECT j.org_id, j.id FROM assent.jobs j
     WHERE j.kind = of_kind AND j.status IN ('done', 'cancelled') AND j.ended_at < ended_before
       AND NOT EXISTS (SELECT FROM assent.jobs p WHERE p.org_id = j.org_id AND p.id = j.parent_id
                          AND p.status NOT IN ('done', 'cancelled'))
     ORDER BY j.ended_at LIMIT jobs_max
     FOR UPDATE OF j SKIP LOCKED
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING old o WHERE j.org_id = o.org_id AND j.id = o.id RETURNING 1
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING old o WHERE a.org_id = o.org_id AND a.job_id = o.id
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_progress AS (
    DELETE FROM assent.task_progress t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_logs AS (
    DELETE FROM assent.task_log_lines t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_effects AS (
    DELETE FROM assent.effects e USING old o WHERE e.org_id = o.org_id AND e.id = o.id
  )
  SELECT count(*) INTO pruned FROM of_jobs;
  PERFORM set_config('assent.door', former_door, true);
  RETURN pruned;
END
$$;

-- Deletes tasks that went well, or were cancelled, longer ago than their org keeps them, a number at once. An org without a
-- policy keeps them for as long as the operator does. Ids sort by the time of submission: what came later is not read.
CREATE FUNCTION assent.delete_ended_tasks(tasks_max integer) RETURNS bigint
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
  deleted bigint;
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  WITH policy AS MATERIALIZED (
    SELECT org_id, assent.now() - make_interval(days => days::integer) AS ended_before
      FROM assent.orgs
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'task_retention_days')
                                  WHEN 'number' THEN (settings ->> 'task_retention_days')::numeric END) AS setting (days)
     WHERE days BETWEEN 1 AND 36500
  ), old AS MATERIALIZED (
    SELECT j.org_id, j.id
      FROM policy p
      JOIN assent.task_submissions s ON s.org_id = p.org_id
       AND s.id < rpad(lpad(to_hex(floor(extract(epoch FROM p.ended_before) * 1000)::bigint), 12, '0'), 32, '0')::uuid
      JOIN assent.jobs j ON j.org_id = s.org_id AND j.id = s.id
     WHERE j.status IN ('done', 'cancelled') AND j.ended_at < p.ended_before
       AND NOT EXISTS (SELECT FROM assent.jobs p WHERE p.org_id = j.org_id AND p.id = j.parent_id
                          AND p.status NOT IN ('done', 'cancelled'))
     LIMIT tasks_max
     FOR UPDATE OF j SKIP LOCKED
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING old o WHERE j.org_id = o.org_id AND j.id = o.id RETURNING 1
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING old o WHERE a.org_id = o.org_id AND a.job_id = o.id
  ), of_submissions AS (
    DELETE FROM assent.task_submissions s USING old o WHERE s.org_id = o.org_id AND s.id = o.id
  ), of_progress AS (
    DELETE FROM assent.task_progress t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  ), of_logs AS (
    DELETE FROM assent.task_log_lines t USING old o WHERE t.org_id = o.org_id AND t.task_id = o.id
  )
  SELECT count(*) INTO deleted FROM of_jobs;
  PERFORM set_config('assent.door', former_door, true);
  RETURN deleted;
END
$$;

-- Deletes instances that ended longer ago than their org keeps them, with all that is theirs alone: also their forms
-- and those forms' seats. An org without a policy keeps everything. An instance with a dead letter, or with something still
-- to be done, stays. Approvals stay: they are evidence about the entity.
CREATE FUNCTION assent.delete_ended_instances(instances_max integer)
RETURNS TABLE (instances bigint, steps bigint, events bigint, effects bigint, receipts bigint)
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
  former_door CONSTANT text := coalesce(current_setting('assent.door', true), '');
BEGIN
  PERFORM set_config('assent.door', 'prune', true);
  RETURN QUERY
  WITH policy AS MATERIALIZED (
    -- A setting is whatever an org wrote there: one that is no such number of days is no policy, and no error.
    SELECT org_id, assent.now() - make_interval(days => days::integer) AS ended_before
      FROM assent.orgs
     CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(settings -> 'retention_days')
                                  WHEN 'number' THEN (settings ->> 'retention_days')::numeric END) AS setting (days)
     WHERE days BETWEEN 1 AND 36500
  ), ended AS MATERIALIZED (
    SELECT i.org_id, i.id
      FROM policy p
      JOIN assent.workflow_instances i ON i.org_id = p.org_id
       AND i.status IN ('completed', 'failed', 'cancelled') AND i.updated_at < p.ended_before
     WHERE i.completed_at < p.ended_before
       AND NOT EXISTS (SELECT FROM assent.workflow_events_outbox e
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND e.status <> 'completed')
       AND NOT EXISTS (SELECT FROM assent.effects e JOIN assent.jobs j ON j.org_id = e.org_id AND j.id = e.id
                        WHERE e.org_id = i.org_id AND e.instance_id = i.id AND j.status <> 'done')
     LIMIT instances_max
     FOR UPDATE OF i SKIP LOCKED
  ), of_instances AS (
    DELETE FROM assent.workflow_instances i USING ended x WHERE i.org_id = x.org_id AND i.id = x.id RETURNING 1
  ), of_steps AS (
    DELETE FROM assent.workflow_step_executions s
     USING ended x WHERE s.org_id = x.org_id AND s.instance_id = x.id RETURNING 1
  ), of_evidence AS (
    DELETE FROM assent.step_evidence v USING ended x WHERE v.org_id = x.org_id AND v.instance_id = x.id
  ), of_forms AS (
    DELETE FROM assent.workflow_forms f
     USING ended x WHERE f.org_id = x.org_id AND f.instance_id = x.id RETURNING f.org_id, f.id
  ), of_seats AS (
    DELETE FROM assent.workflow_seats s
     USING of_forms f WHERE s.org_id = f.org_id AND s.request_id = f.id AND s.kind = 'form'
  ), of_events AS (
    DELETE FROM assent.workflow_events_outbox e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING 1
  ), of_effects AS (
    DELETE FROM assent.effects e
     USING ended x WHERE e.org_id = x.org_id AND e.instance_id = x.id RETURNING e.org_id, e.id
  ), of_jobs AS (
    DELETE FROM assent.jobs j USING of_effects e WHERE j.org_id = e.org_id AND j.id = e.id
  ), of_attempts AS (
    DELETE FROM assent.job_attempts a USING of_effects e WHERE a.org_id = e.org_id AND a.job_id = e.id
  ), step_receipts AS (
    DELETE FROM assent.workflow_step_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  ), outbox_receipts AS (
    DELETE FROM assent.workflow_outbox_receipts r
     USING ended x WHERE r.org_id = x.org_id AND r.instance_id = x.id RETURNING 1
  )
  SELECT (SELECT count(*) FROM of_instances), (SELECT count(*) FROM of_steps), (SELECT count(*) FROM of_events),
         (SELECT count(*) FROM of_effects),
         (SELECT count(*) FROM step_receipts) + (SELECT count(*) FROM outbox_receipts);
  PERFORM set_config('assent.door', former_door, true);
END
$$;

-- Every function of these files: roles get each right by name.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
