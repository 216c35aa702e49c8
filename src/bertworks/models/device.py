"""Where a model can run."""

from __future__ import annotations

import torch

from bertworks.errors import UsageError, choice


def usable_device(name: str | torch.device) -> torch.device:
    """The device of that name, or an error that says which there are."""
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    kind = str(name).partition(":")[0]
    if kind in ("cuda", "mps") and kind not in there:
        raise UsageError(f"there is no {kind.upper()} device here; allowed: {', '.join(there)}")
    return torch.device(choice(str(name), there, "device"))
