"""The background duties and their supervisor."""
