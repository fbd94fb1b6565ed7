-- name: ensure_partitions
-- Makes the monthly partitions of the high-volume tables, some months ahead.
SELECT assent.ensure_partitions($1::integer);
