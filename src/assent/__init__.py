"""Assent: a PostgreSQL-native workflow engine for business documents."""

__version__ = "0.1.0"
