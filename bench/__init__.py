"""Benchmarks: `make bench`, or `make bench ONLY=kernel`. Each module measures one thing."""
