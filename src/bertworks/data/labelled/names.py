"""What columns are called in public data sets, by the part that they play. Plain tables, in order of preference.

Names are compared as `plain` has them: small letters and digits alone, so that `sentence_A`, `Sentence A` and
`sentenceA` are the same and MRPC's `#1 String` is `1string`.
"""

from __future__ import annotations

TEXTS = (
    "text", "sentence", "review", "reviewtext", "reviewbody", "content", "comment", "commenttext", "commentbody", "tweet",
    "tweettext", "message", "messagetext", "sms", "body", "document", "post", "utterance", "paragraph", "passage",
    "transcript", "abstract", "article", "snippet", "phrase", "description", "headline", "title", "question", "query",
    "input", "prompt", "statement", "claim", "string", "excerpt", "essay", "fulltext", "cleantext", "summary", "news",
    "source", "data", "v2",
)  # fmt: skip

PAIRS = (
    ("sentence1", "sentence2"),  # GLUE, SNLI
    ("question1", "question2"),  # QQP
    ("1string", "2string"),  # MRPC
    ("premise", "hypothesis"),
    ("question", "sentence"),  # QNLI
    ("question", "passage"),  # BoolQ
    ("text1", "text2"), ("texta", "textb"), ("sentencea", "sentenceb"), ("sent1", "sent2"), ("s1", "s2"),
    ("string1", "string2"), ("q1", "q2"), ("sentence", "pair"), ("text", "pair"), ("text", "textpair"),
    ("text", "hypothesis"), ("text", "secondtext"), ("first", "second"), ("texta", "text"), ("anchor", "positive"),
    ("context", "hypothesis"), ("context", "response"), ("context", "utterance"),
    ("claim", "evidence"), ("headline", "articlebody"), ("headline", "body"), ("query", "passage"),
    ("query", "document"), ("query", "response"), ("query", "answer"), ("query", "title"), ("query", "positive"),
    ("question", "answer"), ("question", "document"), ("phrase1", "phrase2"),
    ("word1", "word2"), ("title1", "title2"), ("t", "h"),
)  # fmt: skip

SOMETIMES_PAIRED = ("answer", "title", "document", "positive", "body", "evidence", "utterance", "t", "h")
"""Second texts that may as well be something else: a pair only where both columns hold texts."""

LABELS = (
    "label", "labels", "goldlabel", "class", "classes", "classname", "classlabel", "classindex", "category", "categories",
    "target", "targets", "sentiment", "polarity", "emotion", "emotions", "topic", "topics", "intent", "stance",
    "entailmentlabel", "entailmentjudgment", "entailment", "judgment", "judgement", "isduplicate", "duplicate",
    "quality", "relation", "gold", "acceptability", "acceptable", "isspam", "spam", "toxic", "offensive", "hatespeech",
    "hate", "ishumor", "sarcasm", "issarcastic", "subjectivity", "coarse", "labelcoarse", "coarselabel", "labeltext",
    "labelname", "airlinesentiment", "answer", "tag", "tags", "y", "output", "outcome", "stars", "star", "rating",
    "score", "v1",
)  # fmt: skip

SINGLE_LABELS = ("genre", "language", "lang", "type", "kind", "author", "gender", "party", "country", "dialect")
"""Labels of single texts; in a table of pairs (MNLI's `genre`) they say something else."""

NUMBERS = (
    "score", "scores", "relatednessscore", "similarityscore", "similarity", "relatedness", "goldscore", "meanscore",
    "rating", "ratings", "stars", "star", "overall", "value", "target", "targets", "grade", "meangrade", "intensity",
    "valence", "complexity", "difficulty", "easiness", "bteasiness", "price", "count", "counts", "y", "label", "labels",
    "goldlabel", "output", "outcome",
)  # fmt: skip

WORDS = ("tokens", "words", "token", "word", "form", "text", "sentence")
TAGS = (
    "nertags", "tags", "ner", "labels", "bio", "biotags", "iob", "wordlabels", "tag", "label", "nertag", "entities",
    "slots", "postags", "upos", "upostags", "pos", "postag",
)  # fmt: skip
SENTENCES = ("sentence", "sentenceid", "sentid", "sentencenumber", "sentenceidx", "sentenceno", "sid")

QUESTIONS = ("question", "query", "questiontext")
CONTEXTS = ("context", "passage", "paragraph", "document", "text", "contexttext")
ANSWERS = ("answers", "answer", "answertext", "labels", "label")
ANSWER_STARTS = ("answerstart", "start", "startposition", "answerstarts")

BEGINNINGS = (
    "context", "ctx", "startphrase", "prompt", "premise", "goal", "stem", "beginning", "story", "article", "passage",
    "sentence", "text", "question", "query",
)  # fmt: skip
OPTION_STEMS = (
    "ending", "option", "choice", "completion", "candidate", "alternative", "solution", "sol", "answer", "ans", "opt",
    "response", "hypothesis",
)  # fmt: skip
OPTION_LISTS = ("endings", "options", "choices", "completions", "candidates", "alternatives", "answers", "solutions")
CHOSEN = (
    "label", "answer", "answerkey", "answerrightending", "gold", "correct", "correctanswer", "correctoption", "correctidx",
    "answeridx", "answerindex", "right", "target", "goldlabel", "correctending", "labels",
)  # fmt: skip

ANCHORS = ("anchor", "query", "question", "sentence", "text", "premise", "sentence1", "sent0", "source")
POSITIVES = ("positive", "pos", "positives", "positivepassages", "entailment", "sent1", "paraphrase")
NEGATIVES = ("negative", "neg", "negatives", "hardneg", "hardnegative", "negativepassages", "contradiction")

GROUPS = (
    "group", "groupid", "document", "documentid", "doc", "docid", "article", "articleid", "videoid", "promptid",
    "captionid", "dialogid", "dialogueid", "conversationid", "threadid",
)  # fmt: skip

IDENTIFIERS = (
    "", "id", "ids", "idx", "ind", "index", "oldindex", "guid", "uid", "uuid", "key", "pairid", "promptid", "captionid",
    "qid", "qid1", "qid2", "questionid", "1id", "2id", "id1", "id2", "docid", "documentid", "articleid", "no", "nr", "row",
    "rowid", "number", "num", "unnamed0", "sentid", "sentenceid", "phraseid", "tweetid", "reviewid", "commentid", "userid",
    "videoid", "foldind", "line", "split", "url", "date", "timestamp", "year",
)  # fmt: skip
"""Columns that number or place a row: never its text, and its label only when the user says so."""

KNOWN = frozenset(
    [
        *TEXTS,
        *LABELS,
        *SINGLE_LABELS,
        *NUMBERS,
        *WORDS,
        *TAGS,
        *SENTENCES,
        *QUESTIONS,
        *CONTEXTS,
        *ANSWERS,
        *BEGINNINGS,
        *OPTION_LISTS,
    ]
    + [*CHOSEN, *ANCHORS, *POSITIVES, *NEGATIVES, *GROUPS, *IDENTIFIERS]
    + [name for pair in PAIRS for name in pair]
    + [stem + suffix for stem in OPTION_STEMS for suffix in "012345abcde"]
) - {""}
"""Every name above: a first row with one of them is a header."""


def plain(name: str) -> str:
    """`name` in small letters and digits alone."""
    return "".join(character for character in name.casefold() if character.isalnum())
