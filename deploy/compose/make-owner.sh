#!/bin/sh
# Make the role that owns the database: it may create roles, and is no superuser. PostgreSQL's image runs this once.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$(cat /run/secrets/owner_password)" --username="${POSTGRES_USER:-postgres}" --dbname=postgres <<'SQL'
CREATE ROLE assent LOGIN CREATEROLE PASSWORD :'password';
CREATE DATABASE assent OWNER assent;
SQL
