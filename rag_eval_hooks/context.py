"""Defines `Context`, and converts other libraries' documents to contexts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from types import MappingProxyType
from typing import Any, Final

from rag_eval_hooks.errors import InputError, check_type, wrong_type

READABLE_MAPPING: Final = (dict, MappingProxyType)

_SCORE_KEYS: Final = ("relevance_score", "score", "similarity_score", "_score")
_HOLD_SCORES: Final = frozenset(_SCORE_KEYS)
_TEXT_KEYS: Final = ("text", "page_content", "content")
_SCALARS: Final = (str, int, float)
_PLAIN: Final = frozenset((*_SCALARS, bool))
_PAIR: Final = 2


@dataclass(frozen=True, slots=True)
class Context:
    """A retrieved chunk, as shown to the answering model.

    Attributes:
        text: The chunk's text.
        id: The document's id in its store, or None if unknown.
        score: Raw score of the retriever or reranker, or None if unknown.
        metadata: The document's metadata values that are texts, numbers or booleans.
    """

    text: str
    _: KW_ONLY
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Checks of abstract types are slow, and capture makes many contexts.
        is_plain = type(self.text) is str and type(self.metadata) is dict
        if is_plain and (self.score is None or type(self.score) is float):
            return
        if not isinstance(self.text, str):
            advice = "To build a Context from a document or a mapping, call Context.of(value)."
            raise wrong_type("text", "str", self.text, advice)
        check_type("score", self.score, (float, Real), "a number")
        check_type("metadata", self.metadata, (dict, Mapping), "a mapping")

    @classmethod
    def of(cls, value: Any) -> Context:
        """Convert a text, LangChain document, LlamaIndex node, mapping or (document, score) pair.

        A mapping needs a text under `text`, `page_content` or `content`. The keys `id`, `score` and
        `metadata` are optional. Any other value raises `InputError`.
        """
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


def contexts_of(values: Any) -> tuple[Context, ...]:
    is_document = hasattr(values, "page_content") or hasattr(values, "get_content")
    if is_document or isinstance(values, str | Context | Mapping):
        return (Context.of(values),)
    kind = type(values)
    # Pydantic objects and tables yield names.
    yields_names = hasattr(kind, "model_fields") or hasattr(kind, "columns")
    if yields_names or not isinstance(values, Iterable):
        raise refusal(values)
    contexts: list[Context] = []
    for value in values:
        try:
            contexts.append(Context.of(value))
        except InputError as error:
            shown = str(error).removeprefix(error.stated).strip()
            raise InputError(f"{error.stated} It is contexts[{len(contexts)}].", shown) from None
    return tuple(contexts)


def scalars(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, (dict, Mapping)):
        return {}
    if _PLAIN.issuperset(map(type, metadata.values())):
        return dict(metadata)
    return {k: v for k, v in metadata.items() if isinstance(v, _SCALARS)}


def score_in(metadata: Mapping[str, Any]) -> float | None:
    if _HOLD_SCORES.isdisjoint(metadata):
        return None
    scores = (_number(metadata[key]) for key in _SCORE_KEYS if key in metadata)
    return next((score for score in scores if score is not None), None)


def _of_mapping(value: Mapping[str, Any]) -> Context:
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    if text is None:
        raise refusal(value)
    metadata = scalars(value.get("metadata"))
    score = _number(value.get("score"))
    if score is None and "text" not in value:
        # Another library's document may have its score in the metadata.
        score = score_in(metadata)
    return _context(text, value.get("id"), score, metadata)


def _context(text: str, found_id: Any, score: float | None, metadata: dict[str, Any]) -> Context:
    own_id = None if found_id is None else str(found_id)
    return Context(text=text, id=own_id, score=score, metadata=metadata)


def _number(value: Any) -> float | None:
    # NumPy numbers, which rerankers return, also have this method.
    if value is not None and hasattr(value, "__float__"):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return float(value)
    return None


def refusal(value: Any) -> InputError:
    advice, shown = "", ""
    if isinstance(value, Mapping):
        advice = f"Put the text under one of the keys {', '.join(map(repr, _TEXT_KEYS))}."
        shown = f"The keys are: {', '.join(map(str, value)) or 'none'}."
    elif isinstance(value, list | tuple):
        advice = "Pass one flat list of documents or (document, score) pairs."
    stated = wrong_type("contexts", "texts or objects with a text", value, advice).stated
    return InputError(stated, shown)
