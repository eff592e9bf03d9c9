"""Every test that takes `backend` runs on every store."""

from tests.engine.conftest import backend

__all__ = ["backend"]
