"""Where the time of embedding goes: what PyTorch's operations take of it, in one thread, by kind.

    python -m benchmarks.profile_embed [--precision int8] [--rows 1000]

One thread, so that the times of the operations add up. What is not an operation of PyTorch (tokenizing, compiled loops,
Python) is the rest. Batches are those of the default size, of which the compiled way for small ones takes no part.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.embed import read_short
from benchmarks.options import add_data
from benchmarks.report import table

KINDS = {
    "products of linear layers": ("addmm", "mm", "linear", "qlinear_pointwise"),
    "attention": ("bmm", "baddbmm", "_softmax", "_scaled_dot_product_flash_attention_for_cpu"),
    "GELU": ("gelu",),
    "norms and sums": ("native_layer_norm", "add", "add_", "mean", "sum"),
    "moving data": ("copy_", "cat", "index_select", "embedding", "clone", "empty", "view", "transpose", "as_strided"),
}


def kind_of(operation: str) -> str:
    name = operation.rpartition("::")[2]
    return next((kind for kind, names in KINDS.items() if name in names), "other operations")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_embed", description="Where the time goes.")
    parser.add_argument("--precision", choices=("fp32", "int8"), default="fp32")
    parser.add_argument("--rows", type=int, default=1000, help="sentences of SST-2 (default 1000)")
    add_data(parser)
    options = parser.parse_args(arguments)

    import torch
    from torch.profiler import ProfilerActivity, profile

    import bertworks
    from bertworks.infer.few_rows import settle_few_rows

    torch.set_num_threads(1)
    settle_few_rows(None)
    model = bertworks.load("minilm", precision=options.precision)
    texts = read_short(options.data, options.rows)
    model.embed(texts)
    started = time.perf_counter()
    model.embed(texts)
    whole = time.perf_counter() - started
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        started = time.perf_counter()
        model.embed(texts)
        watched = time.perf_counter() - started
    seconds: dict[str, float] = {}
    for event in profiler.key_averages():
        kind = kind_of(event.key)
        seconds[kind] = seconds.get(kind, 0.0) + event.self_cpu_time_total / 1e6
    seconds["tokenizing, compiled loops, Python"] = max(watched - sum(seconds.values()), 0.0)
    rows = [[kind, f"{took / watched:.0%}"] for kind, took in sorted(seconds.items(), key=lambda item: -item[1])]
    print(f"{len(texts):,} sentences, {options.precision}: {whole:.2f} s, {watched:.2f} s while watched\n")
    print(table(["", "share"], rows))


if __name__ == "__main__":
    main()
