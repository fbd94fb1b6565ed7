-- Nobody gives what they do not hold. An API key inherits the partition and the expiry of the session that makes it, and is
-- revoked with the key that made it; no member's id looks like another's of the org.

ALTER TABLE assent.api_keys
  ADD COLUMN partition_id text,                 -- the one part of the org that its holder sees; null: all of it
  ADD COLUMN parent_id    uuid,                 -- the key that made it; null: somebody signed in by token, or an operator
  ADD COLUMN created_by   text,                 -- the member who made it, also for a service account; null: an operator
  ADD CONSTRAINT api_key_was_made_by_a_key_of_the_org FOREIGN KEY (org_id, parent_id)
    REFERENCES assent.api_keys (org_id, id),
  ADD CONSTRAINT api_key_is_not_its_own_parent CHECK (parent_id <> id);
CREATE INDEX api_keys_by_parent ON assent.api_keys (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX api_keys_by_member ON assent.api_keys (org_id, user_id) WHERE revoked_at IS NULL;
-- What a key may do never changes: it is revoked, and another one made.
REVOKE UPDATE (name, scopes, expires_at) ON assent.api_keys FROM assent_engine;

DROP TRIGGER api_keys_are_audited ON assent.api_keys;
CREATE TRIGGER api_keys_are_audited AFTER INSERT OR UPDATE OR DELETE ON assent.api_keys FOR EACH ROW
  EXECUTE FUNCTION assent.note_administration('api_key', 'create', 'delete', 'id',
    'user_id prefix partition_id parent_id created_by', 'name scopes expires_at revoked_at');

-- What a reader takes an id for (after Unicode Technical Standard 39): letters of other scripts that look like Latin ones
-- become these, as do the figures 0 and 1, capital I and bars; then case, and the pairs rn and vv, make no difference. Two
-- ids with one skeleton are look-alikes. The letters are those that people can type (Cyrillic, Greek, Armenian, rare Latin);
-- compatibility forms, such as full width, are gone before: ids are in the form NFKC.
CREATE FUNCTION assent.skeleton_of_id(id text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(replace(lower(translate(id,
      U&'\0430\0435\043E\0440\0441\0443\0445\043A\0433\0455\0456\0458\04BB\0501\051B\051D\04CF'
      || U&'\0410\0412\0415\041A\041C\041D\041E\0420\0421\0422\0423\0425\0405\0406\0408\050C\051A'
      || U&'\051C\04C0\04AE'
      || U&'\03B1\03BF\03BD\03C1\03B9\03BA\03C5\03B3\03B7\03C4\03C7\03C3\0391\0392\0395\0396\0397'
      || U&'\0399\039A\039C\039D\039F\03A1\03A4\03A5\03A7'
      || U&'\0585\0578\057D\0570\0581\0566\0575'
      || U&'\0131\0251\0261\0269\0237\01C0'
      || U&'01I|',
      'aeopcyxkrsijhdqwlABEKMHOPCTYXSlJGQWlY'
      || 'aovpikuyntxoABEZHlKMNOPTYX'
      || 'onuhgqj'
      || 'iagijl'
      || 'Olll'
    ) COLLATE "C"), 'rn', 'm'), 'vv', 'w');

CREATE INDEX members_by_skeleton ON assent.members (org_id, assent.skeleton_of_id(user_id));
-- A capital I is read as l, so case is compared by itself as well: Ian and ian.
CREATE INDEX members_by_id_in_any_case ON assent.members (org_id, lower(user_id COLLATE "C"));

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA assent FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assent.skeleton_of_id(text) TO assent_engine;
