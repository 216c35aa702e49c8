"""The tables of the studies: which corpora, and which runs, each a recipe and the settings that differ (see `study`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

HELD_OUT_TOKENS = 131_072


@dataclass(frozen=True)
class TextCorpus:
    """Which files, cut by which tokenizer."""

    files: tuple[str, ...]
    training_files: tuple[str, ...]
    algorithm: str = "wordpiece"
    vocab_size: int = 30_522
    options: tuple[str, ...] = ()
    characters: int | None = None
    """Only so much of the beginning."""
    held_out: int = HELD_OUT_TOKENS
    judged_on: str | None = None
    """The corpus whose held-out text its models are judged on, where it is not its own."""


ENGLISH = ("wiki-en-00", "wiki-en-01", "wiki-en-02", "wiki-en-03", "wiki-en-04", "novels-en-00", "reviews-en-00")
SAMPLE = ("wiki-en-00", "wiki-en-01", "novels-en-00", "reviews-en-00")
CORPORA = {
    "en": TextCorpus(ENGLISH, SAMPLE),
    "en-8k": TextCorpus(ENGLISH, SAMPLE, vocab_size=8192),
    "en-8k-part": TextCorpus(
        ("wiki-en-07",), SAMPLE, vocab_size=8192, characters=800_000, held_out=8192, judged_on="en-8k"
    ),
    "en-bytes": TextCorpus(ENGLISH, SAMPLE, "byte-bpe"),
    "zh": TextCorpus(("wiki-zh-00", "wiki-zh-01"), ("wiki-zh-00",), vocab_size=12_000),
    "sv": TextCorpus(("novels-sv-00",), ("novels-sv-00",), vocab_size=16_384, options=("--keep-accents",)),
}


@dataclass(frozen=True)
class Variant:
    """One row of a study."""

    name: str
    recipe: str
    settings: tuple[str, ...] = ()
    corpus: str = "en"
    taught: bool = False
    """A student of `--teacher`."""


@dataclass(frozen=True)
class Study:
    title: str
    about: str
    variants: tuple[Variant, ...]


PLAIN = (
    "data.long_sequence_length=none",
    "data.short_prob=0",
    "train.batch_tokens=4096",
    "train.optimizer.learning_rate=1e-3",
)
MODERN = Study(
    "what each choice of the recipe `modern` buys",
    "Every row is the recipe `modern` with one choice taken back or another one made; the last one is the recipe `bert`. All "
    "read the same text, and what it cost is in the column of processor time (skip-gram's included). A small model and a "
    "small vocabulary, so that a short run is enough steps to tell choices apart; the first row is run with more seeds than "
    "the others, and its range says how large chance is. Give `--tokens`: with `--seconds` a run that the machine disturbs "
    "takes fewer steps.",
    tuple(
        replace(variant, corpus="en-8k")
        for variant in (
            Variant("modern", "modern"),
            Variant("random token vectors instead of skip-gram's", "modern", ("model.first_vectors=random",)),
            Variant("every layer sees the whole sequence", "modern", ("model.global_every=1",)),
            Variant("Muon instead of AdamW", "modern", ("train.optimizer.name=muon",)),
            Variant(
                "LAMB instead of AdamW", "modern", ("train.optimizer.name=lamb", "train.optimizer.learning_rate=4e-3")
            ),
            Variant("BERT's stack: post-norm, learned positions, biases, no gate", "modern", ("model.family=bert",)),
            Variant("dropout 0.1", "modern", ("model.dropout=0.1",)),
            Variant("mask rate 15 % throughout", "modern", ("objective.masking.rate=0.15",)),
            Variant("mask rate 30 % throughout", "modern", ("objective.masking.final_rate=0.3",)),
            Variant("linear decay instead of the trapezoid", "modern", ("train.schedule.name=linear",)),
            Variant("batches twice as large", "modern", ("train.batch_tokens=8192",)),
            Variant("batches half as large", "modern", ("train.batch_tokens=2048",)),
            Variant(
                "masks only instead of 80/10/10",
                "modern",
                ("objective.masking.mask_share=1.0", "objective.masking.random_share=0.0"),
            ),
            Variant("average of the weights (0.99)", "modern", ("train.ema=0.99",)),
            Variant("the recipe `bert`, with these batches and this learning rate", "bert", (*PLAIN[:1], *PLAIN[2:])),
        )
    ),
)
BERTS_WAY = (*PLAIN, "objective.masking.copies=1", "model.first_vectors=skipgram")
ROBERTA = Study(
    "RoBERTa's five changes to BERT, one at a time",
    "The first row is BERT's way at this size; each further row changes one thing as RoBERTa did. All start from skip-gram "
    "vectors of the corpus's tokens: from random ones, a training this short ends where word frequency is, and tells "
    "nothing apart. No text is seen twice in it, so that masks drawn once or anew would be the same masks; the last two "
    "rows are therefore of a small text that is read about five times (without NSP, judged on the same held-out text), and "
    "compare with each other only.",
    (
        Variant(
            "BERT's choices: static masks, NSP, 128 tokens, 8,192 pieces, batches of 4,096 tokens",
            "bert",
            BERTS_WAY,
            "en-8k",
        ),
        Variant("no next sentence prediction", "bert", (*BERTS_WAY, "objective.pairs=none"), "en-8k"),
        Variant(
            "sequences of 512 tokens (without NSP)",
            "bert",
            (*BERTS_WAY, "objective.pairs=none", "data.sequence_length=512"),
            "en-8k",
        ),
        Variant("vocabulary of 30,522", "bert", BERTS_WAY, "en"),
        Variant(
            "batches of 16,384 tokens, learning rate doubled",
            "bert",
            (*BERTS_WAY, "train.batch_tokens=16384", "train.optimizer.learning_rate=2e-3"),
            "en-8k",
        ),
        Variant(
            "all five, byte-level BPE",
            "roberta",
            (
                "data.sequence_length=512",
                "train.batch_tokens=16384",
                "train.optimizer.learning_rate=2e-3",
                "model.first_vectors=skipgram",
            ),
            "en-bytes",
        ),
        Variant("small text, static masks", "bert", (*BERTS_WAY, "objective.pairs=none"), "en-8k-part"),
        Variant(
            "small text, dynamic masks",
            "bert",
            (*BERTS_WAY, "objective.pairs=none", "objective.masking.copies=none"),
            "en-8k-part",
        ),
    ),
)
SMALL = ("train.batch_tokens=4096", "train.optimizer.learning_rate=1e-3")
LEXICON = "objective.lexicon={titles-zh}"
ERNIES_WAY = (*SMALL, "data.long_sequence_length=none", "model.first_vectors=skipgram")
ERNIE = Study(
    "ERNIE's entity masking against character masking, Chinese Wikipedia",
    "All start from skip-gram vectors of the corpus's tokens, as the recipe `modern` does: so short a training from random "
    "ones ends at word frequency. Masked entities: whole entries of the titles' lexicon are masked in held-out text, 15 % of "
    "the tokens in all; the share of their tokens that is guessed.",
    (
        Variant(
            "characters",
            "ernie",
            (*ERNIES_WAY, "objective.masking.unit=token", "objective.lexicon=none"),
            "zh",
        ),
        Variant("entities from titles", "ernie", (*ERNIES_WAY, LEXICON), "zh"),
        Variant(
            "phrases mined from the corpus",
            "ernie",
            (*ERNIES_WAY, "objective.lexicon=mined"),
            "zh",
        ),
    ),
)
RECIPES = Study(
    "every recipe on real text",
    "Each recipe with batches of 4,096 tokens, a learning rate of 0.001 and, but for `modern`, random token vectors; "
    "its own figures on held-out text, at the start and at the end.",
    (
        *(Variant(name, name, SMALL) for name in ("bert", "albert", "electra", "modern")),
        Variant("roberta", "roberta", SMALL, "en-bytes"),
        Variant("gpt", "gpt", (*SMALL, "model.first_vectors=random"), "en-bytes"),
        Variant("ernie, Chinese", "ernie", (*SMALL, LEXICON), "zh"),
        Variant("modern, Swedish", "modern", SMALL, "sv"),
    ),
)
STUDENT = (
    "model.size=half",
    "train.batch_tokens=4096",
    "train.optimizer.learning_rate=1e-3",
)
DISTILL = Study(
    "a student with and without its teacher",
    "The teacher is a `modern` model of this size that was pretrained for twenty minutes; every student has half its layers.",
    (
        Variant("DistilBERT's three losses: soft targets, masked tokens, cosine", "distill", STUDENT, taught=True),
        Variant(
            "the same student, masked tokens alone",
            "distill",
            (*STUDENT, "objective.soft_weight=0", "objective.cosine_weight=0"),
            taught=True,
        ),
        Variant("`modern` of the student's shape, from nothing", "modern", ("model.size={half}",)),
    ),
)
SIZES = Study(
    "quality against model size",
    "The recipe `modern` in the sizes of the published small BERTs and one below, with the same batches, learning rate and "
    "text: a larger model learns more from each token. Give `--tokens`, so that all see the same text; in equal time a small "
    "model sees more of it.",
    tuple(
        Variant(f"{name}, {size}", "modern", (*SMALL, f"model.size={size}"), "en-8k")
        for name, size in (
            ("nano", "2x64x2"),
            ("tiny", "2x128x2"),
            ("mini", "4x256x4"),
            ("small", "4x512x8"),
        )
    ),
)
DEPTH = Study(
    "depth against width",
    "Shapes with the same number of weights in their layers (layers × width² is the same); the table of embeddings is as wide "
    "as the layers and so is larger in the shallow models. Give `--tokens`, so that all see the same text.",
    tuple(
        Variant(f"{layers} layers of {width}", "modern", (*SMALL, f"model.size={layers}x{width}x{heads}"), "en-8k")
        for layers, width, heads in ((2, 512, 8), (8, 256, 4), (32, 128, 2))
    ),
)
STUDIES = {
    "modern": MODERN,
    "roberta": ROBERTA,
    "ernie": ERNIE,
    "recipes": RECIPES,
    "distill": DISTILL,
    "sizes": SIZES,
    "depth": DEPTH,
}
