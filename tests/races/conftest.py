from tests.kernel.conftest import app, kernel

__all__ = ["app", "kernel"]
