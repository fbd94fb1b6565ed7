-- name: read_schema_version
-- The newest migration that this database has.
SELECT max(version) FROM assent.schema_migrations;
