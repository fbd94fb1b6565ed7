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
