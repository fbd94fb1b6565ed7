-- name: text_of_missing_roles
-- What an administrator would say to make the roles that are missing ($1), without rights that go past row security, and to
-- let the role that is connected act as the engine ($2). Since PostgreSQL 16 the creator of a role may not act as it until
-- that is granted; before, membership was all there was.
WITH role AS (
  SELECT name, to_regrole(quote_ident(name)) AS id, place FROM unnest($1::text[]) WITH ORDINALITY AS given (name, place)
)
SELECT statement FROM (
  SELECT 1 AS kind, place, format('CREATE ROLE %I NOLOGIN', name) AS statement FROM role WHERE id IS NULL
  UNION ALL
  SELECT 2, place, format('ALTER ROLE %I NOSUPERUSER NOBYPASSRLS', r.name) FROM role r JOIN pg_roles p ON p.oid = r.id
   WHERE p.rolsuper OR p.rolbypassrls
  UNION ALL
  SELECT 3, place, format('GRANT %I TO %I%s', name, current_user,
                          CASE WHEN current_setting('server_version_num')::integer >= 160000
                               THEN ' WITH INHERIT FALSE, SET TRUE' ELSE '' END)
    FROM role
   WHERE name = $2 AND CASE
     WHEN id IS NULL THEN NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
     WHEN current_setting('server_version_num')::integer >= 160000 THEN NOT pg_has_role(current_user, id, 'SET')
     ELSE NOT pg_has_role(current_user, id, 'MEMBER') END
) AS missing ORDER BY kind, place;

-- name: look_names_up_in_the_catalogue_only
-- Has names of our own shown with their schema, for every role.
SELECT set_config('search_path', 'pg_catalog', true);

-- name: find_grants_table
-- The table of what migrations granted, or null where none is.
SELECT to_regclass('assent.schema_grants')::text;

-- name: record_grants
-- Keeps what these roles ($1) hold in our schema now, so that a dump carries it.
WITH former AS (DELETE FROM assent.schema_grants WHERE NOT statement = ANY ($1::text[]))
INSERT INTO assent.schema_grants (statement) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING;

-- name: list_recorded_grants
-- What migrations granted.
SELECT statement FROM assent.schema_grants ORDER BY statement;

-- name: list_grants
-- What these roles ($1), and everybody, hold in our schema: each as the statement that gives it. Columns come one by one.
SELECT statement FROM (
  SELECT acl.grantee, format('GRANT %s ON SCHEMA assent', acl.privilege_type) AS grant_of
    FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) acl WHERE n.nspname = 'assent'
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON TABLE assent.%I', acl.privilege_type, c.relname)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) acl
   WHERE c.relnamespace = to_regnamespace('assent') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON SEQUENCE assent.%I', acl.privilege_type, c.relname)
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) acl
   WHERE c.relnamespace = to_regnamespace('assent') AND c.relkind = 'S'
  UNION ALL
  SELECT acl.grantee, format('GRANT %s (%I) ON TABLE assent.%I', acl.privilege_type, a.attname, c.relname)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
   CROSS JOIN aclexplode(a.attacl) acl
   WHERE c.relnamespace = to_regnamespace('assent')
  UNION ALL
  SELECT acl.grantee, format('GRANT %s ON FUNCTION assent.%I(%s)', acl.privilege_type, p.proname,
                             pg_get_function_identity_arguments(p.oid))
    FROM pg_proc p CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) acl
   WHERE p.pronamespace = to_regnamespace('assent')
) AS held (grantee, grant_of)
CROSS JOIN LATERAL (
  SELECT format('%s TO %s', grant_of, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END)
    FROM (SELECT 1) AS one LEFT JOIN pg_roles r ON r.oid = grantee
   WHERE grantee = 0 OR r.rolname = ANY ($1::text[])) AS said (statement)
ORDER BY statement;

-- name: find_superuser
-- The role that is connected, where it is a superuser.
SELECT rolname FROM pg_roles WHERE rolname = current_user AND rolsuper;

-- name: list_members
-- Who may act as a role ($1), beside the role that is connected and superusers.
SELECT m.rolname FROM pg_roles m
 WHERE NOT m.rolsuper AND m.rolname NOT IN (current_user, $1::text) AND to_regrole(quote_ident($1::text)) IS NOT NULL
   AND pg_has_role(m.oid, to_regrole(quote_ident($1::text)), 'MEMBER')
 ORDER BY 1;
