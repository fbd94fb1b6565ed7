"""The command line: one door, a file for each command."""
