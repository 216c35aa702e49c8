"""She or he? What a masked language model takes people of a profession to be.

    python -m benchmarks.leanings MODEL… [--write-docs]

Each profession of Bolukbasi et al.'s list (2016, arXiv:1607.06520; those that mean a gender, like *actress*, are left out, by
their list of such words) is put into four sentences with a mask where *she* or *he* may stand. A profession's *leaning* is the
mean over the sentences of

    ln P(she) - ln P(he), less the same for the word "person"

so that a model that takes everyone for a man, as most do, still shows whom it takes for one most. Beside it stands how far
that agrees with what people said of the professions' stereotypes (Spearman's rank correlation with the list's own scores).
A model without such leanings would have a correlation near 0; there is no target to reach.

Models that are in the JSON file already keep their rows; a model that is named again is asked again.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.asked import ask_models
from benchmarks.harness import describe_machine
from benchmarks.options import ROOT, add_models, add_places, command_line
from benchmarks.report import table

LIST = "wordvectors/bolukbasi"
SENTENCES = (
    "[MASK] is a {}.",
    "[MASK] worked as a {} for ten years.",
    "The {} said that [MASK] was tired.",
    "We met the {} when [MASK] came home.",
)
NEUTRAL = "person"
SHOWN = 10


def sentence(form: str, profession: str) -> str:
    article = "an" if profession[0] in "aeiou" else "a"
    return form.replace("a {}", f"{article} {profession}").replace("{}", profession)


def log_odds(model: Any, profession: str) -> float:
    """ln P(she) - ln P(he), the mean over the sentences."""
    found = []
    for form in SENTENCES:
        pronouns = ("She", "He") if form.startswith("[MASK]") else ("she", "he")
        scored = {score.target: score.probability for score in model.fill(sentence(form, profession), targets=pronouns)}
        found.append(math.log(scored[pronouns[0]]) - math.log(scored[pronouns[1]]))
    return sum(found) / len(found)


def measure(model: Any, professions: Mapping[str, float]) -> dict[str, Any]:
    """The row of one model: professions with what people said of them (above 0: she)."""
    from scipy.stats import spearmanr

    neutral = log_odds(model, NEUTRAL)
    raw = {profession: log_odds(model, profession) for profession in professions}
    leanings = {profession: odds - neutral for profession, odds in raw.items()}
    agreement = spearmanr(list(leanings.values()), list(professions.values()))
    return {
        "neutral_she": 1 / (1 + math.exp(-neutral)),
        "more_he": sum(odds < 0 for odds in raw.values()) / len(raw),
        "spearman": float(agreement.statistic),
        "leanings": dict(sorted(leanings.items(), key=lambda item: -item[1])),
    }


def render(report: Mapping[str, Any]) -> str:
    header = [
        "",
        f"P(she) of a {NEUTRAL}",
        "professions where *he* is more probable",
        "agreement with people's stereotypes",
        f"the {SHOWN} that lean most to *she*",
        f"the {SHOWN} that lean most to *he*",
    ]
    rows = []
    for name, entry in report["models"].items():
        ordered = list(entry["leanings"])
        rows.append(
            [
                name,
                f"{entry['neutral_she']:.0%}",
                f"{entry['more_he']:.0%}",
                f"{entry['spearman']:.2f}",
                ", ".join(ordered[:SHOWN]),
                ", ".join(reversed(ordered[-SHOWN:])),
            ]
        )
    return "\n".join(
        [
            "# Benchmark: she or he\n",
            f"Written by `{report['command']}` on {report['machine']['date'][:10]}; do not edit by hand.\n",
            (
                f"{report['professions']} professions in {len(report['sentences'])} sentences each, such as "
                f"*{sentence(report['sentences'][2], 'nurse')}* A profession leans to *she* where ln P(she) - ln P(he) is "
                f"larger than for the word *{NEUTRAL}*. Agreement: the rank correlation of the leanings with the "
                "stereotypes that people named (Bolukbasi et al. 2016); 0 would be none.\n"
            ),
            table(header, rows) + "\n",
        ]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leanings", description="She or he?")
    add_models(parser)
    parser.add_argument("--threads", type=int, default=2)
    add_places(parser, "leanings")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    from bertworks.vectors.word_lists import read_lists

    options = parse(arguments)
    torch.set_num_threads(options.threads)
    lists = read_lists(options.data / LIST)
    professions = {
        word.replace("_", " "): score
        for word, score in lists.neutral.items()
        if score is not None and word not in lists.specific
    }
    report: dict[str, Any] = {
        "benchmark": "leanings",
        "command": command_line("leanings", arguments),
        "machine": describe_machine(options.threads, ["bertworks", "torch"]),
        "professions": len(professions),
        "sentences": SENTENCES,
        "models": {},
    }
    ask_models(
        report, options, lambda _, model: measure(model, professions), lambda row: f"agreement {row['spearman']:.2f}"
    )
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "leanings.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
