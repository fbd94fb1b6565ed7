"""The whole schema of a database, read from PostgreSQL's catalogues, to compare two databases with each other.

The order of columns does not count: a column that a migration adds stands last, and no statement of ours depends on it.
"""

from assent.store.connection import Connection

_CATALOGUE = """
SELECT 'schema', nspname::text, format('owner %s, rights %s', nspowner::regrole,
       ARRAY(SELECT unnest(nspacl)::text ORDER BY 1))
  FROM pg_namespace WHERE nspname = 'assent'
UNION ALL
SELECT 'relation', c.relname,
       format('%s of %s, persistence %s, options %s, row security %s %s, partition %s %s, rights %s, %s', c.relkind,
       c.relowner::regrole, c.relpersistence, c.reloptions, c.relrowsecurity, c.relforcerowsecurity,
       pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid), ARRAY(SELECT unnest(c.relacl)::text ORDER BY 1),
       CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END)
  FROM pg_class c WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind <> 'i' AND c.relkind <> 'I'
UNION ALL
SELECT 'partition', c.relname, i.inhparent::regclass::text
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'column', format('%s.%s', c.relname, a.attname),
       format('%s, not null %s, default %s, identity %s, generated %s, collation %s, storage %s, rights %s',
       format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity,
       a.attgenerated, a.attcollation::regcollation, a.attstorage, ARRAY(SELECT unnest(a.attacl)::text ORDER BY 1))
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'assent'::regnamespace AND c.relkind IN ('r', 'p', 'v')
UNION ALL
SELECT 'constraint', format('%s.%s', c.relname, o.conname), format('%s, validated %s, deferrable %s %s',
       pg_get_constraintdef(o.oid), o.convalidated, o.condeferrable, o.condeferred)
  FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid WHERE c.relnamespace = 'assent'::regnamespace
UNION ALL
-- PostgreSQL makes up the names of a partition's indexes, in the order in which they come.
SELECT 'index', CASE WHEN i.relispartition THEN format('%s %s', c.relname, inhparent::regclass) ELSE i.relname END,
       format('%s, unique %s, valid %s', regexp_replace(pg_get_indexdef(i.oid), '^.* USING ', ''),
              x.indisunique, x.indisvalid)
  FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
  LEFT JOIN pg_inherits ON inhrelid = i.oid WHERE i.relnamespace = 'assent'::regnamespace
UNION ALL
SELECT 'sequence', s.seqrelid::regclass::text, format('%s from %s to %s by %s, cycles %s',
       s.seqtypid::regtype, s.seqmin, s.seqmax, s.seqincrement, s.seqcycle)
  FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace = 'assent'::regnamespace
UNION ALL
SELECT 'function', p.oid::regprocedure::text, format('owner %s, rights %s, %s', p.proowner::regrole,
       ARRAY(SELECT unnest(coalesce(p.proacl, acldefault('f', p.proowner)))::text ORDER BY 1),
       pg_get_functiondef(p.oid))
  FROM pg_proc p WHERE p.pronamespace = 'assent'::regnamespace
UNION ALL
SELECT 'trigger', format('%s.%s', c.relname, t.tgname), format('%s, enabled %s', pg_get_triggerdef(t.oid), t.tgenabled)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'assent'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'policy', format('%s.%s', tablename, policyname), format('%s for %s to %s using %s with check %s',
       permissive, cmd, roles, qual, with_check)
  FROM pg_policies WHERE schemaname = 'assent'
UNION ALL
SELECT 'type', t.typname, format('%s of %s', t.typtype, t.typowner::regrole)
  FROM pg_type t WHERE t.typnamespace = 'assent'::regnamespace AND t.typtype NOT IN ('b', 'c')
UNION ALL
SELECT 'default rights', defaclobjtype::text, ARRAY(SELECT unnest(defaclacl)::text ORDER BY 1)::text
  FROM pg_default_acl
"""


async def read_catalogue(connection: Connection) -> dict[str, str]:
    """Return every object of the schema, by kind and name, with its full definition as text."""
    async with connection.transaction():
        await connection.execute("SET LOCAL search_path = pg_catalog")
        rows = await connection.fetch(_CATALOGUE)
    found = {f"{kind} {name}": text for kind, name, text in rows}
    assert len(found) == len(rows), "two objects have one name"
    return found


def difference(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return what differs between two schemas: the name of an object and its definition in each."""
    return {
        name: (one.get(name), other.get(name))
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    }
