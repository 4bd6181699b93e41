"""The application's texts as span attributes, for those who ask for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.interaction import Run, RunKind
from rag_eval_hooks.redaction.session import Content
from rag_eval_hooks.redaction.truncated import Truncated, join_lines
from rag_eval_hooks.sample import Context

__all__ = ["Attributes", "Contents", "content_of", "plain", "texts"]

Attributes: TypeAlias = dict[str, str | int | float | bool]
Contents: TypeAlias = dict[str, Content]
"""Attributes some of which are yet to be written as JSON: what is in them is redacted before."""


def content_of(run: Run, documents: Sequence[Context], most: int | None) -> Contents:
    """What a run was given and gave.

    Args:
        run: A retrieval or a model call; of other runs nothing is told.
        documents: What a retrieval gave out.
        most: Attributes that its span can take, or None for any number.
    """
    if run.kind is RunKind.RETRIEVER:
        return _retrieval_content(run, documents, most)
    return texts(join_lines(run.prompt), run.text) if run.kind is RunKind.MODEL else {}


def plain(values: Mapping[str, Content]) -> Attributes:
    """The attributes as a span takes them."""
    return {key: _written(value) for key, value in values.items()}


def _written(value: Content) -> str | int | float | bool:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float):
        return value
    return json.dumps(value, default=str)


def texts(given: str | None, gave: str | None) -> Contents:
    """Input and output, as far as they are known."""
    pairs = {semconv.INPUT_VALUE: given, semconv.OUTPUT_VALUE: gave}
    return {key: value for key, value in pairs.items() if value is not None}


def _retrieval_content(run: Run, documents: Sequence[Context], most: int | None) -> Contents:
    content: Contents = {}
    if run.query is not None:
        content[semconv.GEN_AI_RETRIEVAL_QUERY] = content[semconv.INPUT_VALUE] = run.query
    # Phoenix drops the whole list when one document lacks an id or a score.
    if documents and all(d.id is not None and d.score is not None for d in documents):
        content[semconv.GEN_AI_RETRIEVAL_DOCUMENTS] = [
            {"id": d.id, "score": d.score} for d in documents
        ]
    for place, document in enumerate(documents):
        fields = _document(place, document)
        if most is not None and len(content) + len(fields) > most:
            # One attribute more would push out the span's first ones.
            break
        content |= fields
    return content


def _document(place: int, document: Context) -> Contents:
    prefix = f"{semconv.RETRIEVAL_DOCUMENTS}.{place}.document"
    fields: Contents = {f"{prefix}.content": document.text}
    if document.id is not None:
        fields[f"{prefix}.id"] = document.id
    if document.score is not None:
        fields[f"{prefix}.score"] = document.score
    # One that was cut would stand inside of the JSON, where nobody could tell its end.
    told = {k: v for k, v in document.metadata.items() if not isinstance(v, Truncated)}
    if told:
        fields[f"{prefix}.metadata"] = told
    return fields
