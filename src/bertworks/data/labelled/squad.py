"""Questions about contexts: SQuAD's JSON, versions 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), and tables of the same.

Each answer is checked: it must stand in its context at the character that the file says, or just once where it does not
say. In version 2.0 a question may have no answer, and then `plausible_answers`, which are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from bertworks.data.labelled.columns import SAMPLED_ROWS, Columns, remembered, used
from bertworks.data.labelled.examples import Answer, Place, QuestionExample
from bertworks.data.labelled.names import ANSWER_STARTS, ANSWERS, CONTEXTS, QUESTIONS
from bertworks.data.labelled.notes import Notes
from bertworks.data.labelled.options import ReadOptions
from bertworks.data.labelled.values import error_at, group_of
from bertworks.data.readers import checked_text
from bertworks.data.tables import Table
from bertworks.errors import DataError


def is_squad(document: Any) -> bool:
    """Whether a JSON document has SQuAD's form."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("data"), list)
        and any(isinstance(article, dict) and "paragraphs" in article for article in document["data"])
    )


def read_squad(document: Any, options: ReadOptions, notes: Notes) -> Iterator[QuestionExample]:
    """One example per question; its place is its number in the file, from 1."""
    if not is_squad(document):
        message = 'is not of SQuAD\'s form: {"data": [{"title": …, "paragraphs": [{"context": …, "qas": […]}]}]}'
        raise DataError(message, path=notes.path)
    for number, (title, context, question) in enumerate(_questions(document, notes.path), start=1):
        try:
            yield _question(question, context, title, options, Place(notes.path, number))
        except DataError as error:
            notes.bad(_named(error, question.get("id"), title))


def _questions(document: Any, path: str) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """(title, context, question) of each question."""
    for number, article in enumerate(document["data"], start=1):
        where = named = f"article {number}"
        try:
            where = named = f"{named} ({article.get('title')!r})"
            for place, paragraph in enumerate(article["paragraphs"], start=1):
                where = f"{named}, paragraph {place}"
                for question in paragraph["qas"]:
                    yield article.get("title"), paragraph["context"], dict(question)
        except KeyError as error:
            raise DataError(f"{where} is not of SQuAD's form: it has no {error.args[0]!r}", path=path) from error
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{where} is not of SQuAD's form ({error})", path=path) from error


def _named(error: DataError, name: Any, title: Any) -> DataError:
    """The same error with the question's identity, since the lines of a JSON file tell nothing."""
    named = DataError(f"question {error.line} (id {name!r}, article {title!r}): {error.message}", path=error.path)
    named.line = error.line
    return named


def _question(entry: dict[str, Any], context: Any, title: Any, options: ReadOptions, place: Place) -> QuestionExample:
    question = checked_text(entry.get("question"), "question", place.path, place.line)
    context = checked_text(context, "context", place.path, place.line)
    answers: tuple[Answer, ...] | None = None
    if options.labelled and entry.get("is_impossible"):
        answers = ()
    elif options.labelled:
        if entry.get("answers") is None:
            raise error_at(place, "has no list of answers (an empty one says that the context does not answer it)")
        answers = _answers(entry["answers"], None, context, place)
    identity = str(entry.get("id", place.line))
    group = str(title) if title else None
    return QuestionExample(id=identity, question=question, context=context, answers=answers, group=group, place=place)


def checked_answer(text: Any, start: Any, context: str, place: Place) -> Answer:
    """The answer, if it stands in the context where it says; else an error that tells what stands there."""
    if not isinstance(text, str) or not text:
        raise error_at(place, f"an answer's text is {text!r}; for a question without an answer the list is empty")
    if isinstance(start, Integral) or (isinstance(start, float) and start.is_integer()):
        start = start if isinstance(start, bool) else int(start)  # numpy's, or a float of a table with gaps
    if isinstance(start, bool) or not isinstance(start, int):
        raise error_at(place, f"the answer {text!r:.60} has the start {start!r}, which is no whole number")
    stop = start + len(text)
    if start >= 0 and context[start:stop] == text:
        return Answer(text, start)
    there = context[start:stop] if 0 <= start < len(context) else ""
    instead = f"there is {there!r:.60}" if there else f"the context has only {len(context)} characters"
    found = context.find(text)
    hint = f"it stands at {found}" if found >= 0 else "it is nowhere in the context"
    raise error_at(place, f"the answer {text!r:.60} is not at character {start} of its context: {instead}; {hint}")


