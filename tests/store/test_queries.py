"""Named statements: how a file of them is read, and what is refused."""

import pytest

from assent.store.queries import BadQueries, Queries, all_statements, load_queries, parse_statements

TWO = """\
-- About things.

-- name: count_things
-- How many things there are,
-- of any kind.
select count(*)
-- of all orgs
from things;

-- name: drop_thing_if_free
-- Removes one that nobody holds.
delete from things where id = $1 and holder is null;
"""


def test_statements_are_read_with_their_names_and_purposes():
    first, second = parse_statements(TWO, "things.sql")
    assert (first.name, first.purpose) == ("count_things", "How many things there are, of any kind.")
    assert first.sql == "/* count_things */ select count(*)\n-- of all orgs\nfrom things"
    assert second.sql == "/* drop_thing_if_free */ delete from things where id = $1 and holder is null"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\n-- Once.\nselect 1;\n-- name: a\n-- Twice.\nselect 2;", "a is named twice"),
        ("-- name: a\n-- Nothing follows.\n", "a has no SQL"),
        ("-- name: a\n-- Nothing but a stop.\n;", "a has no SQL"),
        ("-- name: a\nselect 1;", "a has no comment below its name"),
        ("-- name: Claim Events\n-- A name with a space.\nselect 1;", "expected a name such as"),
        ("-- name:\n-- No name.\nselect 1;", "expected a name such as"),
        ("select 1;\n-- name: a\n-- Late.\nselect 1;", "before the first statement, found 'select 1;'"),
    ],
)
def test_a_file_that_is_not_in_order_is_refused(text, complaint):
    with pytest.raises(BadQueries, match=r"things\.sql: ") as caught:
        parse_statements(text, "things.sql")
    assert complaint in str(caught.value)


def test_every_complaint_about_a_file_is_told_at_once():
    with pytest.raises(BadQueries) as caught:
        parse_statements("-- name: a\n-- name: b\n", "things.sql")
    assert len(str(caught.value).splitlines()) == 4


def test_an_unknown_statement_fails_loudly_and_suggests_a_name():
    queries = Queries({s.name: s for s in parse_statements(TWO, "things.sql")}, "things.sql")
    assert queries.count_things.endswith("from things")
    with pytest.raises(
        AttributeError, match=r"things\.sql has no statement named 'count_thing'; did you mean 'count_things'"
    ):
        _ = queries.count_thing


def test_all_statements_finds_the_files_of_the_package_and_leaves_the_schema_aside():
    sources = {statement.source for statement in all_statements()}
    assert "assent.store/store.sql" in sources
    assert not any(".schema" in source or ".migrations" in source for source in sources)
    assert {s.name for s in load_queries("assent.store", "store.sql")} <= {s.name for s in all_statements()}
