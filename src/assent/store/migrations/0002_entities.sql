-- Entities, their versions and the audit log: the truth wall (D6, D17).
--
-- `entities` holds only what changes and is small: where an entity stands. Content is in `entity_versions`, which is
-- only inserted into; data_hash ties the two together and lets a trigger see an edit without reading content.
-- assent_engine has no DML on any of the three. It calls write_entities, which writes all three or none.

CREATE TABLE assent.entities (
  org_id              text        NOT NULL,
  id                  uuid        NOT NULL,
  entity_type         text        NOT NULL,
  contract_version    integer     NOT NULL,
  partition_id        text,
  state               text        NOT NULL,
  version             integer     NOT NULL,
  data_hash           text        NOT NULL,
  edit_window         text        NOT NULL,
  instance_id         uuid,       -- the instance that runs for it, or is to come (D18)
  written_by_instance uuid,       -- set when the version is that instance's own write (D19)
  amended_from_id     uuid,
  created_at          timestamptz NOT NULL,
  updated_at          timestamptz NOT NULL,
  CONSTRAINT entities_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT entity_version_counts_from_one CHECK (version >= 1),
  CONSTRAINT edit_window_is_known CHECK (edit_window IN ('editable', 'amend_only', 'locked')),
  CONSTRAINT amendment_is_of_an_entity FOREIGN KEY (org_id, amended_from_id) REFERENCES assent.entities (org_id, id)
) WITH (fillfactor = 80); -- room for versions and windows to be updated in place
CREATE INDEX entities_by_state ON assent.entities (org_id, entity_type, state);
CREATE INDEX entities_by_amended ON assent.entities (org_id, amended_from_id) WHERE amended_from_id IS NOT NULL;

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

CREATE TABLE assent.audit_log (
  org_id            text        NOT NULL,
  id                uuid        NOT NULL,
  at                timestamptz NOT NULL,       -- when
  actor_id          text        NOT NULL,       -- who
  actor_kind        text        NOT NULL,
  actor_roles       text[]      NOT NULL,
  action            text        NOT NULL,       -- what
  entity_type       text        NOT NULL,
  entity_id         uuid        NOT NULL,
  from_version      integer,                    -- which version …
  to_version        integer     NOT NULL,       -- … to which
  from_state        text,
  to_state          text        NOT NULL,
  changes           jsonb       NOT NULL,       -- field → [before, after]
  place             text,                       -- where: an address, a host
  reason            text,                       -- why
  channel           text        NOT NULL,       -- how: python, http, cli, workflow …
  instance_id       uuid,
  trace_id          text,
  on_behalf_of      text[],                     -- the people for whom the actor acted; null: for themselves
  contributors      text[]      NOT NULL DEFAULT '{}', -- the people to whom the content of this version is due
  CONSTRAINT audit_log_pkey PRIMARY KEY (org_id, id),
  CONSTRAINT audited_actor_kind_is_known CHECK (actor_kind IN ('user', 'service_account', 'system'))
);
CREATE INDEX audit_log_by_entity ON assent.audit_log (org_id, entity_id, id);
CREATE INDEX audit_log_by_actor ON assent.audit_log (org_id, actor_id, id);

-- What people mean by "the entity": where it stands, with the content of its current version.
CREATE VIEW assent.current_entities WITH (security_invoker = true) AS
SELECT e.org_id, e.id, e.entity_type, e.contract_version, e.partition_id, e.state, e.version, e.edit_window,
       e.instance_id, e.amended_from_id, e.created_at, e.updated_at, v.id AS version_id, v.data, v.data_hash
  FROM assent.entities e
  JOIN assent.entity_versions v ON v.org_id = e.org_id AND v.entity_id = e.id AND v.version = e.version;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON assent.audit_log
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER audit_is_never_emptied BEFORE TRUNCATE ON assent.audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER versions_are_append_only BEFORE UPDATE OR DELETE ON assent.entity_versions
  FOR EACH ROW EXECUTE FUNCTION assent.reject_rewriting();
CREATE TRIGGER versions_are_never_emptied BEFORE TRUNCATE ON assent.entity_versions
  FOR EACH STATEMENT EXECUTE FUNCTION assent.reject_rewriting();

-- The one door: also the owner's plain SQL is refused. write_entities and set_edit_windows open it for themselves;
-- nothing opens it for DELETE or TRUNCATE.
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

REVOKE ALL ON assent.entities, assent.entity_versions, assent.audit_log FROM assent_engine;
GRANT SELECT ON assent.entities, assent.entity_versions, assent.audit_log, assent.current_entities TO assent_engine;
SELECT assent.guard_by_org(t) FROM unnest(ARRAY[
  'assent.entities', 'assent.entity_versions', 'assent.audit_log']::regclass[]) t;
