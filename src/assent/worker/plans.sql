-- name: look_up_by_index
-- Has this transaction join by nested loops over indexes; and not compile plans that only look expensive.
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);
