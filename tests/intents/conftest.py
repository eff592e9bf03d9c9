"""Every test that takes `backend` runs on every store; `postgres` is a place for processes."""

from tests.crash.conftest import postgres
from tests.engine.conftest import backend

__all__ = ["backend", "postgres"]
