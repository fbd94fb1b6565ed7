"""What of the test kit is loaded, and when."""

import subprocess
import sys

import pytest

import assent.testing


def test_every_name_is_there() -> None:
    assert all(getattr(assent.testing, name) is not None for name in assent.testing.__all__)
    assert dir(assent.testing) == sorted(assent.testing.__all__)


def test_another_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match="Sandbox"):
        _ = assent.testing.Sandpit  # type: ignore[attr-defined]


def test_whoever_wants_a_database_alone_does_not_load_the_engine() -> None:
    script = "import sys, assent.testing.databases; sys.exit('assent.engine.run' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
