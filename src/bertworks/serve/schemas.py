"""What requests look like; the OpenAPI document and its examples are made from these (answers: `schemas_answers`).

Requests are strict: a number is not taken for a text, nor an unknown field for a known one. Only requests in OpenAI's
form may have fields that are not known here, since clients add what their service knows.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Texts = Annotated[str | list[str], Field(description="One text, or a list of texts.")]
Pair = Annotated[list[str], Field(min_length=2, max_length=2, description="Two texts.")]
Model = Annotated[
    str | None,
    Field(description="The name of a model (see /models); absent: the first one that can be asked here."),
]


def _example(**content: Any) -> ConfigDict:
    return ConfigDict(strict=True, extra="forbid", json_schema_extra={"examples": [content]})


# -- OpenAI's form -----------------------------------------------------------------------------------------------------


class EmbeddingsRequest(BaseModel):
    """Texts to embed, as OpenAI's clients ask for it."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        json_schema_extra={"examples": [{"model": "minilm", "input": ["A cat sat on the mat.", "It rains."]}]},
    )
    model: str
    input: str | list[str] | list[int] | list[list[int]] = Field(
        description="One text or several. Lists of token numbers are refused: they belong to another tokenizer."
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="float, unless told; base64: the bytes of little-endian 32-bit floats."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Keep this many numbers of each vector, and scale it to length 1 again."
    )
    user: str | None = Field(None, description="Not used.")


# -- vectors -----------------------------------------------------------------------------------------------------------


class EmbedRequest(BaseModel):
    """Texts to embed, from any layer, as one vector each or one for every token or word."""

    model_config = _example(texts=["A cat sat on the mat."], layers="last", pooling="mean")
    model: Model = None
    texts: str | list[str] | list[list[str]] = Field(
        description="One text or several; with pooling `words`, a text may be a list of words."
    )
    layers: str | int = Field(
        "last",
        description="last, first, second-to-last, sum-last-4, concat-last-4, sum-all, or a number from 0.",
    )
    pooling: Literal["mean", "cls", "max", "tokens", "words"] | None = Field(
        None, description="How tokens become one vector; `tokens` and `words` keep one for each, with its offsets."
    )
    normalize: bool | None = Field(None, description="Scale to length 1; absent: as the model was made for.")


class TokenizeRequest(BaseModel):
    """Texts to cut into tokens."""

    model_config = _example(texts=["Unbelievable!"])
    model: Model = None
    texts: Texts
    special: bool = Field(True, description="With the special tokens that the model reads around a text.")


class SearchRequest(BaseModel):
    """Queries to an index of texts."""

    model_config = _example(queries=["a bird with a fast heart"], top_k=3)
    index: str | None = Field(None, description="The name of an index; the first one, where it is absent.")
    queries: Texts
    top_k: int = Field(10, ge=1, le=1000, description="How many texts for each query.")


# -- heads -------------------------------------------------------------------------------------------------------------


class TextsRequest(BaseModel):
    """Texts to classify."""

    model_config = _example(texts=["A wonderful film.", "I left after ten minutes."])
    model: Model = None
    texts: Texts


class NumbersRequest(BaseModel):
    """Texts, or pairs of texts, to put a number on."""

    model_config = _example(texts=["Four stars, and I mean it."])
    model: Model = None
    texts: str | list[str] | list[Pair] = Field(description="One text, or a list of texts or of pairs of texts.")


class PairsRequest(BaseModel):
    """Pairs of texts to compare."""

    model_config = _example(pairs=[["A man plays the guitar.", "Someone makes music."]])
    model: Model = None
    pairs: list[Pair]


class RerankRequest(BaseModel):
    """Documents to put in the order in which they fit a query."""

    model_config = _example(
        query="How do I bake bread?", documents=["The oven must be hot.", "Trains leave at noon."], top_n=1
    )
    model: Model = None
    query: str
    documents: list[str]
    top_n: int | None = Field(None, ge=1, description="Only the best ones.")
    label: str | None = Field(
        None,
        description="For a classifier of pairs: the label whose probability is the score; absent: its second label.",
    )
    return_documents: bool = False


class Question(BaseModel):
    """A text and the options to choose from."""

    model_config = ConfigDict(strict=True, extra="forbid")
    text: str
    options: list[str] = Field(min_length=2)


class ChoicesRequest(BaseModel):
    """Texts with options."""

    model_config = _example(
        choices=[{"text": "She opened the umbrella because", "options": ["it rained.", "it flew."]}]
    )
    model: Model = None
    choices: list[Question]


class TagRequest(BaseModel):
    """Texts, or lists of words, to tag."""

    model_config = _example(texts=["Astrid Lindgren was born in Vimmerby."])
    model: Model = None
    texts: str | list[str] | list[list[str]]


class QuestionInContext(BaseModel):
    """A question and the text that may answer it."""

    model_config = ConfigDict(strict=True, extra="forbid")
    question: str
    context: str


class AnswerRequest(BaseModel):
    """Questions about texts, which may be longer than the model's window."""

    model_config = _example(
        questions=[{"question": "Who opened it?", "context": "The library was opened by Ada Berg."}]
    )
    model: Model = None
    questions: list[QuestionInContext]
    top_k: int = Field(1, ge=1, le=5, description="How many candidates to list for each question.")


class FillRequest(BaseModel):
    """Texts with [MASK] where a word is to be found."""

    model_config = _example(texts=["Paris is the [MASK] of France."], top_k=3)
    model: Model = None
    texts: Texts
    top_k: int = Field(5, ge=1, le=100)
    joint: bool = Field(
        False, description="Fill several masks together, not each by itself; with at most 10 candidates."
    )
    targets: list[str] | None = Field(
        None, min_length=1, max_length=100, description="Score these words or phrases, each whole, for the one mask."
    )
