-- Events that are kept for the first who waits for them are found by their age when nobody has come.
CREATE INDEX kept_events_by_age ON assent.workflow_kept_events (created_at);
