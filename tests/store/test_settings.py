"""Settings from the environment."""

import re
from pathlib import Path

import pytest

from assent.effects.settings import SmtpSettings
from assent.http.settings import HttpSettings
from assent.model.problems import Invalid
from assent.store.settings import Settings
from tests.settings import defaults_of, read_from


def test_an_empty_environment_gives_the_defaults():
    assert read_from(Settings, {}) == Settings()
    assert read_from(Settings, {"ASSENT_LOCK_TIMEOUT_MS": " "}) == Settings()


def test_each_setting_is_read_from_its_variable():
    settings = read_from(
        Settings,
        {
            "ASSENT_DATABASE_URL": "postgresql://someone@somewhere/assent",
            "ASSENT_DATA_DIR": "~/data",
            "ASSENT_PAYLOAD_BYTES_MAX": "2048",
            "ASSENT_STATEMENT_TIMEOUT_MS": "0",
        },
    )
    assert settings.database_url == "postgresql://someone@somewhere/assent"
    assert settings.data_dir == Path.home() / "data"
    assert (settings.payload_bytes_max, settings.statement_timeout_ms) == (2048, 0)


@pytest.mark.parametrize("text", ["ten", "-1", "1e3", "1_000", "1.5", "٣", "0", "9" * 30])
def test_a_number_that_is_none_or_out_of_range_names_its_variable(text):
    with pytest.raises(Invalid, match=r"ASSENT_POOL_CONNECTIONS_MAX: expected a whole number from 1 to 1000"):
        read_from(Settings, {"ASSENT_POOL_CONNECTIONS_MAX": text})


def test_every_bad_variable_is_told_at_once():
    with pytest.raises(Invalid) as caught:
        read_from(Settings, {"ASSENT_LOCK_TIMEOUT_MS": "x", "ASSENT_PAYLOAD_BYTES_MAX": "y"})
    assert [problem.where for problem in caught.value.problems] == [
        "ASSENT_LOCK_TIMEOUT_MS",
        "ASSENT_PAYLOAD_BYTES_MAX",
    ]


@pytest.mark.parametrize("url", ["mysql://u:secret@host/db", "host=here password=secret", "http://[secret"])
def test_a_url_of_something_else_is_refused_without_showing_its_password(url):
    with pytest.raises(Invalid, match="ASSENT_DATABASE_URL: expected postgresql://") as caught:
        read_from(Settings, {"ASSENT_DATABASE_URL": url})
    assert "secret" not in str(caught.value)


def test_secrets_are_read_from_the_files_that_the_variables_name(tmp_path):
    (tmp_path / "url").write_text("postgresql://u:secret@host/db\n")
    (tmp_path / "password").write_text("hunter22\n")
    url = read_from(Settings, {"ASSENT_DATABASE_URL": f"@{tmp_path}/url"}).database_url
    assert url == "postgresql://u:secret@host/db"
    assert read_from(SmtpSettings, {"ASSENT_SMTP_PASSWORD": f"@{tmp_path}/password"}).password == "hunter22"
    with pytest.raises(Invalid, match="ASSENT_DATABASE_URL: cannot read the file: FileNotFoundError"):
        read_from(Settings, {"ASSENT_DATABASE_URL": f"@{tmp_path}/none"})


def test_a_pool_cannot_begin_larger_than_it_may_grow():
    with pytest.raises(Invalid, match="ASSENT_POOL_CONNECTIONS_MIN: expected at most"):
        read_from(Settings, {"ASSENT_POOL_CONNECTIONS_MIN": "20"})


def test_arguments_take_precedence_and_defaults_ignore_the_environment(monkeypatch):
    monkeypatch.setenv("ASSENT_LOCK_TIMEOUT_MS", "7")
    assert Settings().lock_timeout_ms == 7
    assert Settings(lock_timeout_ms=8).replace(statement_timeout_ms=1).lock_timeout_ms == 8
    assert Settings.defaults(statement_timeout_ms=1).lock_timeout_ms == 10_000


def test_a_setting_that_does_not_exist_is_refused():
    with pytest.raises(Invalid, match="ASSENT_LOCK_TIMEOUT"):
        Settings(lock_timeout=1)  # type: ignore[call-arg]


def test_every_variable_is_on_the_page_with_its_default():
    page = (Path(__file__).parents[2] / "docs/store.md").read_text()
    assert dict(re.findall(r"^\| `(ASSENT_\w+)` \| (\w*) ?\|", page, re.MULTILINE)) == defaults_of(Settings)


def test_neither_the_url_nor_a_key_is_shown():
    assert "secret" not in repr(Settings(database_url="postgresql://u:secret@host/db"))
    key = "a secret of more than thirty-two bytes"
    assert key not in repr(HttpSettings(jwt_key=key, jwt_issuer="i", jwt_audience="a"))
