"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# A busy machine must not fail a test: no law here is about wall-clock time of one example.
settings.register_profile("simcg", settings.get_profile("default"), deadline=None)
settings.load_profile("simcg")

# Nor may the terminal it is started from: these change what rich prints.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)
