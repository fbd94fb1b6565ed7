"""The pages say what is so: their routes, settings, codes and scopes are those of the code."""

import re

from assent.http.settings import HttpSettings
from assent.people.api_keys import SCOPES
from assent.refusals import STATUS_OF
from tests.http.route_table import DOCUMENT
from tests.processes.commands import ROOT
from tests.settings import defaults_of

DOOR = (ROOT / "docs" / "http.md").read_text()
SIGNING_IN = (ROOT / "docs" / "signing-in.md").read_text()


def test_every_route_is_on_the_page():
    told = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", DOOR, re.MULTILINE))
    document = DOCUMENT["paths"]
    assert told == {f"{method.upper()} {path}" for path, methods in document.items() for method in methods}


def test_every_setting_is_on_one_of_the_pages_with_its_default():
    told = dict(re.findall(r"^\| `(ASSENT_HTTP_\w+)` \|(?: (\w+))? +\|", DOOR + SIGNING_IN, re.MULTILINE))
    assert told == defaults_of(HttpSettings)


def test_codes_have_the_status_that_the_page_says():
    rows = re.findall(r"^\| (\d{3}) \| (.+?) \|", DOOR, re.MULTILINE)
    assert rows
    for status, codes in rows:
        for code in re.findall(r"`([A-Z_]+)`", codes):
            # A conflict of versions is 409, unless `If-Match` asked for the version.
            assert STATUS_OF[code] == int(status) or (code, status) == ("VERSION_CONFLICT", "412"), code


def test_scopes_on_the_page_are_scopes():
    told = set(re.findall(r"`([a-z]+:(?:read|write))`", SIGNING_IN))
    assert told
    assert told <= set(SCOPES)
