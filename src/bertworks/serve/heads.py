"""The routes of fine-tuned models: /classify, /pair, /rerank, /regress, /choice, /tag, /answer, and /fill for masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    Place,
    QuestionExample,
    SimilarityExample,
    TextExample,
)
from bertworks.infer.fill import ANY_MASK
from bertworks.infer.rows import example_of
from bertworks.serve.answers import as_json, results_of, state_of
from bertworks.serve.problems import RequestError
from bertworks.serve.ranking import Scorer
from bertworks.serve.schemas import (
    AnswerRequest,
    ChoicesRequest,
    FillRequest,
    NumbersRequest,
    PairsRequest,
    RerankRequest,
    TagRequest,
    TextsRequest,
)
from bertworks.serve.settings import estimated_tokens

PLACE = "request"
MAX_JOINT_CANDIDATES = 10
MAX_JOINT_MASKS = 8


async def classify(body: TextsRequest, request: Request) -> Response:
    """The label of each text, with the probability of every label."""
    texts = [body.texts] if isinstance(body.texts, str) else body.texts
    examples = [TextExample(text=text, place=Place(PLACE, number)) for number, text in enumerate(texts)]
    return await _predict(
        request, "/classify", "texts", body.model, examples, [estimated_tokens(text) for text in texts]
    )


async def pair(body: PairsRequest, request: Request) -> Response:
    """What a model says about two texts: a label, or, from an embedding model, how similar they are."""
    served = state_of(request).asked(body.model, "/pair")
    examples: list[Example] = []
    for number, (first, second) in enumerate(body.pairs):
        place = Place(PLACE, number)
        if served.task == "similarity":
            examples.append(SimilarityExample(texts=(first, second), place=place))
        else:
            examples.append(TextExample(text=first, pair=second, place=place))
    sizes = [estimated_tokens(first, second) for first, second in body.pairs]
    return await _predict(request, "/pair", "pairs", body.model, examples, sizes)


async def regress(body: NumbersRequest, request: Request) -> Response:
    """A number for each text, or for each pair of texts."""
    rows: Sequence[str | list[str]] = [body.texts] if isinstance(body.texts, str) else body.texts
    pairs = [[row] if isinstance(row, str) else row for row in rows]
    examples = [
        TextExample(text=row[0], pair=row[1] if len(row) == 2 else None, place=Place(PLACE, number))
        for number, row in enumerate(pairs)
    ]
    return await _predict(request, "/regress", "texts", body.model, examples, [estimated_tokens(*row) for row in pairs])


async def choice(body: ChoicesRequest, request: Request) -> Response:
    """The best of several options for each text."""
    examples = [
        ChoiceExample(text=row.text, options=tuple(row.options), place=Place(PLACE, number))
        for number, row in enumerate(body.choices)
    ]
    sizes = [sum(estimated_tokens(row.text, option) for option in row.options) for row in body.choices]
    return await _predict(request, "/choice", "choices", body.model, examples, sizes)


async def tag(body: TagRequest, request: Request) -> Response:
    """A tag for each word, and the named parts of each text with their characters."""
    rows: Sequence[str | list[str]] = [body.texts] if isinstance(body.texts, str) else body.texts
    examples = [example_of("tag", row, number) for number, row in enumerate(rows)]
    sizes = [estimated_tokens(row) if isinstance(row, str) else estimated_tokens(*row) + len(row) for row in rows]
    return await _predict(request, "/tag", "texts", body.model, examples, sizes)


async def answer(body: AnswerRequest, request: Request) -> Response:
    """The answer to each question, as characters of its context, which may be longer than the model's window."""
    examples = [
        QuestionExample(id=str(number), question=row.question, context=row.context, place=Place(PLACE, number))
        for number, row in enumerate(body.questions)
    ]
    sizes = [estimated_tokens(row.question, row.context) for row in body.questions]
    found = await _predictions(request, "/answer", "questions", body.model, examples, sizes)
    for prediction in found["predictions"]:
        del prediction["id"]  # the place in the list says which question it is
        prediction["candidates"] = prediction["candidates"][: body.top_k]
    return as_json(found)


