"""Every test that takes `backend` runs on every store."""

from __future__ import annotations

import pytest

from tests.stores.backends import BACKENDS, Backend


@pytest.fixture(params=[pytest.param(backend, id=backend.id, marks=backend.marks) for backend in BACKENDS])
def backend(request: pytest.FixtureRequest) -> Backend:
    backend: Backend = request.param
    return backend
