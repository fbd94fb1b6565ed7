-- name: keep_delivery
-- Keeps a bundle that came for a request, once for its key; see the function.
SELECT assent.keep_delivery($1, $2, $3::jsonb, $4, $5);
