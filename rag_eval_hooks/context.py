"""`Context`, and conversion of other libraries' documents to contexts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, Final

from rag_eval_hooks.errors import InputError, check_type, holds, nearest, usage, wrong_type

__all__ = [
    "READABLE_MAPPING",
    "Context",
    "contexts_of",
    "is_readable",
    "refusal",
    "scalars",
    "score_in",
    "search_method",
]

READABLE_MAPPING: Final = (dict, MappingProxyType)
"""Mapping types that are safe to read. Other types may load data or run code."""

_SCORE_KEYS = ("relevance_score", "score", "similarity_score", "_score")
_TEXT_KEYS = ("text", "page_content", "content")
_SCALARS = (str, int, float, bool)
_PAIR = 2
_OF_IDS = (
    " For a mapping of ids to texts, write [{'id': key, 'text': text} for key, text in it.items()]."
)


@dataclass(frozen=True, slots=True)
class Context:
    """One retrieved chunk, as shown to the answering model.

    Attributes:
        text: The chunk's text.
        id: The document's id in its store, or None if unknown.
        score: The retriever's or reranker's score in its own unit, or None if unknown.
        metadata: The document's text, number and boolean metadata.
    """

    text: str
    _: KW_ONLY
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            advice = "To build a Context from a document or a mapping, call Context.of(value)."
            raise wrong_type("text", "str", self.text, advice)
        check_type("score", self.score, Real, "a number")
        check_type("metadata", self.metadata, Mapping, "a mapping")

    @classmethod
    def of(cls, value: Any) -> Context:
        if isinstance(value, Context):
            return value
        if isinstance(value, str):
            return cls(text=value)
        if isinstance(value, Mapping):
            return _of_mapping(value)
        if isinstance(text := getattr(value, "page_content", None), str):
            metadata = scalars(getattr(value, "metadata", None))
            return _context(text, getattr(value, "id", None), score_in(metadata), metadata)
        if callable(read := getattr(value, "get_content", None)):
            node = getattr(value, "node", value)
            score = _number(getattr(value, "score", None))
            metadata = scalars(getattr(node, "metadata", None))
            return _context(read(), getattr(node, "node_id", None), score, metadata)
        if isinstance(value, tuple) and len(value) == _PAIR:
            return replace(cls.of(value[0]), score=_number(value[1]))
        raise refusal(value)


Context.__init__ = usage("Context(text, id='...', score=0.5)")(Context.__init__)  # type: ignore[method-assign]


def contexts_of(values: Any) -> tuple[Context, ...]:
    """Convert documents of any supported type to contexts.

    Args:
        values: One document or a sequence of documents. A document is a text, a `Context`, a
            LangChain document, a LlamaIndex node or `NodeWithScore`, a mapping, or a pair
            (document, score). A mapping has its text under `text`, `page_content` or `content`, and
            optionally `id`, `score` and `metadata`.

    Raises:
        TypeError: A value is not a document.
    """
    if isinstance(values, Mapping):
        return (_of_mapping(values, _OF_IDS),)
    if _is_one(values):
        return (Context.of(values),)
    if not isinstance(values, Iterable) or hasattr(type(values), "model_fields"):
        # An object of pydantic yields its fields.
        raise refusal(values)
    return tuple(_numbered(number, value) for number, value in enumerate(values))


def _numbered(number: int, value: Any) -> Context:
    try:
        return Context.of(value)
    except InputError as error:
        shown = str(error).removeprefix(error.stated).strip()
        raise InputError(f"{error.stated} It is contexts[{number}].", shown) from None


def is_readable(value: Any) -> bool:
    """Return whether a value can be read without consuming an iterator or loading data."""
    readable = (*READABLE_MAPPING, str, Context, list, tuple, set, frozenset)
    return isinstance(value, readable) or (_is_one(value) and not isinstance(value, Mapping))


def scalars(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, Mapping):
        return {}
    return {k: v for k, v in metadata.items() if isinstance(v, _SCALARS)}


def score_in(metadata: Mapping[str, Any]) -> float | None:
    for key in _SCORE_KEYS:
        if key in metadata and (score := _number(metadata[key])) is not None:
            return score
    return None


def _is_one(value: Any) -> bool:
    document = hasattr(value, "page_content") or hasattr(value, "get_content")
    return isinstance(value, str | Context | Mapping) or document


def _of_mapping(value: Mapping[str, Any], advice: str = "") -> Context:
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    if text is None:
        raise refusal(value, advice)
    metadata = scalars(value.get("metadata"))
    score = _number(value.get("score"))
    if score is None and "text" not in value:
        # Another library's document; our own form marks a score.
        score = score_in(metadata)
    return _context(text, value.get("id"), score, metadata)


def _context(text: str, found_id: Any, score: float | None, metadata: dict[str, Any]) -> Context:
    name = None if found_id is None else str(found_id)
    return Context(text=text, id=name, score=score, metadata=metadata)


def _number(value: Any) -> float | None:
    # Rerankers return NumPy numbers, which share only this method with Python's.
    if value is not None and hasattr(value, "__float__"):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return float(value)
    return None


def search_method(value: Any) -> str | None:
    """Return the name of a retriever's search method, or None for other objects."""
    return next(
        (one for one in ("invoke", "retrieve") if callable(getattr(value, one, None))), None
    )


def refusal(value: Any, advice: str = "") -> InputError:
    """Return the error for a value that is not a document. The log form omits mapping keys."""
    stated = wrong_type("contexts", "texts or objects with a text", value).stated
    if not isinstance(value, Mapping):
        return InputError(f"{stated} {_way_to_documents(value)}".rstrip())
    keys = list(map(str, value))
    if named := next((key for key in _TEXT_KEYS if key in value), None):
        stated += f" Its {named!r} must be str, not {type(value[named]).__name__}."
    elif "documents" in value:
        stated += (
            " Pass only its documents, as one flat list: result['documents'], or "
            "result['documents'][0] if that is a list of lists."
        )
    elif meant := next((key for key in _TEXT_KEYS if nearest(key, keys)), None):
        stated += f" One of its keys resembles {meant!r}; rename that key."
    else:
        stated += f" Its text must be under {', '.join(map(repr, _TEXT_KEYS))}.{advice}"
    return InputError(stated, f"It has {', '.join(keys) or 'no keys'}.")


def _way_to_documents(value: Any) -> str:
    if search := search_method(value):
        return f"Pass its documents: retriever.{search}(question)."
    if holds(value, "source_nodes"):
        return "Pass its nodes: response.source_nodes."
    if holds(value, "iloc"):
        return "Pass a column: table['text'].tolist()."
    if isinstance(value, list | tuple):
        return "Pass one flat list, not a list of lists."
    return "In a pair the document is first: (document, score)." * isinstance(value, Real)
