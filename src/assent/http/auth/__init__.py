"""Signing in: tokens, API keys, callers and rates."""
