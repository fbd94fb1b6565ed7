"""Schedules: cron lines that start tasks, once for each time in all workers together."""
