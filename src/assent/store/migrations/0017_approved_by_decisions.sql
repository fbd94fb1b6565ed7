-- Approved means that people said so: a request becomes approved only where the decisions of those who were asked add up
-- to what was said to be enough when they were asked, or where its time is over and that is its default. Also when
-- somebody writes the status by hand.

-- Asked before this rule: what is enough was not recorded, so any of their groups may do, and a default as well.
ALTER TABLE assent.approval_requests DISABLE TRIGGER requests_keep_what_they_ask;
UPDATE assent.approval_requests r
   SET approvers = r.approvers || jsonb_build_object(
         'enough', jsonb_build_object('any', jsonb_path_query_array(r.approvers, '$.groups[*].name')),
         'default', jsonb_build_object('status', 'approved', 'at', r.created_at))
 WHERE r.status = 'pending' AND jsonb_typeof(r.approvers) = 'object';
ALTER TABLE assent.approval_requests ENABLE TRIGGER requests_keep_what_they_ask;

-- Whether this is enough: the name of a group that has agreed, or all or any of several such.
CREATE FUNCTION assent.is_enough(wanted jsonb, agreed text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF jsonb_typeof(wanted) = 'string' THEN
    RETURN wanted #>> '{}' = ANY (agreed);
  END IF;
  IF wanted ? 'any' THEN
    RETURN (SELECT coalesce(bool_or(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'any') part);
  END IF;
  RETURN (SELECT coalesce(bool_and(assent.is_enough(part, agreed)), false) FROM jsonb_array_elements(wanted -> 'all') part);
END
$$;

-- The groups of a request that have agreed, by the answers in the seats of those who were found, or who took the place
-- of one of them. Where one is enough, the first who said yes or no has decided.
CREATE FUNCTION assent.agreed_groups(asked assent.approval_requests) RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(g.name), '{}')
    FROM jsonb_to_recordset(asked.approvers -> 'groups') AS g (name text, mode text, needed integer)
   CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE d.decision = 'approved') AS yes,
             (array_agg(d.decision ORDER BY d.id) FILTER (WHERE d.decision IN ('approved', 'rejected')))[1] AS first
        FROM assent.approval_decisions d
        JOIN assent.workflow_seats s ON s.org_id = d.org_id AND s.id = d.seat_id AND s.request_id = d.request_id
        LEFT JOIN assent.workflow_seats before ON before.org_id = s.org_id AND before.id = s.replaces_id
              AND before.request_id = s.request_id AND before.group_name = s.group_name
       WHERE d.org_id = asked.org_id AND d.request_id = asked.id AND s.group_name = g.name
         AND (before.id IS NOT NULL OR asked.approvers -> 'people'
                @> jsonb_build_array(jsonb_build_object('user', s.user_id, 'group', s.group_name)))) answers
   WHERE CASE g.mode WHEN 'any' THEN answers.first = 'approved' ELSE answers.yes >= g.needed END
$$;

CREATE FUNCTION assent.guard_approval() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
  agreed CONSTANT text[] := assent.agreed_groups(NEW);
BEGIN
  -- Any of those to whom it was escalated decides alone.
  IF 'escalation' = ANY (agreed) OR assent.is_enough(NEW.approvers -> 'enough', agreed) THEN
    RETURN NEW;
  END IF;
  -- A minute, because the clock by which its time was over need not be the server's.
  IF NEW.approvers #>> '{default,status}' = 'approved'
     AND least(NEW.decided_at, assent.now() + interval '1 minute') >= (NEW.approvers #>> '{default,at}')::timestamptz THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'AS011',
    MESSAGE = format('approval request %s is not approved: of what is enough (%s) only %s agreed', NEW.id,
                     NEW.approvers -> 'enough', agreed),
    HINT = 'Approvals are given by decisions of those who are asked.';
END
$$;
CREATE TRIGGER requests_begin_unapproved BEFORE INSERT ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved') EXECUTE FUNCTION assent.guard_approval();
CREATE TRIGGER requests_are_approved_by_those_who_are_asked BEFORE UPDATE ON assent.approval_requests
  FOR EACH ROW WHEN (NEW.status = 'approved' AND OLD.status <> 'approved') EXECUTE FUNCTION assent.guard_approval();

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
-- Triggers run as whoever writes, and this is what they ask.
GRANT EXECUTE ON FUNCTION assent.is_enough(jsonb, text[]), assent.agreed_groups(assent.approval_requests) TO assent_engine;
