"""The engines of `benchmarks.decode`: ids of sources or prompts in, ids of what is written out; both load the same directory.

Every factory returns `write(task)`, where a task has the inputs and how long each result may become. Both engines sort the
inputs by length and cut them into batches of the same size, so that the same sentences are decoded together. What differs is
everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

TRANSLATOR = {"layers": 3, "ffn_dim": 512, "attention_heads": 4}
"""Each side of the random translator: the recipe `transformer`."""


class Task(NamedTuple):
    """What one call decodes."""

    inputs: list[list[int]]
    limits: list[int]
    """The longest result of each."""


Write = Callable[[Task], list[list[int]]]


def bertworks(*, model: str, beam: int, batch_size: int, threads: int, **_: Any) -> Write:
    """Bertworks: batches side by side, one per thread."""
    import torch

    from bertworks.hub.checkpoint import load_module
    from bertworks.infer.decode import Beam, Greedy, Strategy
    from bertworks.infer.decoders import decoder_for, lay_out_for_steps
    from bertworks.infer.generate import decode_all
    from bertworks.models.seq2seq import TargetIds

    torch.set_num_threads(threads)
    loaded: Any = load_module(model)
    decoder = decoder_for(loaded)
    lay_out_for_steps(loaded)
    target = getattr(loaded.config, "target", TargetIds())
    # Without scores, as `translate run` does it to a file of texts and a training where it is judged.
    strategy: Strategy = Greedy(scores=False) if beam == 1 else Beam(width=beam)

    def write(task: Task) -> list[list[int]]:
        found = decode_all(
            decoder,
            [np.array(row) for row in task.inputs],
            strategy,
            max_new_tokens=task.limits,
            ids=target,
            device=torch.device("cpu"),
            batch_size=batch_size,
        )
        return [some[0].tokens.tolist() for some in found]

    return write


def transformers(*, model: str, beam: int, batch_size: int, threads: int, **_: Any) -> Write:
    """`generate` as a careful user calls it: sorted, padded per batch, with its cache and its default attention.

    That each sentence has a limit of its own is told by a stopping criterion, which it asks for every row.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, logging

    logging.set_verbosity_error()
    torch.set_num_threads(threads)
    translates = AutoConfig.from_pretrained(model).is_encoder_decoder
    network = (AutoModelForSeq2SeqLM if translates else AutoModelForCausalLM).from_pretrained(model).eval()
    end = network.generation_config.eos_token_id if translates else None
    pad = network.config.pad_token_id or 0
    options = {"num_beams": beam, "do_sample": False, "pad_token_id": pad, "eos_token_id": end}

    def write(task: Task) -> list[list[int]]:
        order = sorted(range(len(task.inputs)), key=lambda number: -len(task.inputs[number]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            rows, mask = _padded([task.inputs[number] for number in chosen], pad, left=not translates)
            before = 1 if translates else rows.shape[1]
            limits = torch.tensor([task.limits[number] for number in chosen])

            def is_long_enough(
                ids: torch.Tensor, scores: Any, limits: torch.Tensor = limits, before: int = before, **_: Any
            ) -> torch.Tensor:
                return ids.shape[1] - before >= limits.repeat_interleave(len(ids) // len(limits))

            new = network.generate(
                torch.from_numpy(rows),
                attention_mask=torch.from_numpy(mask),
                max_new_tokens=int(limits.max()),
                stopping_criteria=[is_long_enough],
                **options,
            )
            for number, row in zip(chosen, new[:, before:].tolist(), strict=True):
                found[number] = _until(row[: task.limits[number]], end)
        return [found[number] for number in range(len(task.inputs))]

    return write


def _until(row: list[int], end: int | None) -> list[int]:
    return row[: row.index(end)] if end in row else row


def _padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool) -> tuple[np.ndarray, np.ndarray]:
    """(B, longest) ids and mask"""
    longest = max(map(len, rows))
    ids = np.full((len(rows), longest), pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(len(row))
        ids[number, place], mask[number, place] = row, 1
    return ids, mask


def prepare_random(*, model: str, **_: Any) -> dict[str, Any]:
    """Write the model of that name with random weights.

    translator   the shape of the recipe `transformer`, which Multi30k can fill: 3 + 3 layers of width 256 and 8,000 tokens
    gpt          GPT-2 at a third of its width and half of its layers, with 10,000 tokens
    """
    from pathlib import Path

    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel

    path = Path(model)
    torch.manual_seed(0)
    if path.name == "translator":
        size = 8000
        sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in TRANSLATOR.items()}
        config = MarianConfig(
            vocab_size=size,
            d_model=256,
            max_position_embeddings=256,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=size - 1,
            decoder_start_token_id=size - 1,
            eos_token_id=0,
            forced_eos_token_id=None,
            init_std=0.06,
            **sides,
        )
        network = MarianMTModel(config)
        network.final_logits_bias[0, 0] = -1e4  # sentences end at their limits
    else:
        shape = {"n_embd": 256, "n_layer": 6, "n_head": 8, "vocab_size": 10000, "initializer_range": 0.06}
        network = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None, **shape))
    network.save_pretrained(path)
    return {}
