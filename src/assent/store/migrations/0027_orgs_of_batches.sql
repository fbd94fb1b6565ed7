-- A note of a batch names the org of each instance, so that no statement about them goes by an instance's id alone. Notes of
-- workers of an older version name none.
ALTER TABLE assent.workflow_batches ADD COLUMN org_ids text[] NOT NULL DEFAULT '{}';
