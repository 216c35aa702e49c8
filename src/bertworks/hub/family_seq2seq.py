"""Families of encoder-decoders: the same idea as `family`, for models of two stacks (see there).

    keys     entry of `config.json` <-> field of both stacks, of the encoder's or of the decoder's
    names    our module <-> theirs; one table serves both stacks, which differ in their prefix alone

Left out, with a clear error: an output matrix that is not the target table (`tie_word_embeddings` false), heads for
classification and question answering, a decoder without its encoder.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bertworks.errors import CheckpointError, ConfigError
from bertworks.hub.family import UNWRITTEN, Fields, flat_fields, stack_of
from bertworks.hub.rules import Rule
from bertworks.hub.tables import Allowed, Key, read_value, require, typed, write_value
from bertworks.models.config import TransformerConfig
from bertworks.models.seq2seq import EncoderDecoder, EncoderDecoderConfig, TargetIds

PREFIX = "model."
SHARED, BIAS, OUTPUT = "shared.weight", "final_logits_bias", "lm_head.weight"
STACKS = ("encoder", "decoder")
TARGET_KEYS = ("decoder_start_token_id", "eos_token_id", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids")
REFUSED: Allowed = (
    ("is_encoder_decoder", (True, None)),
    ("tie_word_embeddings", (True, None)),
    ("add_final_layer_norm", (False, None)),
    ("normalize_before", (False, None)),
    ("quantization_config", (None,)),
)
"""Entries that would change the numbers, with the values that do not."""


@dataclass(frozen=True, kw_only=True)
class Seq2SeqFamily:
    """The tables of one `model_type`."""

    model_type: str
    architecture: str
    keys: tuple[Key, ...]
    """`ours` is a field of both stacks, or of one: `encoder:num_hidden_layers`."""
    fixed: Mapping[str, Any]
    names: Mapping[str, str | tuple[str, ...]]
    """Our module within a stack -> theirs. `{i}` is the block."""
    pad_token_id: int
    defaults: Mapping[str, Any]
    """What an absent entry of `TARGET_KEYS` means."""
    requires: Allowed = ()
    shared_key: str | None = None
    """The entry that says whether both sides have one table; None = they always do."""
    ignored: tuple[str, ...] = field(default=())
    """Names, as regular expressions for the whole name, that carry nothing."""

    # -- tensors -------------------------------------------------------------------------------------------------------

    def build(self, config: EncoderDecoderConfig) -> EncoderDecoder:
        """The module."""
        return EncoderDecoder(config)

    def spelling(self, name: str) -> str:
        """Today's spelling of a name: these families have had no other."""
        return name

    def has_prefix(self, names: Iterable[str]) -> bool:
        """Whether the names of the two stacks carry their prefix; stacks saved alone have none."""
        return any(name.startswith(PREFIX) for name in names)

    def rules(
        self, config: EncoderDecoderConfig, prefix_present: bool, names: Collection[str] | None = None
    ) -> list[Rule]:
        """Every parameter of `EncoderDecoder(config)`, once, with their name for it."""
        prefix = PREFIX if prefix_present else ""
        return [self._rule(config, name, prefix, names) for name, _ in self.build(config).named_parameters()]

    def _rule(self, config: EncoderDecoderConfig, name: str, prefix: str, names: Collection[str] | None) -> Rule:
        if name == "output_bias":
            return Rule(name, BIAS, as_row=True)
        stack, _, rest = name.partition(".")
        module, _, kind = rest.rpartition(".")
        if module == "embeddings.tokens":
            return Rule(name, self._table(config, stack, prefix, names))
        block = re.search(r"blocks\.(\d+)\.", module)
        found = self.names.get(re.sub(r"blocks\.\d+\.", "blocks.{i}.", module))
        if found is None:
            raise CheckpointError(
                f"a {self.model_type} checkpoint has no place for {name!r}; save it as model_type 'bertworks'"
            )
        number = block.group(1) if block else ""
        parts = (found,) if isinstance(found, str) else found
        return Rule(name, *(f"{prefix}{stack}.{part.format(i=number)}.{kind}" for part in parts))

    def _table(self, config: EncoderDecoderConfig, stack: str, prefix: str, names: Collection[str] | None) -> str:
        """Their name of a token table: a tied one has several, of which a file holds one or more."""
        own = f"{prefix}{stack}.embed_tokens.weight"
        if not config.shared_embeddings:
            return own
        known = [prefix + SHARED, own, f"{prefix}decoder.embed_tokens.weight", OUTPUT]
        return next((name for name in known if names is not None and name in names), known[0])

    # -- config.json -> ours -------------------------------------------------------------------------------------------

    def read_config(self, hf: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> EncoderDecoderConfig:
        """`config.json` and the tensors' shapes -> our configuration."""
        require(self.model_type, (*REFUSED, *self.requires), hf)
        rest = dict(hf)
        encoder, decoder = self._read_stacks(rest)
        target = _read_target({**self.defaults, **{key: rest[key] for key in TARGET_KEYS if key in rest}})
        pad_token_id = typed("pad_token_id", rest.pop("pad_token_id", None), self.pad_token_id)
        shared = True if self.shared_key is None else typed(self.shared_key, rest.pop(self.shared_key, None), True)
        drop = (*UNWRITTEN, *TARGET_KEYS, "is_encoder_decoder", "tie_word_embeddings")
        return EncoderDecoderConfig(
            family=self.model_type,
            encoder=encoder,
            decoder=decoder,
            shared_embeddings=shared,
            output_bias=BIAS in shapes,
            target=target,
            pad_token_id=pad_token_id,
            source=tuple((key, value) for key, value in rest.items() if key not in drop),
        )

    def with_generation(self, hf: Mapping[str, Any], generation: Mapping[str, Any]) -> dict[str, Any]:
        """`config.json` with what `generation_config.json` says otherwise about targets."""
        return {**hf, **{key: generation[key] for key in TARGET_KEYS if key in generation}}

    def _read_stacks(self, rest: dict[str, Any]) -> tuple[TransformerConfig, TransformerConfig]:
        """Take the stacks' entries out of `rest`."""
        fields: dict[str, Fields] = {stack: dict(self.fixed) for stack in STACKS}
        fields["decoder"] |= {"causal": True, "cross_attention": True}
        for key in self.keys:
            value = read_value(key, rest.pop(key.theirs, None))
            only, _, path = key.ours.rpartition(":")
            for stack in (only,) if only else STACKS:
                if value is not None:  # a null says: as on the other side
                    fields[stack][path] = value
        try:
            return stack_of(fields["encoder"]), stack_of(fields["decoder"])
        except ConfigError as error:
            raise CheckpointError(f"config.json of a {self.model_type} model: {error}") from error

    # -- ours -> config.json -------------------------------------------------------------------------------------------

    def write_config(self, config: EncoderDecoderConfig) -> dict[str, Any]:
        """Our configuration -> the content of `config.json`; an error where the family cannot express it."""
        if self.shared_key is None and not config.shared_embeddings:
            raise CheckpointError(f"a {self.model_type} checkpoint has one token table for both sides")
        fields = {"encoder": flat_fields(config.encoder), "decoder": flat_fields(config.decoder)}
        out: dict[str, Any] = {
            **dict(config.source),
            "model_type": self.model_type,
            "architectures": [self.architecture],
            "is_encoder_decoder": True,
            "tie_word_embeddings": True,
            "pad_token_id": config.pad_token_id,
            **_write_target(config.target),
        }
        if self.shared_key is not None:
            out[self.shared_key] = config.shared_embeddings
        for key in self.keys:
            only, _, path = key.ours.rpartition(":")
            out[key.theirs] = write_value(self.model_type, key, fields[only or "encoder"][path])
        for stack, again in zip(STACKS, self._read_stacks(dict(out)), strict=True):
            self._check(stack, fields[stack], flat_fields(again))
        return out

    def generation(self, config: EncoderDecoderConfig) -> dict[str, Any]:
        """The content of `generation_config.json`."""
        return {"pad_token_id": config.pad_token_id, **_write_target(config.target)}

    def _check(self, stack: str, ours: Fields, again: Fields) -> None:
        lost = [
            f"{stack}.{name} = {value!r} ({again[name]!r} there)"
            for name, value in ours.items()
            if again[name] != value
        ]
        if lost:
            raise CheckpointError(
                f"a {self.model_type} checkpoint cannot express {', '.join(lost)}; save it as model_type 'bertworks'"
            )


def _read_target(hf: Mapping[str, Any]) -> TargetIds:
    """The entries about targets; several ids may end one, and forbidden words of several tokens are not ours to forbid."""
    end, last, forbidden = hf.get("eos_token_id"), hf.get("forced_eos_token_id"), hf.get("bad_words_ids") or []
    start = hf.get("decoder_start_token_id")
    if not isinstance(start, int):
        raise CheckpointError(f"config.json has decoder_start_token_id = {start!r}; it must be an id")
    return TargetIds(
        start=start,
        end=tuple(end) if isinstance(end, list) else () if end is None else (end,),
        first=hf.get("forced_bos_token_id"),
        last=last[0] if isinstance(last, list) else last,
        forbidden=tuple(word[0] for word in forbidden if len(word) == 1),
    )


def _write_target(target: TargetIds) -> dict[str, Any]:
    end = list(target.end)
    out: dict[str, Any] = {
        "decoder_start_token_id": target.start,
        "eos_token_id": end[0] if len(end) == 1 else end or None,
        "forced_eos_token_id": target.last,
    }
    if target.first is not None:
        out["forced_bos_token_id"] = target.first
    if target.forbidden:
        out["bad_words_ids"] = [[token] for token in target.forbidden]
    return out
