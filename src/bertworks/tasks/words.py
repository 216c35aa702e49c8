"""A running text as words with their places, in the manner of files of tagged words.

A tagger is trained on words that people have separated: `U.S.` and `22-year-old` are one word, a comma and the `'s` of
`Germany's` are words of their own. A text without such words is separated here by rules of that kind. They look at the
kind of each character only (Unicode's categories) and are the same for every tokenizer, whose own pieces are often smaller
than what the model learned tags for:

- white space, control characters and zero-width spaces separate; a letter keeps its accents, an emoji what is joined to it;
- runs of letters and digits are words, also across a single `-`, `.`, `'`, `&`, `@` or `_` inside; digits across `,`, `:`, `/`;
- single letters with periods keep the last one (`U.S.`); English `'s`, `n't` and their kin are apart;
- a Chinese or Japanese character is a word, any other sign, too.

Left out: everything that needs a lexicon (`Mr.`, Thai, words of more than one Chinese character).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from bertworks.data.labelled.examples import Place, TaggedExample

# The kinds of characters, one letter each. A text's kinds are a string as long as the text, and WORD is matched on that:
# w letter, d digit, o period, j joins letters, n joins digits, c Chinese, m clings to what is before it, z joins emoji,
# r half a flag, p any other sign, space.
WORD = re.compile(
    r"""
      (?: w m* o ){2,} (?: w m* )? (?! [wd] )                                   # U.S.  e.g.  U.S.A
    | [wd][wdmz]* (?: (?: [jo] | (?<=d) n (?=d) ) [wd][wdmz]* )*                # well-known  3,000.5  R&D  12:30
    | c m*
    | r r? m*
    | [pojn] m* (?: z p m* )* z?
    """,
    re.VERBOSE,
)
CLITIC = re.compile(r"(?<=[^\W\d_])(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
WIDE = (
    (0x3040, 0x30FF),  # kana
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
"""Characters of scripts that do not separate words."""


def split_words(text: str) -> list[tuple[int, int]]:
    """Where each word of the text begins, and the character after its last."""
    kinds = "".join(map(_kind, text))
    places = []
    for match in WORD.finditer(kinds):
        start, end = match.span()
        clitic = CLITIC.search(text[start:end])
        if clitic is not None:
            middle = start + clitic.start()
            places += [(start, middle), (middle, end)]
        else:
            places.append((start, end))
    return places


def tagged_from_text(text: str, place: Place) -> TaggedExample:
    """A text to be tagged, as an example without tags: predicted spans will have their offsets in `text`."""
    offsets = tuple(split_words(text))
    return TaggedExample(
        words=tuple(text[start:end] for start, end in offsets), text=text, offsets=offsets, place=place
    )


def joined(words: tuple[str, ...]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Words as one text with single spaces, and each word's place in it."""
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(offsets)


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    code = ord(character)
    if character == ".":
        return "o"
    if character in "-'’&@_":
        return "j"
    if character in ",:/":
        return "n"
    if character == "\u200d":
        return "z"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "r"
    if any(low <= code <= high for low, high in WIDE):
        return "c"
    if 0x1F3FB <= code <= 0x1F3FF or character in "\u00ad\u200c":  # skin tones, soft hyphen, non-joiner
        return "m"
    category = unicodedata.category(character)
    if category[0] == "Z" or category in ("Cc", "Cf") or character.isspace():
        return " "
    if category[0] == "M":
        return "m"
    if category[0] == "N":
        return "d"
    return "p" if category[0] in "PS" or category == "Cs" else "w"
