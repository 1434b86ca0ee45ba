"""An installation of its own, and samples for runs that make checkpoints."""

from tests.ready_samples import *  # noqa: F403  fixtures