async def rerank(body: RerankRequest, request: Request) -> Response:
    """The documents in the order in which they fit the query, by a model that reads both, or by their vectors."""
    state = state_of(request)
    served = state.asked(body.model, "/rerank")
    state.settings.check_items(len(body.documents), "documents")
    scorer = Scorer(served, body.query, body.documents, label=body.label)
    found = await results_of(request, served, scorer.work, scorer.items, scorer.sizes)
    scores = scorer.scores(found)
    order = sorted(range(len(scores)), key=lambda number: -scores[number])[: body.top_n]
    results = [
        {"index": number, "relevance_score": scores[number]}
        | ({"document": body.documents[number]} if body.return_documents else {})
        for number in order
    ]
    return as_json({"model": served.name, "results": results})


async def fill(body: FillRequest, request: Request) -> Response:
    """What may stand where a text has [MASK]."""
    state = state_of(request)
    served = state.asked(body.model, "/fill")
    texts = [body.texts] if isinstance(body.texts, str) else body.texts
    state.settings.check_items(len(texts), "texts")
    if body.joint and body.targets is not None:
        raise RequestError(422, "joint and targets do not go together: targets are scored for a single mask")
    if body.joint and body.top_k > MAX_JOINT_CANDIDATES:
        raise RequestError(422, f"top_k is {body.top_k}; with joint it may be {MAX_JOINT_CANDIDATES} at most")
    sizes, characters = [], 0
    own_mask = served.loaded.tokenizer.specials.mask or ANY_MASK
    for number, text in enumerate(texts):
        masks = text.replace(ANY_MASK, own_mask).count(own_mask)
        if body.joint and masks > MAX_JOINT_MASKS:
            raise RequestError(
                422, f"texts.{number} has {masks} masks; with joint it may have {MAX_JOINT_MASKS} at most"
            )
        rounds = 2 * body.top_k * masks if body.joint else sum(map(estimated_tokens, body.targets or ())) or 1
        sizes.append(rounds * estimated_tokens(text))
        candidates = len(body.targets) if body.targets is not None else body.top_k * (1 if body.joint else masks)
        characters += candidates * len(text)  # each candidate shows the whole text
    state.settings.check_numbers(characters, "characters", "ask for fewer candidates, masks or shorter texts")
    targets = None if body.targets is None else tuple(body.targets)
    work = served.cloze(top_k=body.top_k, joint=body.joint, targets=targets)
    found = await results_of(request, served, work, texts, sizes)
    if targets is not None:
        return as_json(
            {"model": served.name, "targets": [[_plain(one, "target share") for one in row] for row in found]}
        )
    if body.joint:
        return as_json({"model": served.name, "joint": [[_plain(one, "tokens") for one in row] for row in found]})
    masks_of = [[[_plain(one, "token") for one in mask] for mask in row] for row in found]
    return as_json({"model": served.name, "masks": masks_of})


def _plain(candidate: Any, names: str) -> dict[str, Any]:
    return {name: getattr(candidate, name) for name in (*names.split(), "probability", "text")}


async def _predict(
    request: Request, route: str, what: str, model: str | None, examples: Sequence[Example], sizes: Sequence[int]
) -> Response:
    return as_json(await _predictions(request, route, what, model, examples, sizes))


async def _predictions(
    request: Request, route: str, what: str, model: str | None, examples: Sequence[Example], sizes: Sequence[int]
) -> dict[str, Any]:
    state = state_of(request)
    served = state.asked(model, route)
    state.settings.check_items(len(examples), what)
    found = await results_of(request, served, served.prediction(), examples, sizes)
    return {"model": served.name, "predictions": [one.as_json() for one in found]}
