"""One cluster of two workers on this machine for all tests of Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def cluster() -> Iterator[None]:
    """Two processors, without a dashboard and without talk."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[data]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_DEDUP_LOGS", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT / "src"))  # the workers' too
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=100 * 2**20,
        )
        yield
        ray.shutdown()
