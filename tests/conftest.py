"""What all tests share: how hard Hypothesis tries.

``HYPOTHESIS_PROFILE=thorough make test`` looks at many fresh examples; the default is the same examples on every run, so
that a red run is caused by the change and not by luck.
"""

import os

from hypothesis import HealthCheck, settings

# A first example may wait for kernels to load, and two workers share two cores: time says nothing about correctness.
_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("ci", derandomize=True, max_examples=50, database=None, **_SLOW_IS_FINE)
settings.register_profile("thorough", max_examples=2_000, print_blob=True, **_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
