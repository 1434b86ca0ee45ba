"""An installation of its own, and samples to learn from."""

from tests.ready_attempts import *  # noqa: F403  fixtures
from tests.ready_samples import *  # noqa: F403  fixtures
