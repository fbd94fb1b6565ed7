"""Triggers: events that start tasks, and joins: completed tasks that start one more."""
