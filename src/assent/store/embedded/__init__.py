"""The PostgreSQL server that Assent brings along."""
