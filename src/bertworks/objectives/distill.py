"""Distillation: a small model, the student, learns what a large one, the teacher, makes of the text.

`Distillation` is DistilBERT's (Sanh et al. 2019, section 2), for a teacher with a masked-LM head. Three losses:

    soft     at the masked places, the student's distribution over the vocabulary against the teacher's, both softened by a
             temperature T: T² · KL(teacher ‖ student) (Hinton et al. 2015, section 2, for the T²)
    mlm      the masked tokens themselves
    cosine   1 − cosine of student's and teacher's last hidden states, at every token

`Transfer` needs no head: plain text goes through both models, and the student's hidden states are to be the teacher's.

    hidden     at every token, in chosen pairs of layers (Jiao et al. 2020, TinyBERT, section 3.1): mean squared difference
    sentence   the mean over each sequence's last hidden states, which is what an embedding model is used for: 1 − cosine

Where the student is narrower, or wider, a learned linear map per layer leads to the teacher's width. The maps belong to the
trained module (`MappedStudent`), not to the student that is saved.

The teacher is not part of the trained module: it has no gradients, stays in evaluation mode and follows the data to their
device. `init_student` starts a student from some of the teacher's layers.

Left out: matching of attention matrices; teachers with another vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.data.pretraining.masking import Masker
from bertworks.data.pretraining.sequences import Sequences
from bertworks.errors import ConfigError, ModelError, choice
from bertworks.models.model import Model
from bertworks.nn.packed import mean_per_sequence
from bertworks.objectives.base import Batch, Loss, pack
from bertworks.objectives.masked_lm import MaskedLM
from bertworks.objectives.student import even_pairs
from bertworks.objectives.vocabulary import output_of, soft_vocabulary_loss, vocabulary_loss

DISTANCES = ("squared", "cosine")


class Teacher:
    """A model that is only asked. Its gradients are turned off for good, and it is in evaluation mode."""

    def __init__(self, model: Model) -> None:
        self.model = model.eval().requires_grad_(False)

    def on(self, device: torch.device) -> Model:
        """The model, moved to the device where it is not there yet."""
        if self.model.body.embeddings.tokens.weight.device != device:
            self.model.to(device)
        return self.model

    def check(self, student: Model) -> None:
        """Refuse a student that reads other tokens than the teacher."""
        ours, theirs = (model.config.transformer.embeddings.vocab_size for model in (student, self.model))
        if ours != theirs:
            raise ModelError(f"the student has {ours} tokens and the teacher {theirs}; they must share a tokenizer")


def distances(ours: Tensor, theirs: Tensor, kind: str) -> Tensor:
    """Per row of two (R, H) tensors: the mean squared difference, or 1 − cosine; (R,) in fp32."""
    ours, theirs = ours.float(), theirs.float()
    if kind == "cosine":
        return 1.0 - F.cosine_similarity(ours, theirs, dim=-1)
    return (ours - theirs).square().mean(dim=-1)


# -- a teacher with a masked-LM head -----------------------------------------------------------------------------------


class Distillation:
    """Three losses: `soft` and `mlm` per masked token, `cosine` per token; a weight of 0 leaves its computation out."""

    def __init__(
        self,
        teacher: Model,
        masker: Masker,
        *,
        temperature: float = 2.0,
        soft_weight: float = 5.0,
        mlm_weight: float = 2.0,
        cosine_weight: float = 1.0,
    ) -> None:
        """The default weights are DistilBERT's."""
        teacher.head("mlm")
        if temperature <= 0:
            raise ConfigError(f"the temperature is {temperature}; it must be above 0")
        self.teacher = Teacher(teacher)
        self.masked_lm = MaskedLM(masker)
        self.temperature = temperature
        weights = {"soft": soft_weight, "mlm": mlm_weight, "cosine": cosine_weight}
        self.weights: Mapping[str, float] = {name: weight for name, weight in weights.items() if weight > 0}
        if not self.weights:
            raise ConfigError("all weights of the distillation are 0; at least one must be above")

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        batch = self.masked_lm.prepare(rows, progress)
        masked = batch.counts["mlm"]
        counts = {"soft": masked, "mlm": masked, "cosine": batch.num_tokens}
        return Batch(
            packed=batch.packed,
            counts={name: counts[name] for name in self.weights},
            rows=batch.rows,
            tensors=batch.tensors,
        )

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        student = module
        assert isinstance(student, Model)
        assert batch.rows is not None
        self.teacher.check(student)
        teacher = self.teacher.on(batch.packed.input_ids.device)
        everywhere = "cosine" in self.weights
        found: dict[str, Loss] = {}
        hidden = student.body(batch.packed, rows=None if everywhere else batch.rows).last  # (T or M, H)
        taught = hidden  # not read where no loss asks the teacher
        if everywhere or "soft" in self.weights:
            with torch.no_grad():
                taught = teacher.body(batch.packed, rows=None if everywhere else batch.rows).last  # (T or M, H)
        if everywhere:
            if student.hidden_size != teacher.hidden_size:
                raise ModelError(
                    f"the student's width {student.hidden_size} is not the teacher's {teacher.hidden_size}, so their "
                    "hidden states have no cosine; set cosine_weight to 0"
                )
            found["cosine"] = Loss(sum=distances(hidden, taught, "cosine").sum(), count=batch.num_tokens)
            hidden, taught = hidden[batch.rows.index], taught[batch.rows.index]  # (M, H)
        output = output_of(student, "mlm", hidden)
        if "mlm" in self.weights:
            found["mlm"] = vocabulary_loss(output, batch.tensors["targets"])
        if "soft" in self.weights:
            with torch.no_grad():
                wanted = output_of(teacher, "mlm", taught)
            found["soft"] = soft_vocabulary_loss(output, wanted, self.temperature)
        return {name: found[name] for name in self.weights}


