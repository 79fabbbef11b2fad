"""What all tests share: how hard Hypothesis tries, and how long a test may take before it hangs.

``HYPOTHESIS_PROFILE=thorough make test`` looks at many fresh examples; the default is the same examples on every run, so
that a red run is caused by the change and not by luck.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from page.browser import browser, pictures, visit  # noqa: F401

#: Seconds after which a test of a kind is taken for hanging; all others have what pyproject.toml says.
TIMEOUTS = {"slow": 3_600, "spark": 1_800, "kafka": 1_800}

# A first example may wait for kernels to load, and two workers share two cores: time says nothing about correctness.
_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("ci", derandomize=True, max_examples=50, database=None, **_SLOW_IS_FINE)
settings.register_profile("thorough", max_examples=2_000, print_blob=True, **_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        seconds = [limit for kind, limit in TIMEOUTS.items() if item.get_closest_marker(kind)]
        if seconds and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(seconds)))
