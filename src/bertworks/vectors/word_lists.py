"""The word lists that a measurement of bias needs: ours, or Bolukbasi's files, or yours in the same form.

A directory of lists holds JSON files, named as Bolukbasi et al. published theirs:

    definitional_pairs.json     [[woman, man], …]           what the direction is made of
    equalize_pairs.json         [[queen, king], …]          pairs that shall differ in the direction only
    gender_specific_full.json   [actress, …]                words that mean it, and keep it
    professions.json            [[nurse, definition, stereotype], …] or [nurse, …]   neutral words to measure
    weat.json                   {"title": [X, Y, A, B], …}  four lists each, for the association test; may be absent

The names of the last set's stereotypes are numbers from -1 to 1 that people gave (male is above 0 there).

The built-in lists are short and English, about gender, written for this project around the words that the papers
discuss; the association tests follow Caliskan, Bryson & Narayanan (2017), whose first test (flowers and insects) is the
check that the measure works at all. For results to publish, use published lists.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertworks.errors import DataError

PAIRS, EQUALIZE, SPECIFIC = "definitional_pairs.json", "equalize_pairs.json", "gender_specific_full.json"
PROFESSIONS, WEAT = "professions.json", "weat.json"

Pair = tuple[str, str]
Association = tuple[list[str], list[str], list[str], list[str]]


@dataclass(frozen=True)
class WordLists:
    """What is measured, and what is changed. The first word of a pair is on the positive side of the direction."""

    pairs: list[Pair]
    equalize: list[Pair]
    specific: set[str]
    neutral: dict[str, float | None]
    """Words to measure, and what people said of their stereotype (positive: the side of the pairs' first words)."""
    associations: dict[str, Association] = field(default_factory=dict)


def _words(text: str) -> list[str]:
    return text.split()


def _pairs(text: str) -> list[Pair]:
    return [(one, other) for one, other in (pair.split("/") for pair in text.split())]


BUILT_IN = WordLists(
    pairs=_pairs("she/he her/his woman/man herself/himself daughter/son mother/father girl/boy female/male"),
    equalize=_pairs(
        "she/he her/his herself/himself woman/man women/men girl/boy girls/boys mother/father mothers/fathers "
        "daughter/son daughters/sons sister/brother sisters/brothers wife/husband wives/husbands aunt/uncle niece/nephew "
        "grandmother/grandfather queen/king princess/prince lady/gentleman female/male actress/actor"
    ),
    specific=set(
        _words(
            "she he her his hers him herself himself woman man women men girl boy girls boys female male females males "
            "mother father mothers fathers mom dad mum mommy daddy daughter son daughters sons sister brother sisters "
            "brothers wife husband wives husbands widow widower bride groom bridegroom aunt uncle niece nephew "
            "grandmother grandfather grandma grandpa granddaughter grandson queen king princess prince duchess duke "
            "countess count lady gentleman ladies gentlemen actress actor waitress waiter hostess host heroine hero "
            "goddess god nun monk businesswoman businessman chairwoman chairman spokeswoman spokesman congresswoman "
            "congressman policewoman policeman saleswoman salesman girlfriend boyfriend stepmother stepfather maid "
            "housewife maternal paternal motherhood fatherhood pregnant beard mare stallion hen rooster cow bull"
        )
    ),
    neutral=dict.fromkeys(
        _words(
            "accountant administrator architect artist astronomer athlete author banker barber biologist bookkeeper boss "
            "broker builder butcher captain carpenter cashier chef chemist cleaner clerk coach collector commander composer "
            "conductor cook counselor dancer dentist designer detective director doctor driver drummer economist editor "
            "electrician engineer farmer firefighter fisherman gardener guard guitarist hairdresser historian homemaker "
            "housekeeper illustrator inspector inventor janitor journalist judge laborer lawyer lecturer librarian "
            "lieutenant magician manager mathematician mayor mechanic minister musician nanny nurse officer painter "
            "pharmacist philosopher photographer physician physicist pianist pilot plumber poet politician president "
            "principal professor programmer psychologist receptionist researcher sailor scholar scientist secretary senator "
            "sheriff singer socialite soldier stylist surgeon teacher technician therapist trader translator trainer "
            "treasurer violinist warrior worker writer"
        )
    ),
    associations={
        "flowers and insects, pleasant and unpleasant (the check)": (
            _words("rose tulip lily daisy violet orchid poppy iris clover carnation"),
            _words("ant wasp mosquito spider fly cockroach beetle moth bee flea"),
            _words("love peace freedom pleasure friend happy laughter gift honest joy"),
            _words("hatred murder sickness accident death poison ugly evil jail war"),
        ),
        "family and career, women and men": (
            _words("home parents children family cousins marriage wedding relatives"),
            _words("executive management professional corporation salary office business career"),
            _words("female woman girl sister she her hers daughter"),
            _words("male man boy brother he him his son"),
        ),
        "arts and mathematics, women and men": (
            _words("poetry art dance literature novel symphony drama sculpture"),
            _words("math algebra geometry calculus equations computation numbers addition"),
            _words("female woman girl sister she her hers daughter"),
            _words("male man boy brother he him his son"),
        ),
        "arts and science, women and men": (
            _words("poetry art dance literature novel symphony drama sculpture"),
            _words("science technology physics chemistry nasa experiment astronomy einstein"),
            _words("sister mother aunt grandmother daughter she hers her"),
            _words("brother father uncle grandfather son he his him"),
        ),
    },
)


def read_lists(directory: Path) -> WordLists:
    """Read a directory of lists; without a weat.json in it, the built-in association tests are used."""
    if not directory.is_dir():
        raise DataError(
            f"is not a directory; it should hold {PAIRS}, {EQUALIZE}, {SPECIFIC} and {PROFESSIONS}", path=directory
        )
    return WordLists(
        pairs=_read_pairs(directory / PAIRS),
        equalize=_read_pairs(directory / EQUALIZE),
        specific=set(_checked(directory / SPECIFIC, lambda item: isinstance(item, str), "a word")),
        neutral=_read_neutral(directory / PROFESSIONS),
        associations=_read_associations(directory / WEAT) if (directory / WEAT).exists() else BUILT_IN.associations,
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError("no such file; a directory of word lists needs it", path=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", path=path) from error
    except json.JSONDecodeError as error:
        raise DataError(f"is not valid JSON: {error.msg}", path=path, line=error.lineno) from error


def _checked(path: Path, fits: Any, what: str) -> list[Any]:
    items = _read(path)
    if not isinstance(items, list) or not items:
        raise DataError(f"must be a list, each item {what}", path=path)
    for number, item in enumerate(items, start=1):
        if not fits(item):
            raise DataError(f"item {number} must be {what}, not {item!r:.60}", path=path)
    return items


def _is_words(item: Any) -> bool:
    return isinstance(item, list) and all(isinstance(word, str) for word in item)


def _read_pairs(path: Path) -> list[Pair]:
    items = _checked(path, lambda item: _is_words(item) and len(item) == 2, "a pair of words")
    return [(one, other) for one, other in items]


def _read_neutral(path: Path) -> dict[str, float | None]:
    def fits(item: Any) -> bool:
        if isinstance(item, str):
            return True
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            return False
        return isinstance(item[2], int | float) and not isinstance(item[2], bool)

    items = _checked(path, fits, "a word, or a word and two numbers (definition, stereotype)")
    # In the published file, numbers above 0 are the side of `he`, which is the second of each pair.
    return {item if isinstance(item, str) else item[0]: None if isinstance(item, str) else -item[2] for item in items}


def _read_associations(path: Path) -> dict[str, Association]:
    tests = _read(path)
    if not isinstance(tests, dict) or not all(
        isinstance(lists, list) and len(lists) == 4 and all(map(_is_words, lists)) for lists in tests.values()
    ):
        raise DataError('must be an object {"title": [X, Y, A, B]} with four lists of words each', path=path)
    return {title: (lists[0], lists[1], lists[2], lists[3]) for title, lists in tests.items()}
