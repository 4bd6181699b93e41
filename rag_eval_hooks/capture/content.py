"""The application's texts as span attributes, for those who ask for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.messages import model_messages, tool_content
from rag_eval_hooks.capture.records import Run, RunKind
from rag_eval_hooks.context import READABLE_MAPPING
from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.redaction.redactor import STRUCTURE, Content, CutText
from rag_eval_hooks.sample import Context

__all__ = ["Attributes", "Contents", "content_of", "marked", "plain", "texts"]

Attributes: TypeAlias = dict[str, str | int | float | bool]
Contents: TypeAlias = dict[str, Content]
"""Attributes some of which are yet to be written as JSON: their parts are redacted before."""
_CUT: Final = " [...]"


def content_of(run: Run, documents: Sequence[Context], most: int | None) -> Contents:
    """Return the input and the output of a run as span attributes.

    Args:
        run: A retrieval, a model call or a tool call; other runs have none.
        documents: Output of a retrieval.
        most: Attributes that its span can take, or None for any number.
    """
    cut_texts = run.interaction.cut_texts
    if run.kind is RunKind.RETRIEVER:
        return _retrieval_content(run, documents, most, cut_texts)
    if run.kind is RunKind.MODEL:
        joined = texts(_joined(run.prompt, cut_texts), marked(run.text, cut_texts))
        return {**model_messages(run), **joined}
    return tool_content(run) if run.kind is RunKind.TOOL else {}


def marked(text: str | None, cut_texts: Set[str]) -> str | CutText | None:
    """Return a text so that its redaction knows whether it was cut."""
    return CutText(text) if text is not None and text in cut_texts else text


def plain(values: Mapping[str, Content], longest: int) -> Attributes:
    """Return attributes as a span takes them: texts and JSON of at most `longest` characters."""
    return {key: _written(value, longest) for key, value in values.items()}


def _written(value: Content, longest: int) -> str | int | float | bool:
    value = value.text if isinstance(value, CutText) else value
    if isinstance(value, str):
        return _shortened(value, longest)
    if isinstance(value, int | float):
        return value
    # Ever shorter texts, then without the first items, so that it is JSON at any length.
    each = longest
    while len(written := _json(value, each)) > longest and each:
        each //= 2
    while len(written) > longest and isinstance(value, list) and value:
        value = value[len(value) // 2 + 1 :]
        written = _json(value, each)
    return written if len(written) <= longest else "[]"


def _json(value: Any, longest: int) -> str:
    return json.dumps(_with_short_texts(value, longest), ensure_ascii=False)


def _with_short_texts(value: Any, longest: int) -> Any:
    if isinstance(value, READABLE_MAPPING):
        return {
            # What kind of message it is stays whole.
            str(key): item if key in STRUCTURE else _with_short_texts(item, longest)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_short_texts(item, longest) for item in value]
    if value is None or isinstance(value, int | float):
        return value
    return _shortened(value.text if isinstance(value, CutText) else str(value), longest)


def _shortened(text: str, longest: int) -> str:
    text = encodable(text)
    return text if len(text) <= longest else text[: max(0, longest - len(_CUT))] + _CUT[:longest]


def texts(given: str | CutText | None, gave: str | CutText | None) -> Contents:
    """Return input and output as attributes, as far as they are known."""
    pairs = {semconv.INPUT_VALUE: given, semconv.OUTPUT_VALUE: gave}
    return {key: value for key, value in pairs.items() if value is not None}


def _joined(prompt: Sequence[str], cut_texts: Set[str]) -> str | CutText:
    """Join texts by line breaks, up to and including the first that was cut."""
    for index, text in enumerate(prompt):
        if text in cut_texts:
            return CutText("\n".join(prompt[: index + 1]))
    return "\n".join(prompt)


def _retrieval_content(
    run: Run, documents: Sequence[Context], most: int | None, cut_texts: Set[str]
) -> Contents:
    content: Contents = {}
    query = marked(run.query, cut_texts)
    if query is not None:
        content[semconv.GEN_AI_RETRIEVAL_QUERY] = content[semconv.INPUT_VALUE] = query
    # Phoenix drops the whole list when one document lacks an id or a score.
    if documents and all(d.id is not None and d.score is not None for d in documents):
        content[semconv.GEN_AI_RETRIEVAL_DOCUMENTS] = [
            {"id": d.id, "score": d.score} for d in documents
        ]
    for index, document in enumerate(documents):
        fields = _document(index, document, cut_texts)
        if most is not None and len(content) + len(fields) > most:
            # One attribute more would push out the span's first ones.
            break
        content |= fields
    return content


def _document(index: int, document: Context, cut_texts: Set[str]) -> Contents:
    prefix = f"{semconv.RETRIEVAL_DOCUMENTS}.{index}.document"
    fields: Contents = {f"{prefix}.content": marked(document.text, cut_texts) or ""}
    if document.id is not None:
        fields[f"{prefix}.id"] = document.id
    if document.score is not None:
        fields[f"{prefix}.score"] = document.score
    # A cut text would stand inside of the JSON, where its end cannot be removed.
    whole = {
        key: value
        for key, value in document.metadata.items()
        if not (isinstance(value, str) and value in cut_texts)
    }
    if whole:
        fields[f"{prefix}.metadata"] = whole
    return fields