# -- tables ------------------------------------------------------------------------------------------------------------


def read_question_table(
    table: Table, names: Sequence[str], options: ReadOptions, notes: Notes
) -> Iterator[QuestionExample]:
    """Columns id, title, question, context and answers, as the `datasets` library has them; or a single answer's text.

    Where the start of an answer is not given, the answer must stand in the context exactly once.
    """
    sample = table.sample(SAMPLED_ROWS)
    columns = Columns(names or list(dict.fromkeys(name for row in sample for name in row)), sample, notes.path)
    options = remembered(columns, options, notes)
    asked = columns.asked
    question = asked(options.text_column) if options.text_column else columns.named(QUESTIONS)
    context = asked(options.pair_column) if options.pair_column else columns.named(CONTEXTS, (question,))
    if (question, context) == (None, None) and not columns.has_names and len(columns.names) == 2 + options.labelled:
        question, context, *rest = columns.names  # as they are always given
        options = replace(options, label_column=options.label_column or "".join(rest) or None)
    if question is None or context is None:
        missing = "question (--text-column)" if question is None else "context (--pair-column)"
        raise columns.ask(f"there is no column that is plainly the {missing}", "choose it")
    answers = None
    if options.label_column is not None and (options.labelled or columns.has(options.label_column)):
        answers = asked(options.label_column)
    answers = answers or columns.named(ANSWERS, (question, context))
    if answers is None and options.labelled:
        raise columns.ask("there is no column that is plainly the answers", "choose it with --label-column")
    columns.check_apart(question=question, context=context, answers=answers)
    notes.columns = used(columns, text_column=question, pair_column=context, label_column=answers)
    starts = columns.named(ANSWER_STARTS)
    identity = columns.named(("id", "qid", "questionid", "idx", "index"))
    group = columns.group(options, (question, context, answers)) or columns.named(("title",))
    roles = {"question": question, "context": context, "answers": answers, "start": starts, "group": group}
    notes.facts.append(", ".join(f"{what} = {name}" for what, name in roles.items() if name is not None))
    wanted = [name for name in (*roles.values(), identity) if name is not None]
    for line, record in table.records(wanted if names else ()):
        place = Place(notes.path, line)
        try:
            text = checked_text(record.get(context), context, notes.path, line)
            found = None
            if answers is not None and options.labelled:
                if record.get(answers) is None:
                    raise error_at(
                        place, f"the answers are missing (column {answers!r}); a question without any has []"
                    )
                found = _answers(record.get(answers), record.get(starts) if starts else None, text, place)
            yield QuestionExample(
                id=str(line if identity is None else record.get(identity)),
                question=checked_text(record.get(question), question, notes.path, line),
                context=text,
                answers=found,
                group=group_of(record, group),
                place=place,
            )
        except DataError as error:
            notes.bad(error)


def _answers(value: Any, start: Any, context: str, place: Place) -> tuple[Answer, ...]:
    """From {"text": […], "answer_start": […]}, a list of objects, a list of strings, or a string."""
    if isinstance(value, dict):
        texts, starts = value.get("text", []), value.get("answer_start", value.get("start"))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        objects = [item if isinstance(item, dict) else {"text": item} for item in value]
        texts, starts = [item.get("text") for item in objects], [item.get("answer_start") for item in objects]
    else:
        texts, starts = value, start
    texts = texts if isinstance(texts, list) else [] if texts in (None, "") else [texts]
    starts = starts if isinstance(starts, list) else [None if starts == "" else starts] * len(texts)
    if len(texts) != len(starts):
        raise error_at(place, f"has {len(texts)} answers and {len(starts)} starts")
    return tuple(located(text, start, context, place) for text, start in zip(texts, starts, strict=True))


def located(text: Any, start: Any, context: str, place: Place) -> Answer:
    """The answer with its start checked, or found where it is not given."""
    if isinstance(start, str) and start.isdecimal():
        start = int(start)
    if start is None and isinstance(text, str) and text:
        count = context.count(text)
        if count != 1:
            where = "is nowhere in its context" if not count else f"stands {count} times in its context"
            raise error_at(place, f"the answer {text!r:.60} {where}, and no start is given")
        start = context.index(text)
    return checked_answer(text, start, context, place)
