"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine must not fail a test: no law here is about wall-clock time of one example.
settings.register_profile("simcg", settings.get_profile("default"), deadline=None)
settings.load_profile("simcg")
