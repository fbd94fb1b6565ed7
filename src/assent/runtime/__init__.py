"""Makes decisions true: one batch, one transaction."""
