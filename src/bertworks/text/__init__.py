"""Texts and tokens: the tokenizer runtime, offsets and words, windows over long texts. Never imports torch."""

from bertworks.text.cut import Cut, cut
from bertworks.text.encoding import Encoding, Word
from bertworks.text.specials import Specials
from bertworks.text.template import Template
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.windows import Piece, Window, windows

__all__ = ["Cut", "Encoding", "Piece", "Specials", "Template", "Tokenizer", "Window", "Word", "cut", "windows"]
