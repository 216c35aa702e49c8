"""The learning rate as a pure function of the step: nothing to save, nothing to replay.

    linear      up over the warm-up, then straight down                             BERT (Devlin et al. 2018)
    cosine      up, then down along half a cosine                                    Loshchilov & Hutter 2016
    constant    up, then flat
    trapezoid   up, flat, and over the last steps down as 1 - sqrt(progress)         Hägele et al. 2024
    noam        up, then down with the inverse square root of the step               Vaswani et al. 2017

The first step already moves (a warm-up of n steps begins at 1/n, not at 0), and so does the last one.
"""

from __future__ import annotations

import math

from bertworks.train.config import ScheduleConfig


def warmup_steps(config: ScheduleConfig, total_steps: int) -> int:
    """The length of the warm-up: a share of the training below 1, else a number of steps."""
    return round(config.warmup * total_steps) if config.warmup < 1.0 else round(config.warmup)


def scale_at(config: ScheduleConfig, step: int, total_steps: int) -> float:
    """The share of the highest learning rate with which step `step` (0 … total_steps - 1) is taken."""
    warmup = warmup_steps(config, total_steps)
    if step < warmup:
        return (step + 1) / warmup
    if config.name == "noam":  # 1 where the warm-up ends, so that the peak is the configured learning rate
        return math.sqrt(max(warmup, 1) / (step + 1))
    if config.name == "constant":
        return 1.0
    start = warmup if config.name != "trapezoid" else max(warmup, total_steps - round(config.decay * total_steps))
    if step < start:
        return 1.0
    progress = (step - start) / max(total_steps - start, 1)  # 0 at the first falling step, 1 just after the last
    left = {
        "linear": 1.0 - progress,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * progress)),
        "trapezoid": 1.0 - math.sqrt(progress),
    }[config.name]
    return config.final + (1.0 - config.final) * left
