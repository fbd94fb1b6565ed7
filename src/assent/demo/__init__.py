"""The demo company that `assent demo` opens, on a real database."""
