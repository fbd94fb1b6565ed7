-- Schedules: cron lines that start tasks. A worker moves a schedule to its next time in the transaction that submits the task of
-- this one, with the row locked: each time starts one task, however many workers look.
CREATE TABLE assent.schedules (
  org_id       text        NOT NULL,
  name         text        NOT NULL,
  task_type    text        NOT NULL,
  input        jsonb       NOT NULL DEFAULT '{}',
  cron         text        NOT NULL,
  zone         text        NOT NULL DEFAULT 'UTC',
  missed       text        NOT NULL DEFAULT 'once', -- times that came while no worker ran: none of them, one task for all, one for each
  partition_id text,
  declared     boolean     NOT NULL DEFAULT false,  -- by the code of an application, which alone changes it
  paused       boolean     NOT NULL DEFAULT false,
  problem      text,                                -- why a worker paused it
  next_at      timestamptz NOT NULL,
  last_at      timestamptz,                         -- the last time that started a task
  last_task_id uuid,
  created_by   text        NOT NULL,
  people       text[]      NOT NULL DEFAULT '{}',   -- the members who made and changed it: its tasks hand on their work
  created_at   timestamptz NOT NULL DEFAULT assent.now(),
  updated_at   timestamptz NOT NULL DEFAULT assent.now(),
  CONSTRAINT schedules_pkey PRIMARY KEY (org_id, name),
  CONSTRAINT schedule_name_is_not_blank CHECK (NOT assent.is_blank(name)),
  CONSTRAINT schedule_name_is_short CHECK (length(name) BETWEEN 1 AND 200),
  CONSTRAINT schedule_input_is_an_object CHECK (jsonb_typeof(input) = 'object'),
  CONSTRAINT schedule_line_is_short CHECK (length(cron) BETWEEN 9 AND 100),
  CONSTRAINT schedule_zone_is_short CHECK (length(zone) BETWEEN 1 AND 100),
  CONSTRAINT schedule_missed_is_known CHECK (missed IN ('skip', 'once', 'all')),
  CONSTRAINT only_a_paused_schedule_has_a_problem CHECK (problem IS NULL OR paused),
  CONSTRAINT schedule_that_ran_names_its_task CHECK ((last_at IS NULL) = (last_task_id IS NULL))
);
CREATE INDEX schedules_due ON assent.schedules (next_at, org_id, name) WHERE NOT paused;
-- What people administer is noted, and not that a time has come: that is a task.
CREATE TRIGGER schedules_are_audited
  AFTER INSERT OR DELETE OR UPDATE OF task_type, input, cron, zone, missed, partition_id, declared, paused, problem ON assent.schedules
  FOR EACH ROW EXECUTE FUNCTION assent.note_administration('schedule', 'create', 'delete', 'name', 'task_type',
    'task_type input cron zone missed paused problem');
SELECT assent.guard_by_org('assent.schedules');
GRANT SELECT, INSERT, UPDATE, DELETE ON assent.schedules TO assent_engine;
