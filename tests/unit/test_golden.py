"""Golden files: a machine that checks never writes them."""

from pathlib import Path

import pytest

from tests.golden import assert_golden


def test_golden_files_are_not_updated_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENT_UPDATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="CI compares golden files"):
        assert_golden(tmp_path / "page.txt", "new")
    assert not (tmp_path / "page.txt").exists()
