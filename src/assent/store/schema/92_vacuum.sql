-- When tables are vacuumed and analyzed. PostgreSQL's own settings wait until a fifth of a table is dead: of a million events
-- that is two hundred thousand, which every claim and every page then steps over. Three ways of writing have three settings;
-- a table that is not here is small, or changes rarely. Partitions take those of their default partition (95_upkeep.sql).

-- Queues: few rows live at a time, and each dies soon. Vacuumed by number, however large the table once was.
ALTER TABLE assent.workflow_batches SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE assent.incoming_results SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0);
ALTER TABLE assent.workflow_kept_events SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.http_replies SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.rate_starts SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
ALTER TABLE assent.task_waiters SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- Counters and leases: the same few rows again and again, with no index on what changes. Room on each page keeps the
-- new version of a row beside the old one (HOT).
ALTER TABLE assent.worker_leases SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE assent.task_progress SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE assent.number_series SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- Work: each row is inserted, changes a few times within a short time, and stays as history.
ALTER TABLE assent.workflow_events_outbox_default SET (autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_step_executions_default SET (autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.jobs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_instances SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.entities SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.approval_requests SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_seats SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.workflow_forms SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE assent.outside_requests SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.02);

-- History: rows are inserted, and never change. VACUUM freezes them and marks pages as visible to all, for index-only scans.
ALTER TABLE assent.workflow_step_receipts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.workflow_outbox_receipts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.entity_versions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.audit_log SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.approval_decisions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.job_attempts SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.effects SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.task_submissions SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.task_log_lines SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.outside_request_deliveries SET (autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE assent.outside_request_items SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
