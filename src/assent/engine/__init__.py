"""Tokens, joins and the kinds of nodes: what happens next, decided without a database, a clock or a network."""
