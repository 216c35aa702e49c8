"""The results page: whole from made-up files, honest without any, and its plots are well-formed SVG."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import encoders, finetune, ladder, layers, plot, quality, results_page, studies, translate
from benchmarks.results_page import COMMANDS, NOT_MEASURED

from bertworks import hub

ROOT = Path(__file__).parents[1]
MACHINE = {"date": "2026-01-02T03:04:05+00:00", "processor": "abacus", "cores": 2, "threads": 2, "packages": {}}
RATE = {"median": 2.0, "min": 1.0, "max": 3.0}


def of(name: str, **more: Any) -> dict[str, Any]:
    return {"benchmark": name, "command": f"python -m benchmarks.{name} --made-up", "machine": MACHINE, **more}


def workload(title: str) -> dict[str, Any]:
    def engine(speed: float) -> dict[str, Any]:
        rate = {key: speed * value for key, value in RATE.items()}
        return {"per_second": rate, "speed_ratio": rate, "matmul_share": {"median": 0.5}, "peak_mib": 100.0}

    engines = {"bertworks": engine(1.5), "peer": engine(1.0), "broken": {"error": "no"}}
    return {"title": title, "unit": "texts", "baseline": "peer", "flops": 1.0, "engines": engines}


def metrics(figures: dict[str, float], **more: Any) -> dict[str, Any]:
    found = {"metrics": figures, "metric": next(iter(figures)), "spread": dict.fromkeys(figures, 0.01)}
    counts = {"examples": {"train": 10, "dev": 5}, "seconds": 60.0, "seeds": [0, 1, 2], "baseline": {}}
    return {**found, **counts, **more}


def quality_rows() -> dict[str, Any]:
    rows = {
        name: {"command": f"bertworks finetune {name}", "metrics": metrics(dict.fromkeys(row.figures, 0.75))}
        for name, row in quality.ROWS.items()
    }
    folds = {"metric": "accuracy", "mean": 0.8, "std": 0.02, "folds": [0.78, 0.82]}
    rows["sst2-2000"]["metrics"]["cross_validation"] = folds
    return rows


def encoder(parameters: float, value: float) -> dict[str, Any]:
    sets = {
        name: {"command": f"bertworks finetune … {name}", "metrics": metrics(dict.fromkeys(row.figures, value))}
        for name, row in encoders.SETS.items()
    }
    return {"parameters": parameters, "sets": sets}


def study_report(name: str) -> dict[str, Any]:
    judged = {"accuracy": 0.25, "loss": 4.5, "bits_per_byte": 1.75, "sst2": 0.7}
    figures = {"loss": 5.0}
    runs = [
        {"variant": variant.name, "seed": seed, "settings": list(variant.settings), "tokens": 1e6, "steps": 7}
        | {"judged": judged, "metrics": figures, "first_metrics": figures, "wall_seconds": 9.0, "processor_share": 0.9}
        for variant in studies.STUDIES[name].variants
        for seed in (0, 1)
    ]
    told = {"study": name, "title": name, "about": "About.", "seconds": None, "tokens": 1000, "size": "4x256x4"}
    told |= {"by_frequency": {"en": {"accuracy": 0.05, "loss": 7.0}}}
    return of(f"study_{name}", **told, runs=runs)


def ladder_rows() -> dict[str, Any]:
    found = {"f1": [0.8, 0.82], "accuracy": [0.9, 0.91], "parameters": 1e6, "seconds": [60.0], "sources": {}}
    return {name: {**found, "baseline": 0.5} for name in ladder.ROWS}


def made_up() -> dict[str, dict[str, Any]]:
    """Every file that the page knows of, and one that it does not."""
    speeds = ("embed", "tokenize", "train_tokenizer", "pretrain", "vectors", "decode")
    files = {name: of(name, title=f"{name} title", workloads={"w": workload(f"{name} work")}) for name in speeds}
    files["embed"]["startup"] = {"baseline": "peer", "engines": {"bertworks": {**RATE, "speed_ratio": RATE}}}
    scores = {"questions-words.txt": [0.3, 0.4], "wordsim353.tsv": [0.6, 0.6], "simlex999.txt": [0.2, 0.3]}
    scored = {"command": "python -m benchmarks.vectors --only-scores", "machine": MACHINE, "files": 1, "words": 4e6}
    files["vectors"]["scores"] = {"skipgram": {"bertworks": scores}}
    files["vectors"]["scored"] = {"skipgram": {**scored, "seeds": [0, 1]}}
    accuracy = {kind: {"@1": 0.25, "@5": 0.5} for kind in ("fact", "grammar", "idiom", "agreement", "all")}
    files["cloze"] = of(
        "cloze",
        questions={"sha256": "0" * 64, "count": 200},
        unigram={"corpus": "text", "words": ["the", "of"], "accuracy": accuracy},
        models={"bertworks-en": {"vocab_size": 100, "accuracy": accuracy, "chance": accuracy, "out_of_reach": 3}},
    )
    leaning = {"neutral_she": 0.2, "more_he": 0.9, "spearman": 0.5, "leanings": {"nurse": 1.0, "pilot": -1.0}}
    files["leanings"] = of("leanings", professions=2, sentences=["", "", "The {}."], models={"bertworks-en": leaning})
    disk = {"tokens": 10, "bytes": 20, "bytes_per_token": 2.0, "peer_bytes": 190}
    measured = {"text_bytes": 1e6, "speed_ratio": RATE, "speed_ratio_maps_only": RATE, "disk": disk}
    rates = {"bertworks corpus build": RATE, "datasets.map + group_texts": RATE}
    files["corpus"] = of("corpus", rounds=2, workers=2, measured={**measured, "megabytes_per_second": rates})
    names = ("teacher", "student before training", "student")
    files["distill"] = of("distill", minutes=20, run={"steps": 5, "tokens": 1e6}, matmul=1e11)
    files["distill"] |= {"layers": dict.fromkeys(names, "3"), "similarity": dict.fromkeys(names, 0.8)}
    files["distill"]["speeds"] = {"teacher": [100.0, 110.0], "student": [200.0, 220.0]}
    models = {"bertworks-en": encoder(10e6, 0.86), "minilm": encoder(22.7e6, 0.9)}
    files["encoders"] = of("encoders", models=models)
    piece = {
        "command": "bertworks pretrain",
        "note": "",
        "steps": 10,
        "tokens": 1e6,
        "minutes": 60.0,
        "machine": MACHINE,
    }
    piece |= {"run": "piece1", "precision": "bf16", "longest": 128, "corpus_tokens": 1_000_000, "held_out_tokens": 10}
    piece["held_out"] = {"step": 10, "mlm_accuracy": 0.4, "mlm_perplexity": 20.0}
    files["english"] = of("english", pieces=[piece])
    judged = {"accuracy": 0.25, "loss": 4.5, "sst2": 0.7}
    entry = {"seconds": 60.0, "tokens": 1e6, "difference": 0.5, "judged": judged}
    engines = {"bertworks, modern": {**entry, "sst2_finetuned": {"0.001": [0.8, 0.82]}}, "Trainer": entry}
    files["equal_time"] = of("equal_time", minutes=1, size="4x256x4", engines=engines)
    files["equal_time"] |= {"finetune_rates": ["0.001"], "trials": {"8:1e-3": {"judged": judged}}}
    runs = [
        {"set": "sst2", "engine": engine, "seed": seed, "seconds": 10.0 * (2 if engine == finetune.THEIRS else 1)}
        | {
            "figures": {"accuracy": 0.9},
            "peak_mebibytes": 100.0,
            "on": {"processor": "abacus", "threads": 2},
            "matmul": 1e11,
        }
        for engine in (finetune.OURS, finetune.THEIRS)
        for seed in (0, 1)
    ]
    files["finetune"] = of("finetune", runs=runs, rows=None)
    files["ladder"] = of("ladder", rows=ladder_rows())
    model = {"model": "2x256", "parameters": 1e6, "tokens": 1e6, "seconds": 60.0, "perplexity": 100.0, "accuracy": 0.2}
    classifier = {"pretraining_seconds": 60.0, "seconds": [60.0], "accuracy": [0.8, 0.81], "baseline": 0.79}
    files["language_models"] = of("language_models", models={"lstm": {**model, "baseline_loss": 6.0}}, budget="10m")
    files["language_models"] |= {"classifiers": {"ulmfit": classifier}, "ulmfit_step": {"perplexity": 90.0}}
    files["language_models"] |= {"task_budget": "2m", "epochs": 5, "sentences": 10}
    stretch = {**dict.fromkeys(("per_second", "ratio", "p50", "p95", "p99"), RATE), "not_200": 0}
    files["serve"] = of("serve", rounds=2, clients=[1], baseline="bertworks", summary={"bertworks": {"1": stretch}})
    files["serve"] |= {"library_seconds": [0.005], "overload": {}}
    files["serve"]["machine"] = {**MACHINE, "load_average": 0.1}
    titles = {"0": "layer 0", "4": "layer 4", "5": "layer 5 (last)", "sum-all": "sum of all 5", "concat-last-4": "four"}
    rows = [
        {"layers": name, "title": title, "tagger": tagger, "f1": 0.9}
        for name, title in titles.items()
        for tagger in ("linear", "bilstm")
    ]
    probe = {"command": "bertworks probe layers", "metric": "f1", "num_layers": 5, "rows": rows}
    files["layers"] = of("layers", models={"minilm": probe})
    files["quality"] = of("quality", rows=quality_rows())
    files |= {f"study_{name}": study_report(name) for name in studies.STUDIES}
    search = {"bleu": 30.0, "sentences_per_second": 50.0}
    row = {"greedy": search, f"beam {translate.BEAM}": search, "parameters": 1e6, "train_seconds": 60.0, "steps": 9}
    row |= {"budget": "1m", "threads": 2}
    files["translate"] = of("translate", rows=dict.fromkeys(translate.ROWS, row))
    files["requests"] = of("requests", title="requests", workloads={"w": workload("requests")})
    files["novel"] = of("novel", anything=1)
    return files


def compose(folder: Path, files: dict[str, dict[str, Any]]) -> str:
    results, docs = folder / "results", folder / "docs"
    results.mkdir(parents=True)
    for name, report in files.items():
        (results / f"{name}.json").write_text(json.dumps(report))
    results_page.main(["--results", str(results), "--docs", str(docs)])
    return (docs / "results.md").read_text(encoding="utf-8")


def test_every_file_is_rendered_with_its_command(tmp_path: Path) -> None:
    files = made_up()
    assert files.keys() >= COMMANDS.keys()
    page = compose(tmp_path, files)
    assert NOT_MEASURED not in page
    for name in files:
        assert f"[{name}.json](../benchmarks/results/{name}.json)" in page
        assert f"`python -m benchmarks.{name} --made-up`" in page
    headings = re.findall(r"^## ([a-z])\. ", page, flags=re.MULTILINE)
    assert headings[:8] == list("abcdefgh")
    assert "| bertworks-en | 10 M | dev | 86.0 ± 1.0 |" in page
    assert "| BERT-tiny (2x128) | 4.4 M | published, test | 83.2 | 0.0 | 71.1 | 73.6 |" in page
    assert "| first layer (embeddings) | 90.0 | 90.0 | 91.0 |" in page
    assert "): accuracy 0.800 ± 0.020 over 2 folds of the training rows." in page
    assert "| embed work | bertworks | 3.0 (1.5–4.5) texts/s | 1.50 | 50% | 100 |" in page
    assert "| skipgram, bertworks | 35.0% (30.0%–40.0%) |  |  | 0.600 (0.600–0.600) | 0.250 (0.200–0.300) |" in page
    assert "2 seeds: their mean, the smallest and the largest. By `python -m benchmarks.vectors --only-scores`" in page
    assert "| human | 82.3 | 91.2 |" in page
    assert page.count("### Requests") == 1
    assert "## Other measurements" in page


def test_a_file_of_an_unknown_section_is_told_by_its_own_program(tmp_path: Path) -> None:
    told = {**made_up()["cloze"], "benchmark": "cloze"}
    page = compose(tmp_path, {"cloze-of-another-day": told})
    rest = page.partition("## Other measurements")[2]
    assert "| bertworks-en | 25.0% | 50.0% |" in rest
    assert "[cloze-of-another-day.json]" in rest


def test_tables_are_whole_and_plots_are_there(tmp_path: Path) -> None:
    page = compose(tmp_path, made_up())
    blocks = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    assert len(blocks) > 20
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1, block
    shown = set(re.findall(r"\(figures/(.+?)\.svg\)", page))
    drawn = {path.stem for path in (tmp_path / "docs" / "figures").glob("*.svg")}
    assert shown == drawn
    assert len(drawn) > 10
    for path in (tmp_path / "docs" / "figures").glob("*.svg"):
        ElementTree.fromstring(path.read_text(encoding="utf-8"))


def test_without_files_nothing_is_claimed(tmp_path: Path) -> None:
    page = compose(tmp_path, {})
    for name, command in COMMANDS.items():
        assert f"**{name}**: {NOT_MEASURED}. To measure it: `{command}`" in page
    assert "Other measurements" not in page


def test_old_plots_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "figures"
    folder.mkdir(parents=True)
    for name in ("results-old.svg", "drawing.svg"):
        (folder / name).write_text("<svg/>")
    compose(tmp_path, {})
    assert sorted(path.name for path in folder.iterdir()) == ["drawing.svg", "results-headlines.svg"]


def test_the_page_is_that_of_the_files(tmp_path: Path) -> None:
    """`make results` was run after the last measurement."""
    shutil.copytree(ROOT / "docs" / "benchmarks", tmp_path / "benchmarks")  # which of them there are is on the page
    results_page.main(["--docs", str(tmp_path)])
    for made in (tmp_path / "results.md", *(tmp_path / "figures").iterdir()):
        there = ROOT / "docs" / made.relative_to(tmp_path)
        assert there.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), f"{made.name}: run `make results`"


def test_commands_are_programs() -> None:
    for name, command in COMMANDS.items():
        program = command.split()[2].removeprefix("benchmarks.")
        assert (ROOT / "benchmarks" / f"{program}.py").exists(), name


def test_published_figures_name_their_sources() -> None:
    published = json.loads((ROOT / "benchmarks" / "published.json").read_text(encoding="utf-8"))
    named = {row["source"] for row in published["encoders"]["rows"]} | {
        block["source"] for block in published["headlines"]
    }
    assert named | {published["layers"]["source"]} == published["sources"].keys()
    for row in published["encoders"]["rows"]:
        assert row.keys() - {"model", "shape", "parameters", "source"} <= encoders.SETS.keys()


# -- plots -------------------------------------------------------------------------------------------------------------


def test_bars_by_hand() -> None:
    svg = plot.bars("A & B", [plot.Bar("one", 50.0, 40.0, 60.0, "ours"), plot.Bar("two", 30.0)])
    root = ElementTree.fromstring(svg)
    boxes = root.findall("{*}rect")
    room = plot.WIDTH - plot.NAMES - plot.NUMBERS
    assert [float(box.attrib["width"]) for box in boxes] == pytest.approx([room * 5 / 6, room / 2], abs=0.1)
    assert root.attrib["aria-label"] == "A & B"
    assert [text.text for text in root.findall("{*}text")] == ["A & B", "one", "50.0", "two", "30.0"]


def test_long_names_have_room() -> None:
    svg = plot.bars("t", [plot.Bar("n" * 60, 1.0)])
    start = float(svg.split('<rect class="peer" x="')[1].split('"')[0])
    assert start > 60 * plot.LETTER
    assert start + plot.NUMBERS < plot.WIDTH


def test_lines_by_hand() -> None:
    svg = plot.lines("t", {"s": [(1.0, 0.0), (100.0, 10.0), (10.0, 5.0)]}, across="x", up="y")
    (line,) = ElementTree.fromstring(svg).findall("{*}polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert places[1][0] == pytest.approx((places[0][0] + places[2][0]) / 2, abs=0.1)  # 10 is half-way on a logarithm
    assert places[0][1] > places[1][1] > places[2][1]  # up is up
    with pytest.raises(ValueError, match="needs a point"):
        plot.lines("t", {}, across="x", up="y")


@pytest.mark.parametrize(("number", "text"), [(4.4e6, "4.4 M"), (110e6, "110 M"), (2500, "2.5 k"), (7, "7")])
def test_amounts(number: float, text: str) -> None:
    assert plot.amount(number) == text


# -- the programs behind two of the files ------------------------------------------------------------------------------


def test_encoders_are_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def finetuned(name: str, model: str, options: Any) -> dict[str, Any]:
        asked.append((name, model))
        return {
            "command": f"bertworks finetune {name}",
            "metrics": metrics(dict.fromkeys(encoders.SETS[name].figures, 0.5)),
        }

    weights = [SimpleNamespace(numel=lambda: 50_001)]
    loaded = SimpleNamespace(model=SimpleNamespace(parameters=lambda: weights))
    monkeypatch.setattr(encoders, "finetuned", finetuned)
    monkeypatch.setattr(encoders, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(hub, "load", lambda model: loaded)
    given = ["small=place", "--output", str(tmp_path / "encoders.json"), "--sets"]
    encoders.main([*given, "sst2"])
    encoders.main([*given, "sst2", "conll"])
    assert asked == [("sst2", "place"), ("conll", "place")]
    assert "| small | 0.1 M | 0.500 ± 0.010 |" in capsys.readouterr().out


def test_layers_are_probed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = made_up()["layers"]["models"]["minilm"]
    monkeypatch.setattr(layers, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(layers, "probed", lambda model, options: probe)
    given = ["m=x", "--output", str(tmp_path / "layers.json")]
    layers.main(given)
    monkeypatch.setattr(layers, "probed", lambda model, options: pytest.fail("was done already"))
    layers.main(given)
    assert "| layer 5 (last) | 90.0% | 90.0% |" in capsys.readouterr().out


@pytest.mark.slow
def test_both_programs_with_a_tiny_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.finetune import small
    from tests.finetune.test_words import tagged_lines

    for module in (encoders, layers):
        monkeypatch.setattr(module, "CACHE", tmp_path / module.__name__)
    model = str(small.write_model(tmp_path / "model"))
    data = tmp_path / "data"
    for folder in ("glue/SST-2", "conll2003"):
        (data / folder).mkdir(parents=True)
    for name, count in (("train", 40), ("dev", 12)):
        rows = "".join(f"{text}\t{int(label == 'quick')}\n" for text, label in small.rows(count))
        (data / "glue" / "SST-2" / f"{name}.tsv").write_text("sentence\tlabel\n" + rows)
        (data / "conll2003" / f"{name}.conll").write_text(tagged_lines(count))
    given = [f"tiny={model}", "--data", str(data), "--options"]
    output = tmp_path / "encoders.json"
    encoders.main(
        [*given, "--epochs 1", "--seeds", "2", "--threads", "1", "--sets", "sst2", "conll", "--output", str(output)]
    )
    sets = json.loads(output.read_text())["models"]["tiny"]["sets"]
    assert sets.keys() == {"sst2", "conll"}
    assert sets["sst2"]["command"].endswith("--model model --epochs 1 --seeds 2 -o sst2")
    assert encoders.figure("sst2", sets["sst2"])[1] is not None
    layers.main([*given, "--epochs 1 --tagger linear --threads 1", "--output", str(tmp_path / "layers.json")])
    found = json.loads((tmp_path / "layers.json").read_text())["models"]["tiny"]
    assert layers.figures(found).keys() >= {"0", "1", "2"}


def test_rows_of_one_length_are_one_command() -> None:
    rows = {
        "transformer": {"budget": "43m", "threads": 2},
        "luong": {"budget": None, "threads": 1},
        "rotary": {"budget": "43m", "threads": 2},
    }
    assert translate.commands(rows) == (
        "python -m benchmarks.translate transformer rotary --budget 43m --threads 2 && "
        "python -m benchmarks.translate luong --threads 1"
    )
