"""Frozen values that every room shares. Pure: no database, no clock, no network."""
