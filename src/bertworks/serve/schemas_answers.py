"""What answers look like, for the OpenAPI document.

They are described here but written directly (`bertworks.serve.answers`): a thousand vectors need not be checked number by
number. The tests hold what is written against what is described.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

# -- OpenAI's form -----------------------------------------------------------------------------------------------------


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """How many tokens the model has read, special ones included."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ListedModel(BaseModel):
    """A model, as OpenAI's clients list it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ListedModels(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[ListedModel]


# -- vectors -----------------------------------------------------------------------------------------------------------


class VectorPiece(BaseModel):
    """A token or a word: characters `start` to `end` of its text."""

    text: str
    start: int
    end: int
    vector: list[float]


class EmbedAnswer(BaseModel):
    """`vectors`, or for pooling `tokens` and `words`, `pieces`: a list for each text."""

    model: str
    width: int
    vectors: list[list[float]] | None = None
    pieces: list[list[VectorPiece]] | None = None


class Tokens(BaseModel):
    """The tokens of a text; a special token has the offsets [0, 0] and the word -1."""

    ids: list[int]
    tokens: list[str]
    offsets: list[Annotated[list[int], Field(min_length=2, max_length=2)]]
    words: list[int]


class TokenizeAnswer(BaseModel):
    """Tokens of each text."""

    model: str
    texts: list[Tokens]


class Hit(BaseModel):
    """A text by its place in the file, from 0, and the cosine of its vector and the query's."""

    row: int
    score: float
    text: str


class SearchAnswer(BaseModel):
    """The nearest texts for each query, the nearest first."""

    index: str
    model: str
    results: list[list[Hit]]


# -- heads -------------------------------------------------------------------------------------------------------------


class LabelPrediction(BaseModel):
    """A label (several or none, where the model was trained so) and the probability of every one."""

    label: str | list[str]
    probabilities: dict[str, float]


class SimilarityPrediction(BaseModel):
    """The cosine of two texts' vectors."""

    similarity: float


class NumberPrediction(BaseModel):
    """A number on the scale of the training data."""

    value: float


class ChoicePrediction(BaseModel):
    """The best option, counted from 0, and the probability of every one."""

    option: int
    probabilities: list[float]


class Span(BaseModel):
    """A named part of a text: characters `start` to `end`."""

    label: str
    start: int
    end: int
    text: str
    probability: float
    first_word: int
    stop_word: int


class TagPrediction(BaseModel):
    """A tag for each word, and the spans that the tags make."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    spans: list[Span]


class Candidate(BaseModel):
    """One possible answer: characters `start` to `end` of the context."""

    text: str
    start: int
    end: int
    probability: float


class AnswerPrediction(Candidate):
    """The answer; an empty text says that the context does not answer the question."""

    no_answer_probability: float
    candidates: list[Candidate]


class ClassifyAnswer(BaseModel):
    """One prediction for each text."""

    model: str
    predictions: list[LabelPrediction]


class PairAnswer(BaseModel):
    """One prediction for each pair: a label, or the similarity from an embedding model."""

    model: str
    predictions: list[LabelPrediction | SimilarityPrediction]


class RegressAnswer(BaseModel):
    """One number for each text."""

    model: str
    predictions: list[NumberPrediction]


class ChoiceAnswer(BaseModel):
    """One prediction for each text with options."""

    model: str
    predictions: list[ChoicePrediction]


class TagAnswer(BaseModel):
    """One prediction for each text."""

    model: str
    predictions: list[TagPrediction]


class AnswerAnswer(BaseModel):
    """One answer for each question."""

    model: str
    predictions: list[AnswerPrediction]


class Ranked(BaseModel):
    """A document by its place in the request, from 0, and how well it fits."""

    index: int
    relevance_score: float
    document: str | None = None


class RerankAnswer(BaseModel):
    """The documents, the best first."""

    model: str
    results: list[Ranked]


class MaskCandidate(BaseModel):
    """A token for one mask, and the text with it."""

    token: str
    probability: float
    text: str


class JointCandidate(BaseModel):
    """Tokens for all masks, and the text with them."""

    tokens: list[str]
    probability: float
    text: str


class TargetScore(BaseModel):
    """A given word or phrase: its probability, and its share among those given."""

    target: str
    probability: float
    share: float
    text: str


class FillAnswer(BaseModel):
    """For each text: `masks`, a list of candidates for each mask; or `joint` candidates; or `targets`, the best first."""

    model: str
    masks: list[list[list[MaskCandidate]]] | None = None
    joint: list[list[JointCandidate]] | None = None
    targets: list[list[TargetScore]] | None = None


# -- the server itself -------------------------------------------------------------------------------------------------


class AboutModel(BaseModel):
    """A model that is served: what it was fine-tuned for, where it can be asked, how wide its vectors are."""

    name: str
    task: str | None
    labels: list[str]
    routes: list[str]
    width: int
    layers: int
    window: int | None
    precision: str


class AboutIndex(BaseModel):
    """An index that is served: how many texts it has, which model asks it, what share of the nearest it finds."""

    name: str
    model: str
    rows: int
    recall: float


class ModelsAnswer(BaseModel):
    """All models and indexes; the first that can answers requests that name none."""

    models: list[AboutModel]
    indexes: list[AboutIndex]


class HealthAnswer(BaseModel):
    """Whether requests are welcome."""

    status: Literal["ok", "stopping"]
    models: list[str]
    waiting: int


class Problem(BaseModel):
    """What was wrong, in one sentence."""

    error: str


class OpenAIError(BaseModel):
    """What was wrong, as OpenAI's clients expect it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    """What was wrong, as OpenAI's clients expect it."""

    error: OpenAIError
