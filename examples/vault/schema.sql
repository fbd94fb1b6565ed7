-- The index of the vault. Each org sees its own rows; `rebuild.index` makes all of them again from the store.

CREATE TABLE IF NOT EXISTS public.vault_containers (
  org_id text NOT NULL DEFAULT current_setting('assent.org_id'),
  sha256 text NOT NULL,
  kind text NOT NULL,
  size bigint NOT NULL,
  PRIMARY KEY (org_id, sha256)
);

CREATE TABLE IF NOT EXISTS public.vault_files (
  org_id text NOT NULL DEFAULT current_setting('assent.org_id'),
  container text NOT NULL,
  place integer NOT NULL,
  name text NOT NULL,
  sha256 text NOT NULL,
  mime_type text NOT NULL,
  size bigint NOT NULL,
  PRIMARY KEY (org_id, container, place)
);
CREATE INDEX IF NOT EXISTS vault_files_by_content ON public.vault_files (org_id, sha256);

CREATE TABLE IF NOT EXISTS public.vault_entries (
  org_id text NOT NULL DEFAULT current_setting('assent.org_id'),
  sha256 text NOT NULL,
  facts jsonb NOT NULL,
  words tsvector GENERATED ALWAYS AS (to_tsvector('simple', facts)) STORED,
  PRIMARY KEY (org_id, sha256)
);
CREATE INDEX IF NOT EXISTS vault_entries_by_word ON public.vault_entries USING gin (words);

ALTER TABLE public.vault_containers ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.vault_files ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.vault_entries ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS own_org ON public.vault_containers;
DROP POLICY IF EXISTS own_org ON public.vault_files;
DROP POLICY IF EXISTS own_org ON public.vault_entries;
CREATE POLICY own_org ON public.vault_containers USING (org_id = current_setting('assent.org_id', true));
CREATE POLICY own_org ON public.vault_files USING (org_id = current_setting('assent.org_id', true));
CREATE POLICY own_org ON public.vault_entries USING (org_id = current_setting('assent.org_id', true));
