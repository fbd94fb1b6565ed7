"""Scenarios: tests of a process that its authors write in YAML, read, run and explained when they fail."""
