"""Django, set up once in a process of tests, and pointed at the database of each test."""

from collections.abc import Iterator
from contextlib import contextmanager

import django
from django.conf import settings
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "said by each test"}},
    ALLOWED_HOSTS=["testserver"],
)
django.setup()

_NAMES = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


@contextmanager
def django_on(url: str) -> Iterator[None]:
    """Have Django's connection of this thread lead to a database; close it at the end."""
    connection = connections["default"]
    given = conninfo_to_dict(url)
    connection.settings_dict |= {name: given.get(key, "") for name, key in _NAMES.items()}
    try:
        yield
    finally:
        connection.close()
