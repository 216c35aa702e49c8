"""Names in a long text, with their places, by any tagger: `python examples/find_entities.py MODEL FILE`."""

import sys
from pathlib import Path

import bertworks

model, file = sys.argv[1:]
text = Path(file).read_text(encoding="utf-8")
for span in bertworks.load(model).predict(text).spans:
    assert text[span.start : span.end] == span.text
    print(f"{span.start:8} {span.label:6} {span.probability:4.0%} {span.text}")
