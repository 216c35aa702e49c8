"""Where words are, as a step of a tokenizer: for models whose tokens are whole words, as people separate them.

The rules are those by which a running text is cut for a tagger (`bertworks.tasks.words`), so that a language model learns
the words that a tagger asks it for: `U.S.` and `22-year-old` are one word, a comma and the `'s` of `Germany's` are words of
their own, a Chinese or Japanese character is one, and so is any other sign. White space is left out.
"""

from __future__ import annotations

from tokenizers import Regex, pre_tokenizers
from tokenizers.pre_tokenizers import PreTokenizer

_CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
_LETTER = rf"[\p{{L}}&&[^{_CJK}]]"
_FIRST = rf"(?:{_LETTER}|\p{{N}})"
_REST = rf"(?:{_LETTER}|\p{{N}}|\p{{M}})*"
_INITIALS = rf"(?:{_LETTER}\p{{M}}*\.){{2,}}(?:{_LETTER}\p{{M}}*)?(?!{_FIRST})"  # U.S.  e.g.
_RUN = rf"{_FIRST}{_REST}(?:(?:[-.'’&@_]|(?<=\p{{N}})[,:/](?=\p{{N}})){_FIRST}{_REST})*"  # well-known  3,000.5
_WORD = rf"{_INITIALS}|{_RUN}|[^\s\p{{Z}}\p{{C}}]\p{{M}}*"
_CLITIC = r"(?i)(?<=\p{L})(?:n['’]t|['’](?:s|re|ve|ll|d|m))$"


def word_rules() -> PreTokenizer:
    """A pre-tokenizer of these words."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True),
            pre_tokenizers.Split(Regex(_CLITIC), behavior="isolated"),
        ]
    )
