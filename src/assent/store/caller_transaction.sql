-- name: read_standing
-- The role, the org and the time with which the transaction acts.
SELECT current_setting('role') AS role, coalesce(current_setting('assent.org_id', true), '') AS org_id,
       coalesce(current_setting('assent.now', true), '') AS now, current_setting('plan_cache_mode') AS plan_cache_mode;

-- name: take_stand
-- From here on the transaction acts as this role, for this org, at this time, and plans in this way.
SELECT set_config('role', $1, true), set_config('assent.org_id', $2, true), set_config('assent.now', $3, true),
       set_config('plan_cache_mode', $4, true);
