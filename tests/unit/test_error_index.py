"""docs/errors.md has every code that the source names, once, with its HTTP status, and no other."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from assent.refusals import STATUS_OF, status_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "assent"
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
INCIDENTS, DATABASE = SECTIONS["Incidents and attempts"], SECTIONS["The database"]
CODE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{4,}")
ROW = re.compile(r"^\| `(\w+)` \|(?: (\d+) \|)? ([^|]+(?:\\\|[^|]*)*) \| (.+) \|$", re.MULTILINE)
NOT_CODES = frozenset(
    re.findall(
        r"\w+",
        """
        ASSENT_APP ASSENT_DATABASE_URL ASSENT_DATA_DIR ASSENT_HOST ASSENT_ORG ASSENT_PORT ASSENT_SENTRY_MESSAGES
        ASSENT_TEST_DATABASE_URL ASSENT_USER LC_ALL OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
        OTEL_SDK_DISABLED OTEL_SERVICE_NAME OTEL_TRACES_EXPORTER PG_VERSION PYTHONPATH SENTRY_DSN SENTRY_ENVIRONMENT
        TCP_KEEPALIVE TCP_KEEPCNT TCP_KEEPIDLE TCP_KEEPINTVL TCP_USER_TIMEOUT
        DELETE HEAD INSERT OPTIONS PATCH POST SELECT UPDATE
        BEGIN COMMIT ERROR GRANT REVOKE ROLLBACK SAVEPOINT NFKC UNKNOWN FALSE NULL TRUE SUBJECT VERSION
        BUSYGROUP ASSENT_KEY ASSENT_PROCESSES ASSENT_PROFILE ASSENT_SERVER CODE HTTP_STATUS KIND LANGUAGE OTHER PREFIX
        CLOSE OPEN OPERATOR RPAR SYMBOL TEXT DUTY FILE FORM FROM LENGTH NAME REQUEST ROLE TYPE USER
        ATTACHMENT CALL CONDITION DENY FIELD NFC OMP_THREAD_LIMIT OUT_OF_PAPER WORDS
        CORRUPTED JPEG LOW_RESOLUTION PASSWORD_PROTECTED UNSUPPORTED_FORMAT
        """,
    )
)
"""Texts in capitals that are no codes: variables, methods, words of SQL, YAML and grammars, placeholders of options,
and codes with which a document is rejected, which are rows."""


@cache
def codes_in_source() -> frozenset[str]:
    found = {text for path in SOURCE.rglob("*.py") for text in _texts_of(path) if CODE.fullmatch(text)}
    return frozenset(found - NOT_CODES)


def _texts_of(path: Path) -> set[str]:
    """Return the texts of a file, without the names that `__all__` and lazy imports list."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lists = [
        node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign) and _is_exports(node)
    ]
    exported = {id(each) for node in lists for each in ast.walk(node)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in exported)
    return {node.value for node in texts if isinstance(node.value, str)}


def _is_exports(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id in ("__all__", "_PLACES") for target in targets)


def rows(text: str) -> list[tuple[str, str, str, str]]:
    return ROW.findall(text)


def codes(text: str) -> list[str]:
    return [code for code, *_ in rows(text)]


def test_every_code_of_the_source_is_on_the_page() -> None:
    assert sorted(codes_in_source() - set(codes(PAGE))) == []


def test_no_code_is_on_the_page_that_the_source_does_not_name() -> None:
    states = set(
        re.findall(r"ERRCODE = '(AS\d+)'", "".join(path.read_text() for path in SOURCE.rglob("*.sql")))
    )
    assert sorted(set(codes(PAGE)) - codes_in_source() - states) == []
    assert set(codes(DATABASE)) == states


def test_each_code_is_there_once_in_the_order_of_the_alphabet() -> None:
    assert [code for code, number in Counter(codes(PAGE)).items() if number > 1] == []
    for title, text in SECTIONS.items():
        assert codes(text) == sorted(codes(text)), title


def test_each_code_says_its_status_what_it_means_and_what_to_do() -> None:
    for code, status, meaning, remedy in rows(PAGE):
        assert meaning.endswith("."), code
        assert remedy.endswith("."), code
        if code in codes(INCIDENTS) or code in codes(DATABASE):
            assert (status, STATUS_OF.get(code)) == ("", None), code
        else:
            assert int(status) == status_of(code), code


def test_no_line_of_a_table_is_left_unread() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows(PAGE))
    assert len(rows(PAGE)) > 250
