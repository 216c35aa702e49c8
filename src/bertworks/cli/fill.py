"""`bertworks fill`: what a masked language model puts in the place of a mask."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from bertworks.cli.common import (
    DEFAULT_DEVICE,
    OWN_MODEL,
    DeviceOption,
    JsonOption,
    ModelOption,
    SeedOption,
    ThreadsOption,
    prepare,
)
from bertworks.errors import UsageError

if TYPE_CHECKING:
    from bertworks.infer.fill import Candidate, JointCandidate, TargetScore


def fill(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text with [MASK] where a word is to be found.")],
    model: ModelOption = OWN_MODEL,
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", help="How many candidates to show per mask.", min=1, metavar="N")
    ] = 5,
    joint: Annotated[bool, typer.Option("--joint", help="Fill several masks together, not each by itself.")] = False,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="Score this word or phrase as a whole; may be repeated.")
    ] = None,
    device: DeviceOption = DEFAULT_DEVICE,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Fill the masks of TEXT with the most probable tokens.

    \b
    Examples:
      bertworks fill "Paris is the [MASK] of France."
      bertworks fill "The [MASK] sat on the [MASK]." --joint --top-k 3
      bertworks fill "She plays the [MASK]." --target piano --target "double bass"
      bertworks fill "法國的首[MASK]是巴黎。" --model MODEL
    """
    if joint and target:
        raise UsageError("--joint and --target do not go together: targets are scored for a single mask")
    prepare(seed=seed, threads=threads)
    from bertworks import load

    loaded = load(model, device=device)
    if target:
        _show_targets(loaded.fill(text, targets=target), json)
    elif joint:
        _show_joint(loaded.fill(text, top_k=top_k, joint=True), json)
    else:
        _show_masks(loaded.fill(text, top_k=top_k), json)


def _show_masks(masks: list[list[Candidate]], json: bool) -> None:
    if json:
        rows = [[{"token": best.token, "probability": best.probability} for best in mask] for mask in masks]
        typer.echo(json_module.dumps(rows, ensure_ascii=False))
        return
    for number, mask in enumerate(masks, start=1):
        if len(masks) > 1:
            typer.echo(f"mask {number}")
        for best in mask:
            typer.echo(f"  {_percent(best.probability):>6}  {best.token:<16}  {best.text}")


def _show_joint(found: list[JointCandidate], json: bool) -> None:
    if json:
        typer.echo(json_module.dumps([asdict(best) for best in found], ensure_ascii=False))
        return
    for best in found:
        typer.echo(f"  {_percent(best.probability):>8}  {best.text}")


def _show_targets(scores: list[TargetScore], json: bool) -> None:
    if json:
        typer.echo(json_module.dumps([asdict(score) for score in scores], ensure_ascii=False))
        return
    for score in scores:
        typer.echo(
            f"  {_percent(score.share):>6}  {score.target:<16}  probability {score.probability:.3g}  {score.text}"
        )


def _percent(share: float) -> str:
    """One digit after the point, or two that count where the share is small: 31.3%, 0.012%."""
    percent = 100 * share
    return f"{percent:.1f}%" if percent >= 1 else f"{percent:.2g}%"
