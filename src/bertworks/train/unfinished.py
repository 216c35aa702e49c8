"""The model of a run that is not over: its last checkpoint, opened as `hub.load` would open a finished one.

A long training can so be tried, handed on or gone on with (`--from`) before its last step. Weights that are averaged are
the averaged ones. ELECTRA's generator stays behind, as does the optimiser: the run itself goes on from its own checkpoint,
and nothing of it is touched here. What the run was begun with (corpus, teacher, a model that it goes on with) must be there.
"""

from __future__ import annotations

from pathlib import Path

from bertworks import hub
from bertworks.errors import BertworksError, CheckpointError
from bertworks.train import state
from bertworks.train.assemble import assemble
from bertworks.train.directory import CHECKPOINTS, CONFIG_FILE, command_of, is_finished, is_run
from bertworks.train.maskers import LEXICON_FILE
from bertworks.train.recipes import load_recipe
from bertworks.train.settle import open_corpus

COMMANDS = ("pretrain", "distill")


def is_unfinished(directory: Path) -> bool:
    """Whether it is a run of ours that has steps to go."""
    return is_run(directory) and not is_finished(directory) and command_of(directory) in COMMANDS


def load_unfinished(directory: Path) -> tuple[hub.Loaded, int]:
    """The model, and the step that it is of."""
    recipe = load_recipe(directory / CONFIG_FILE)
    assert recipe.run is not None
    saved = state.latest(directory / CHECKPOINTS)
    if saved is None:
        raise CheckpointError(f"{directory} has no checkpoint yet; it gets one with --resume, and when it is stopped")
    try:
        corpus = open_corpus(Path(recipe.run.corpus))
        assembly = assemble(recipe, corpus, directory / LEXICON_FILE)
    except BertworksError as error:
        raise CheckpointError(
            f"{directory} cannot be opened without what it was begun with ({error}); call this where the run was started"
        ) from error
    state.load_weights(saved.path, assembly.module)
    model = assembly.model.eval()
    loaded = hub.Loaded(
        model=model,
        tokenizer=assembly.tokenizer,
        directory=directory,
        settings=assembly.settings,
        window=model.num_positions,
    )
    return loaded, saved.step
