"""Do the ranks fit where fast links join all GPUs? A note where they do not."""

from __future__ import annotations

from simcg.hardware.profile import HardwareProfile
from simcg.model.ops import AllReduce, ForwardPass

JOINED = {
    "a100": (8, "NVLink"), "h100": (8, "NVLink"), "h200": (8, "NVLink"), "b200": (8, "NVLink"),
    "b300": (8, "NVLink"), "gb200": (72, "NVLink"), "gb300": (72, "NVLink"),
    "rtx-pro-6000": (8, "PCIe in a host"),
}  # fmt: skip
"""GPUs that links join, of built-in profiles: HGX boards, NVL72 racks, servers with PCIe."""


def link_note(forward: ForwardPass, profile: HardwareProfile) -> str | None:
    """Said where all-reduces leave the links that they are priced on; None elsewhere.

    Also None where nobody knows how many GPUs the links join.
    """
    shapes = (op.shape for op in forward.numbered[0])
    ranks = max((shape.ranks for shape in shapes if isinstance(shape, AllReduce)), default=1)
    for name, (most, links) in JOINED.items():
        ours = profile.name == name or profile.name.startswith(f"{name}-")
        if ours and ranks > most:
            return (
                f"{ranks} ranks are more than the {most} GPUs that {links} joins "
                f"on {profile.name}: all-reduces between them are slower than priced here"
            )
    return None