# -- a teacher without a head ------------------------------------------------------------------------------------------


class MappedStudent(nn.Module):
    """A student, and a linear map per layer to the teacher's width where the widths differ.

    `Transfer.wrap` makes the maps that its losses use and no others; a map that no loss uses gets no gradient.
    """

    def __init__(self, student: Model, teacher: Model, layers: Iterable[int] | None = None) -> None:
        """`layers` are the student's that get a map, 0 being the embeddings; None means all."""
        super().__init__()
        self.student = student
        self.maps = nn.ModuleDict()
        if student.hidden_size == teacher.hidden_size:
            return
        for layer in sorted(set(range(student.num_layers + 1) if layers is None else layers)):
            linear = nn.Linear(student.hidden_size, teacher.hidden_size, bias=False)
            nn.init.orthogonal_(linear.weight)  # lengths and angles are kept at the start
            self.maps[str(layer)] = linear

    def mapped(self, layer: int, hidden: Tensor) -> Tensor:
        """The student's hidden states (R, H of the student) in the teacher's width."""
        return self.maps[str(layer)](hidden) if str(layer) in self.maps else hidden


class Transfer:
    """Two losses: `hidden` per token and `sentence` per sequence; a weight of 0 leaves its computation out."""

    def __init__(
        self,
        teacher: Model,
        *,
        layers: Mapping[int, int] | None = None,
        hidden_weight: float = 1.0,
        sentence_weight: float = 1.0,
        hidden_distance: Literal["squared", "cosine"] = "squared",
        sentence_distance: Literal["squared", "cosine"] = "cosine",
    ) -> None:
        """`layers` pairs the student's layers with the teacher's, 0 being the embeddings; None spreads them evenly."""
        self.teacher = Teacher(teacher)
        self.layers = layers
        self.hidden_distance = choice(hidden_distance, DISTANCES, "distance")
        self.sentence_distance = choice(sentence_distance, DISTANCES, "distance")
        weights = {"hidden": hidden_weight, "sentence": sentence_weight}
        self.weights: Mapping[str, float] = {name: weight for name, weight in weights.items() if weight > 0}
        if layers is not None and not layers:
            raise ConfigError("no layers are paired; leave them out for an even spread, or set hidden_weight to 0")
        if not self.weights:
            raise ConfigError("all weights of the transfer are 0; at least one must be above")

    def wrap(self, student: Model) -> MappedStudent:
        """What is trained: the student, with a map for each layer that is asked for where the widths differ."""
        self.teacher.check(student)
        return MappedStudent(student, self.teacher.model, self._asked(student)[0])

    def prepare(self, rows: Sequences, progress: float) -> Batch:
        counts = {"hidden": rows.num_tokens, "sentence": len(rows.lengths)}
        return Batch(packed=pack(rows), counts={name: counts[name] for name in self.weights})

    def losses(self, module: nn.Module, batch: Batch) -> dict[str, Loss]:
        assert isinstance(module, MappedStudent)
        student, teacher = module.student, self.teacher.on(batch.packed.input_ids.device)
        self.teacher.check(student)
        pairs = self._pairs(student)
        ours_last, theirs_last = student.num_layers, teacher.num_layers
        ask_ours, ask_theirs = self._asked(student)
        ours = student.body(batch.packed, layers=ask_ours).layers
        with torch.no_grad():
            theirs = teacher.body(batch.packed, layers=ask_theirs).layers
        found: dict[str, Loss] = {}
        if pairs:
            per_pair = [
                distances(module.mapped(layer, ours[layer]), theirs[other], self.hidden_distance).sum()
                for layer, other in pairs.items()
            ]
            found["hidden"] = Loss(sum=torch.stack(per_pair).mean(), count=batch.num_tokens)
        if "sentence" in self.weights:
            layout = batch.packed.layout
            last = ours[ours_last]
            # No sequences have no mean, but must have a gradient all the same.
            sentence = mean_per_sequence(last, layout) if layout.num_sequences else last  # (B, H of the student)
            sentence = module.mapped(ours_last, sentence)  # (B, H of the teacher)
            wanted = mean_per_sequence(theirs[theirs_last], layout)  # (B, H of the teacher)
            apart, count = distances(sentence, wanted, self.sentence_distance).sum(), layout.num_sequences
            near = {"cosine": (count - apart.detach(), torch.tensor(count))}
            found["sentence"] = Loss(sum=apart, count=count, shares=near if self.sentence_distance == "cosine" else {})
        return found

    def _asked(self, student: Model) -> tuple[list[int], list[int]]:
        """The layers of student and teacher that the losses need."""
        pairs = self._pairs(student)
        ours, theirs = list(pairs), list(pairs.values())
        if "sentence" in self.weights:
            ours.append(student.num_layers)
            theirs.append(self.teacher.model.num_layers)
        return ours, theirs

    def _pairs(self, student: Model) -> Mapping[int, int]:
        if "hidden" not in self.weights:
            return {}
        there = self.teacher.model.num_layers
        pairs = self.layers if self.layers is not None else even_pairs(student.num_layers, there)
        for layer, other in pairs.items():
            if not (0 <= layer <= student.num_layers and 0 <= other <= there):
                raise ConfigError(
                    f"the pair of layers {layer}: {other} is not there; the student has 0 to {student.num_layers}, "
                    f"the teacher 0 to {there}"
                )
        return pairs
