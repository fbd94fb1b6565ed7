"""The demo: a short story on a real database, told on the terminal. `assent demo` runs it."""
