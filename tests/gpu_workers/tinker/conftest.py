"""The service of the stand-in, and learners that are held to one contract."""

from __future__ import annotations

import pytest

from gpu_workers.learner.learner import Learner
from gpu_workers.tinker.service import Service
from gpu_workers.tinker.tinker_learner import TinkerLearner
from tests.doubles.fake_tinker import MODEL, FakeTinker


@pytest.fixture
def cloud():
    return FakeTinker()


@pytest.fixture
def service(cloud):
    return Service(MODEL, api_key="key", package=cloud)


@pytest.fixture(params=["local", "tinker"])
def make(request, tiny_model, cloud, service):
    """Either learner, fresh or from a folder that its own kind saved."""
    if request.param == "local":
        return lambda folder=None: Learner(tiny_model, adapter_dir=folder, dtype="float32")
    return lambda folder=None: TinkerLearner(service, adapter_dir=folder, keep=cloud.download)


@pytest.fixture
def learner(make):
    return make()


@pytest.fixture
def there(service, cloud):
    return TinkerLearner(service, keep=cloud.download)
