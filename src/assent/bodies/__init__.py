"""Bodies that HTTP replies with and that `--json` of the command line prints: one definition of each, for both."""
