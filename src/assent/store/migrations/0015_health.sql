-- What operators look at: dead letters of events are found without reading the events that went well, as effects' are.

CREATE INDEX events_dead ON assent.workflow_events_outbox (org_id, created_at, id) WHERE status = 'dead_letter';
