"""Tasks: background work that our own workers run. Submitted with the caller's rows, tried until it is done or dead."""
