"""A family is how Hugging Face spells one kind of model: names of tensors and entries of `config.json`, as tables.

Each table is read in both directions, so that what was loaded can be saved and the other way round:

    keys     entry of `config.json` <-> field of ours     Key("hidden_size", "layer.hidden_size", 768)
    names    our module <-> their module(s)               "body.embeddings.tokens": "embeddings.word_embeddings"
    heads    both of these for what stands on the stack, one `HeadTable` per task

Which tensors there are is not written down anywhere: the parameters of `Model(config)` say so, the tables only name
them. A configuration that a family cannot express is refused when it is written: it would be read back as another one.

The tables themselves are in `families_bert`, `families_modernbert` and `families_gpt`; `families` collects them.
Left out, with a clear error: decoders and cross-attention of the BERT kin, pruned heads, quantised weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from bertworks.errors import CheckpointError, ConfigError, ModelError
from bertworks.hub.rules import Rule
from bertworks.hub.tables import (
    MULTI_LABEL,
    Allowed,
    HeadTable,
    Key,
    read_labels,
    read_value,
    require,
    typed,
    write_labels,
    write_value,
)
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    Task,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.nn.activations import ACTIVATIONS

Fields = dict[str, Any]
"""The fields of a `TransformerConfig` by their path, such as `layer.hidden_size`."""

RENAMED: tuple[tuple[str, str], ...] = ((r"\.gamma$", ".weight"), (r"\.beta$", ".bias"))
"""Old spellings, as regular expressions and what to put in their place: norms of the TensorFlow days."""

IGNORED: tuple[str, ...] = (
    r".*\bposition_ids",  # 0, 1, 2 …
    r".*\.attn\.(bias|masked_bias)",  # GPT's causal triangle and its minus infinity
    r".*\binv_freq",  # rotary angles
    r".*embeddings\.position_embeddings\.weight",  # allocated but not used where positions are relative
)

UNWRITTEN = (
    *("architectures", "model_type", "id2label", "label2id", "num_labels"),
    *("transformers_version", "torch_dtype", "dtype", "_name_or_path"),
)
"""Entries of a `config.json` that we make ourselves, or that would not be true of what we write."""

REFUSED: Allowed = (
    ("is_decoder", (False, None)),
    ("add_cross_attention", (False, None)),
    ("pruned_heads", ({}, None)),
    ("quantization_config", (None,)),
)
"""Entries that would change the numbers, with the values that do not."""


def _nothing(rest: dict[str, Any], fields: Fields) -> None:
    """A family whose key table says everything."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """The tables of one `model_type`."""

    model_type: str
    class_prefix: str
    prefix: str
    """What their names of the stack start with in a model that has heads."""
    keys: tuple[Key, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are the same in every model of the family."""
    names: Mapping[str, str | tuple[str, ...]]
    """Our module -> theirs. `{i}` is the block, `{group}` and `{inner}` are ALBERT's two numbers for it."""
    heads: tuple[HeadTable, ...]
    together: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Sets of tasks that one architecture of theirs holds."""
    pad_token_id: int = 0
    transposed: bool = False
    """Whether the blocks' matrices are stored as inputs x outputs (GPT)."""
    requires: Allowed = ()
    read_more: Callable[[dict[str, Any], Fields], None] = _nothing
    """What the key table cannot say: takes entries out of the first and sets fields in the second."""
    write_more: Callable[[dict[str, Any], Fields], None] = _nothing
    """The reverse: sets entries in the first from the fields in the second."""
    renamed: tuple[tuple[str, str], ...] = RENAMED

    # -- tensors -------------------------------------------------------------------------------------------------------

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names, as regular expressions for the whole name, that carry nothing unless a rule asks for them."""
        tied = [
            re.escape(name)
            for head in self.heads
            if head.vocabulary
            for name in {head.theirs("output"), head.theirs("output_bias"), head.names["output"] + ".bias"}
        ]
        return (*IGNORED, *tied)

    def build(self, config: ModelConfig) -> Model:
        """The module."""
        return Model(config)

    def stored(self, config: ModelConfig) -> ModelConfig:
        """What a file holds of a model: their classes have a pooler where a head reads it, and where there is no head."""
        if config.heads and not any(head.reads == "pooled" for head in config.heads):
            return replace(config, pooler_act=None)
        return config

    def spelling(self, name: str) -> str:
        """Today's spelling of a name."""
        for pattern, replacement in self.renamed:
            name = re.sub(pattern, replacement, name)
        return name

    def has_prefix(self, names: Iterable[str]) -> bool:
        """Whether the stack's names in a file carry the family's prefix; a stack saved alone has none."""
        return any(name.startswith(self.prefix) for name in names)

    def rules(self, config: ModelConfig, prefix_present: bool, names: Collection[str] | None = None) -> list[Rule]:
        """Every parameter of `Model(config)`, once, with their name for it.

        With the `names` in a file, a tensor that is there only under its second name (see `twins`) is taken from there.
        """
        with torch.device("meta"):
            shapes = {name: parameter.dim() for name, parameter in self.build(config).named_parameters()}
        prefix = self.prefix if prefix_present else ""
        rules = [self._rule(config, name, dims, prefix) for name, dims in shapes.items()]
        owner: dict[str, str] = {}
        for rule in rules:
            for theirs in rule.theirs:
                if theirs in owner:
                    raise CheckpointError(
                        f"a {self.model_type} checkpoint has one place, {theirs!r}, for {owner[theirs]!r} and "
                        f"{rule.ours!r}; save the model with one of these heads only"
                    )
                owner[theirs] = rule.ours
        if names is None:
            return rules
        second = {name: twin for twin, name in self.twins(config, prefix_present).items() if twin in names}
        return [
            Rule(rule.ours, second[rule.theirs[0]], transposed=rule.transposed)
            if rule.theirs[0] not in names and rule.theirs[0] in second
            else rule
            for rule in rules
        ]

    def _rule(self, config: ModelConfig, name: str, dims: int, prefix: str) -> Rule:
        module, _, kind = name.rpartition(".")
        if module.startswith("heads."):
            _, task, part = name.split(".", 2)
            head = self.table(task)
            if part == "output_bias":
                return Rule(name, head.theirs(part))
            theirs = f"{head.names[part.rpartition('.')[0]]}.{kind}"
            copies = {head.theirs("output_bias")} if head.vocabulary and part == "output.bias" else set()
            return Rule(name, theirs, copies=tuple(copies - {theirs}))
        block = re.search(r"blocks\.(\d+)\.", module)
        number = int(block.group(1)) if block else 0
        found = self.names.get(re.sub(r"blocks\.\d+\.", "blocks.{i}.", module))
        if found is None:
            raise CheckpointError(
                f"a {self.model_type} checkpoint has no place for {name!r}; save it as model_type 'bertworks'"
            )
        group, inner = divmod(number, config.transformer.layers_per_group)
        parts = [
            f"{prefix}{part.format(i=number, group=group, inner=inner)}.{kind}"
            for part in ((found,) if isinstance(found, str) else found)
        ]
        return Rule(name, *parts, transposed=self.transposed and block is not None and dims == 2)

    def twins(self, config: ModelConfig, prefix_present: bool) -> dict[str, str]:
        """Second names of tensors that a rule covers: {second name: the rule's}. A file may hold one or both."""
        tokens = self.names["body.embeddings.tokens"]
        found: dict[str, str] = {}
        for head in config.heads:
            table = self.table(head.task)
            if not table.vocabulary:
                continue
            output = table.names["output"]
            if head.tied:
                found[f"{output}.weight"] = f"{self.prefix if prefix_present else ''}{tokens}.weight"
            bias, other = table.theirs("output_bias"), f"{output}.bias"
            if head.bias and bias != other:
                found.update({other: bias} if head.tied else {bias: other})
        return found

    # -- config.json -> ours -------------------------------------------------------------------------------------------

    def read_config(self, hf: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> ModelConfig:
        """`config.json` and the tensors' shapes -> our configuration. The tensors say which heads there are."""
        rest = dict(hf)
        body = self._read_body(rest)
        pad_token_id = typed("pad_token_id", rest.get("pad_token_id"), self.pad_token_id)
        if rest.get("pad_token_id") is not None:
            del rest["pad_token_id"]  # a null stays in the source: "no padding" is not the same as padding id 0
        listed = hf.get("architectures") or ()
        if not isinstance(listed, list | tuple):
            raise CheckpointError(f"architectures must be a list of names, not {listed!r}")
        architectures = [str(name) for name in listed]
        tables = self._find_heads(architectures, shapes)
        used: set[str] = set()
        heads = []
        for table in tables:
            output = shapes.get(table.theirs("output"))
            labels = body.embeddings.vocab_size if table.vocabulary else output[0] if output else table.num_labels or 1
            head = self._head(table, rest, body, num_labels=labels, tied=bool(rest.get("tie_word_embeddings", True)))
            if table.task == "classify" and (labels == 1 or hf.get("problem_type") == "regression"):
                head = replace(head, task="regress")
            heads.append(head)
            used.update(key.theirs for key in table.keys)
            used.update(("tie_word_embeddings",) if table.vocabulary else ())
        pooler = self.names.get("pooler.dense")
        has_pooler = pooler is not None and any(f"{prefix}{pooler}.weight" in shapes for prefix in (self.prefix, ""))
        if rest.get("problem_type") != MULTI_LABEL:  # the task says it already
            rest.pop("problem_type", None)
        source = tuple((key, value) for key, value in rest.items() if key not in used and key not in UNWRITTEN)
        return ModelConfig(
            family=self.model_type,
            body=body,
            pooler_act="tanh" if has_pooler or any(head.reads == "pooled" for head in heads) else None,
            heads=tuple(heads),
            labels=read_labels(hf, heads),
            pad_token_id=pad_token_id,
            source=source,
        )

    def _read_body(self, rest: dict[str, Any]) -> TransformerConfig:
        """Take the stack's entries out of `rest`."""
        require(self.model_type, (*REFUSED, *self.requires), rest)
        fields: Fields = dict(self.fixed)
        for key in self.keys:
            fields[key.ours] = read_value(key, rest.pop(key.theirs, None))
        self.read_more(rest, fields)
        try:
            return stack_of(fields)
        except ConfigError as error:
            raise CheckpointError(f"config.json of a {self.model_type} model: {error}") from error

    def _find_heads(self, architectures: list[str], shapes: Mapping[str, tuple[int, ...]]) -> list[HeadTable]:
        """The heads whose tensors are there. `architectures` decides where two tasks share a tensor's name, and adds a
        head that is the token table and nothing else."""

        def is_named(table: HeadTable) -> bool:
            ends = [table.architecture, *(end for tasks, end in self.together.items() if table.task in tasks)]
            return any(name.endswith(end) for name in architectures for end in ends)

        def stored(table: HeadTable) -> set[str]:
            return {table.theirs(module) for module in table.names}

        found: list[HeadTable] = []
        taken: set[str] = set()
        for table in self.heads:
            only_tied = table.vocabulary and "transform.dense" not in table.names and not table.bias
            if is_named(table) and (only_tied or stored(table) & shapes.keys()):
                found.append(table)
                taken |= stored(table)
        for table in self.heads:
            if table in found or table.signature not in shapes or stored(table) & taken:
                continue
            rivals = [other.task for other in self.heads if other.signature == table.signature]
            if len(rivals) > 1:
                first = self.class_prefix + table.architecture
                raise CheckpointError(
                    f"cannot tell which of {', '.join(rivals)} the tensor {table.signature!r} belongs to: config.json "
                    f"says architectures = {architectures}; put the right class there, such as {first!r}"
                )
            found.append(table)
            taken |= stored(table)
        return found

    # -- heads ---------------------------------------------------------------------------------------------------------

    def table(self, task: str) -> HeadTable:
        """The table of a task's head; `regress` is a `classify` head with another meaning."""
        for head in self.heads:
            if head.task == ("classify" if task == "regress" else task):
                return head
        there = ", ".join(head.task for head in self.heads)
        raise ModelError(f"the family {self.model_type!r} has no head for {task!r}; it has: {there}")

    def head(self, config: ModelConfig, task: Task, num_labels: int | None = None, *, tied: bool = True) -> HeadConfig:
        """A new head of this family for `task`, to be trained on a model with `config`."""
        table = self.table(task)
        labels = config.transformer.embeddings.vocab_size if table.vocabulary else num_labels or table.num_labels
        if labels is None:
            raise ModelError(f"a {task!r} head needs num_labels")
        return replace(
            self._head(table, dict(config.source), config.transformer, num_labels=labels, tied=tied), task=task
        )

    def _head(
        self, table: HeadTable, hf: Mapping[str, Any], body: TransformerConfig, *, num_labels: int, tied: bool
    ) -> HeadConfig:
        require(self.model_type, table.requires, hf)
        layer = body.layer
        size = body.embedding_size if table.to_embedding_size else layer.hidden_size
        head = HeadConfig(
            task=table.task,
            reads=table.reads,
            num_labels=num_labels,
            transform_size=size if "transform.dense" in table.names else None,
            transform_act=table.act or layer.hidden_act,
            transform_norm="transform.norm" in table.names,
            norm_eps=layer.norm_eps,
            norm_bias=layer.norm_bias,
            bias=table.bias,
            tied=table.vocabulary and tied,
        )
        values: dict[str, Any] = {}
        for key in table.keys:
            values[key.ours] = read_value(key, hf.get(key.theirs))
            if key.ours == "dropout_prob" and values[key.ours] is None:  # "as in the stack"
                values[key.ours] = layer.hidden_dropout_prob
        head = replace(head, **values)
        if head.transform_act not in ACTIVATIONS:
            raise CheckpointError(
                f"unknown activation {head.transform_act!r} in the {head.task} head; allowed: {', '.join(ACTIVATIONS)}"
            )
        return head

    # -- ours -> config.json -------------------------------------------------------------------------------------------

    def write_config(self, config: ModelConfig) -> dict[str, Any]:
        """Our configuration -> the content of `config.json`; an error where the family cannot express it."""
        body = config.transformer
        fields = flat_fields(body)
        out = {**dict(config.source), "model_type": self.model_type, "architectures": [self.architecture(config)]}
        if out.get("pad_token_id", 0) is not None:
            out["pad_token_id"] = config.pad_token_id
        for key in self.keys:
            out[key.theirs] = write_value(self.model_type, key, fields[key.ours])
        self.write_more(out, fields)
        self._check(fields, flat_fields(self._read_body(dict(out))))
        for head in config.heads:
            table = self.table(head.task)
            values = asdict(head)
            for key in table.keys:
                out[key.theirs] = write_value(self.model_type, key, values[key.ours])
            if table.vocabulary:
                out["tie_word_embeddings"] = head.tied
            again = self._head(table, out, body, num_labels=head.num_labels, tied=head.tied)
            # Dropout is not part of what a model computes, and not every family has an entry for each head's.
            again = replace(again, task=head.task, dropout_prob=head.dropout_prob)
            self._check(asdict(head), asdict(again), f"heads.{head.task}.")
            if not table.vocabulary and table.num_labels is None:
                out.update(write_labels(config, head))
        return out

    def architecture(self, config: ModelConfig) -> str:
        """Their class for a model with these heads: the one for all of them, else for the first."""
        tasks = {"classify" if head.task == "regress" else head.task for head in config.heads}
        for together, architecture in self.together.items():
            if tasks == set(together):
                return self.class_prefix + architecture
        return self.class_prefix + (self.table(config.heads[0].task).architecture if config.heads else "Model")

    def _check(self, ours: Mapping[str, Any], again: Mapping[str, Any], place: str = "") -> None:
        lost = [
            f"{place}{name} = {value!r} ({again[name]!r} there)" for name, value in ours.items() if again[name] != value
        ]
        if lost:
            raise CheckpointError(
                f"a {self.model_type} checkpoint cannot express {', '.join(lost)}; save it as model_type 'bertworks'"
            )


def stack_of(fields: Fields) -> TransformerConfig:
    """The configuration with these fields."""
    sections: dict[str, dict[str, Any]] = {}
    for path, value in fields.items():
        section, _, name = path.rpartition(".")
        sections.setdefault(section, {})[name] = value
    return TransformerConfig(
        embeddings=EmbeddingConfig(**sections["embeddings"]),
        positions=PositionConfig(**sections["positions"]),
        layer=LayerConfig(**sections["layer"]),
        **sections[""],
    )


def flat_fields(body: TransformerConfig) -> Fields:
    """The fields of a configuration, the reverse of `stack_of`."""
    fields: Fields = {}
    for name, value in asdict(body).items():
        fields.update(
            {f"{name}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {name: value}
        )
    return fields
