"""Fine-tune a classifier in scikit-learn's way, save it, open it again, and ask it."""

import csv
import sys
from importlib.resources import files

import bertworks
from bertworks.sklearn import TextClassifier

output = sys.argv[1] if len(sys.argv) > 1 else "messages-model"
rows = list(csv.DictReader((files("bertworks") / "samples" / "messages.csv").open(encoding="utf-8")))
texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
classifier = TextClassifier("minilm", epochs=3, learning_rate=2e-4).fit(texts[:120], labels[:120])
print(f"accuracy on the other {len(texts) - 120}: {classifier.score(texts[120:], labels[120:]):.1%}")
classifier.save(output)
print(bertworks.load(output).predict("My parcel has been travelling for three weeks."))
