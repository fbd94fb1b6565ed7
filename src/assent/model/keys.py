"""Keys of rows as tuples. An org comes first in each of them: no id means anything without its org."""

from datetime import datetime
from uuid import UUID

InstanceKey = tuple[str, UUID]
"""An org and one of its instances."""

EntityKey = tuple[str, UUID]
"""An org and one of its entities."""

RequestKey = tuple[str, UUID]
"""An org and one of its approval requests, forms or outside requests."""

DefinitionKey = tuple[str, UUID]
"""The owner of a definition, which is an org or `*`, and the definition."""

EventKey = tuple[str, str]
"""An org and the key of an event."""

Cursor = tuple[datetime, UUID]
"""The last row of a page: its time and its id."""
