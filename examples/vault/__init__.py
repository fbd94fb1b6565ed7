"""A vault: containers become blobs under their hash and come out again, byte for byte; see README.md.

assent worker --app vault:app
"""

from . import catalog, enrich, ingest
from .application import app

__all__ = ["app", "catalog", "enrich", "ingest"]
