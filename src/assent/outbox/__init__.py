"""The engine's outbox: events that advance instances."""
