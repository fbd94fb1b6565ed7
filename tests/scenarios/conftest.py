"""Fixtures of the scenarios."""

from pathlib import Path

import pytest

from tests.scenarios.living import Lives


@pytest.fixture(scope="session")
def lives(run_dir: Path, postgres_url: str) -> Lives:
    folder = run_dir / "scenarios"
    folder.mkdir(exist_ok=True)
    return Lives(folder, postgres_url)
