"""Where sentences begin and end in English, Swedish and Chinese: rules and short word lists, nothing to download.

One regular expression finds the places where a sentence could end, and a few questions decide each of them:

- a line end always ends a sentence, and so do 。！？ with the closing quotes after them;
- `.`, `!`, `?` and `…` end one if white space follows (after closing quotes and brackets) and what comes next does not
  begin with a small letter. So `3.14`, `example.org` and `"Go!" he said` stay whole;
- a single full stop does not end one after an abbreviation (`Mr.`, `t.ex.`), before a number after `No.` or `kl.`, after
  a number that begins the sentence (`1. Introduction`), and after an initial or an acronym (`J. Smith`, `U.S. Navy`),
  unless the next word is one that sentences like to begin with (`… in the U.S. The …`).

Rules of this kind are right in most places and never in all: `"Stop!" I said` is cut after the quote. Punkt (Kiss and
Strunk, 2006) learns the abbreviations from a corpus instead; that is left out, as are languages without these marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bertworks.errors import choice

AUTO = "auto"
SAMPLE_CHARACTERS = 2000  # enough of a text to tell its language
HAN_SHARE = 0.2  # of the characters; Chinese texts have far more, others far fewer

OPENING = frozenset("\"'“”„‘’«»‹›([{¿¡–—-*_ \t")
# The first character alone decides quickly whether there is anything to look at; most of a text is skipped by it.
CANDIDATE = re.compile(
    r"[\n.!?…。！？｡](?:(?<=\n)\n*|(?<!\n)(?P<marks>[.!?…。！？｡]*)[\"'”’»›」』）】》〉)\]]*(?P<space>[^\S\n]*))"
)
CHINESE_MARK = re.compile("[。！？｡]")
HAN_RUN = re.compile("[㐀-䶿一-鿿]+")


@dataclass(frozen=True)
class Rules:
    """The words that matter to a full stop, in small letters and without their last full stop."""

    abbreviations: frozenset[str]  # the sentence goes on
    before_number: frozenset[str]  # it goes on if a number follows
    acronyms: frozenset[str]  # it goes on unless a usual first word follows; so do initials and words like u.s
    first_words: frozenset[str]  # as written at the beginning of a sentence
    frequent: frozenset[str]  # to tell the language


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH = Rules(
    abbreviations=_words(
        "mr mrs ms messrs mme mlle dr prof rev fr sr st ste mt ft gen col lt maj capt cpt cmdr adm sgt cpl pvt gov sen rep "
        "pres hon esq supt e.g i.e eg ie cf viz vs v al approx c.f resp incl excl dept univ est eds a.k.a ibid"
    ),
    before_number=_words(
        "no nos nr p pp vol vols ch chap sec sect art op para par pt ver ca c b d fig figs eq eqs ed "
        "jan feb mar apr jun jul aug sept sep oct nov dec"
    ),
    acronyms=_words(
        "inc ltd co corp bros jr llc plc ph.d m.d b.a m.a b.sc m.sc a.m p.m u.s u.k u.n e.u d.c b.c a.d u.s.a"
    ),
    first_words=_words(
        "The A An In On At It He She They We I You This That These Those There Here But And Or So If When While As "
        "After Before Since For From To By With However Although Though Then Thus His Her Its Their Our My Your What "
        "Who Where Why How No Not One Some Many Most All Both Each Another Other During Because Also According Until Under"
    ),
    frequent=_words("the of and to in was is that it he for with as his on"),
)
SWEDISH = Rules(
    abbreviations=_words(
        "t.ex bl.a d.v.s dvs s.k fr.o.m t.o.m p.g.a pga f.d e.d ev resp c:a jfr jmf i.st dr prof hr s:t s:ta kapt "
        "löjtn inkl exkl vs kungl k.m:t dåv nuv f.ö m.a.o s.a.s dir ing"
    ),
    before_number=_words(
        "nr kl s sid kap art bd tel st p vol ca c fig omkr avd mom jan feb mar apr jun jul aug sept sep okt nov dec"
    ),
    acronyms=_words("o.s.v osv m.m m.fl etc f.kr e.kr a.b o.d o.dyl"),
    first_words=_words(
        "Den Det De Detta Denna Dessa En Ett Han Hon Hans Hennes Vi Ni Jag Du Man Men Och I På Av Från Till Med För "
        "Efter Före När Då Där Här Som Om Att Är Var Vid Under Över Mellan Genom Sedan Nu Så Vad Vem Hur Varför Inte "
        "Ingen Alla Många Några Ja Nej Dock Även Också Sin Deras Mot Utan"
    ),
    frequent=_words("och att det som är på för inte jag han hon var med till av den en ett"),
)
# Chinese needs no list of its own: its marks are not used for anything else. Latin words in it are mostly English.
LANGUAGES: dict[str, Rules] = {"en": ENGLISH, "sv": SWEDISH, "zh": ENGLISH}
ROMAN = re.compile(r"[ivxlc]+")
NOT_SPACE = re.compile(r"\S")


def sentence_spans(text: str, language: str = AUTO) -> list[tuple[int, int]]:
    """The sentences of `text` as (start, end), in order, without the white space around them.

    language: en, sv, zh, or auto (see `guess_language`). Between two spans there is only white space.
    """
    rules = LANGUAGES[guess_language(text) if language == AUTO else choice(language, [*LANGUAGES, AUTO], "language")]
    spans: list[tuple[int, int]] = []
    start = 0
    for candidate in CANDIDATE.finditer(text):
        stop, end = candidate.start(), candidate.end()
        if text[stop] != "\n":
            marks = text[stop : candidate.end("marks")]
            if marks.isascii() or CHINESE_MARK.search(marks) is None:
                if candidate.start("space") == end:  # nothing between the mark and what follows
                    if marks[-1] in ".…" or not HAN_RUN.match(text, end):
                        continue
                elif not _ends(text, start, stop, end, marks, rules):
                    continue
        _add_trimmed(spans, text, start, end)
        start = end
    _add_trimmed(spans, text, start, len(text))
    return spans


def guess_language(text: str) -> str:
    """Chinese by its characters, English or Swedish by their most frequent words; English where nothing tells."""
    sample = text[:SAMPLE_CHARACTERS]
    if not sample.isascii():
        han = sum(map(len, HAN_RUN.findall(sample)))
        if han > HAN_SHARE * len(sample):
            return "zh"
    small = sample.lower()
    words = small.split()
    swedish = sum(word in SWEDISH.frequent for word in words) + sum(map(small.count, "åäö"))
    return "sv" if swedish > sum(word in ENGLISH.frequent for word in words) else "en"


def _ends(text: str, start: int, stop: int, after: int, mark: str, rules: Rules) -> bool:
    """Whether the marks at `stop`, followed by white space up to `after`, end the sentence that begins at `start`."""
    length = len(text)
    place = after
    while place < length and text[place] in OPENING:
        place += 1
    if place == length or text[place] == "\n":
        return True  # the text or the line ends here anyway
    following = text[place]
    if following.islower():
        return False
    if mark != ".":
        return True
    word = text[max(start, stop - 24) : stop].split()[-1:]  # no abbreviation is longer
    if not word:
        return True
    before = word[0].lstrip("\"'“”„‘’«»([{–—-").lower()
    if before in rules.abbreviations:
        return False
    if before in rules.before_number and following.isdigit():
        return False
    is_label = before.isdigit() or (len(before) <= 4 and ROMAN.fullmatch(before) is not None)
    if is_label and NOT_SPACE.search(text, start, stop - len(before)) is None:
        return False  # "1. Introduction": what is cut here is no sentence
    is_acronym = (
        before in rules.acronyms
        or (len(before) == 1 and before.isalpha())
        or (len(before) > 2 and before[-2] == "." and before[-1].isalpha())
    )
    if is_acronym:
        return text[place : place + 16].split(maxsplit=1)[0].rstrip(",") in rules.first_words
    return True


def _add_trimmed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))
