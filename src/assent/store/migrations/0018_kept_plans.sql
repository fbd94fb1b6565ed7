-- Commands keep their plans for some seconds (assent.store.database): planning took them longer than everything else
-- that the server did. Within the doors to entities it is the caller's transaction that says so now.
ALTER FUNCTION assent.lock_entities(text[], uuid[]) RESET plan_cache_mode;
ALTER FUNCTION assent.write_entities(jsonb, integer) RESET plan_cache_mode;
ALTER FUNCTION assent.set_edit_windows(jsonb) RESET plan_cache_mode;
