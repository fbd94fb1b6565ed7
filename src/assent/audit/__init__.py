"""The audit log: who did what, on whose behalf, to what, when and why."""
