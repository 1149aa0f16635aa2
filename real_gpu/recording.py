"""Records what one capture of a bucket does, for simcg's checker.

recording = observed_capture(backend, bucket, forward, {"ids": ("static", ids)})
"""

from __future__ import annotations

from real_gpu.audit import audit
from real_gpu.backends.backend import Backend, Forward
from real_gpu.observe.log import Declared
from simcg.formal.recording import Recording
from simcg.ladder import Bucket


def observed_capture(
    backend: Backend, key: Bucket, forward: Forward, declared: Declared
) -> Recording:
    """Capture a bucket, and say what was done; see ``audit`` for ``declared``.

    Raises ``CaptureError`` as the capture does.
    """
    with audit(declared) as found:
        backend.capture_one(key, forward)
    return found.recordings.captures[0]
