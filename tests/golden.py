"""Files that a test compares with what the code makes now.

`ASSENT_UPDATE_GOLDEN=1 make test ARGS=tests/unit/templates` writes them anew; the difference is then reviewed
like code.
"""

import os
from pathlib import Path


def assert_golden(file: Path, text: str) -> None:
    """Fail unless `file` holds `text`; with ASSENT_UPDATE_GOLDEN set, write it instead."""
    if os.environ.get("ASSENT_UPDATE_GOLDEN"):
        assert not os.environ.get("CI"), (
            "CI compares golden files; ASSENT_UPDATE_GOLDEN would make them agree"
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    found = file.read_text(encoding="utf-8") if file.exists() else ""
    assert found == text, f"{file.name} is not what the code makes; see tests/golden.py to update it"
