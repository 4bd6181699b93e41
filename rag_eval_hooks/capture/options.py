"""Options that tell capture where to find question, contexts and answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias, TypedDict, TypeVar

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.errors import ConfigError, InputError, check_names, wrong_type
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.sample import Context

Choice: TypeAlias = str | Callable[[Any], Any] | None
"""A key's name, or a function that takes a run's input or output."""


class CaptureKeywords(TypedDict, total=False):
    """Keywords of `RagEval.interaction`. `CaptureOptions` explains each keyword."""

    contexts: Choice
    answer: Choice
    root: str | None
    retrieval_tools: Collection[str] | None
    document_keys: Collection[str] | None
    as_context: Callable[[Any], Any] | None


class HandlerKeywords(CaptureKeywords, total=False):
    question: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a handler or of one request. None means automatic detection.

    If a function raises or returns an unusable value, capture counts the failure and detects the
    value automatically.

    Attributes:
        question: A key of the outermost call's input, or a function that takes the input and
            returns the question.
        contexts: A key of a step's output, or a function that takes the output and returns the
            contexts. If several outputs match, the last output wins.
        answer: A key of the outermost call's output, or a function that takes the output and
            returns the answer.
        root: Name of the runs that are requests. None means the outermost runs.
        retrieval_tools: Names of the tools that return retrieved text.
        document_keys: Keys whose lists are retrieved documents. The lists may be empty, or
            contain texts or mappings.
        as_context: Function that converts an object of the application to a text or a `Context`.
            The function returns None for other objects. Plain dicts of frameworks are not passed.

    Raises:
        ConfigError: An option is invalid.
    """

    question: Choice = None
    contexts: Choice = None
    answer: Choice = None
    root: str | None = None
    retrieval_tools: Collection[str] | None = None
    document_keys: Collection[str] | None = None
    as_context: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("question", "contexts", "answer"):
            value = getattr(self, name)
            if not (value is None or callable(value) or _is_name(value)):
                raise ConfigError(name, value, "the name of a key, or a function")
        if not (self.root is None or _is_name(self.root)):
            raise ConfigError("root", self.root, "the name of a run")
        for name in ("retrieval_tools", "document_keys"):
            value = getattr(self, name)
            if not (value is None or _are_names(value)):
                raise ConfigError(name, value, "a list of names")
        if not (self.as_context is None or callable(self.as_context)):
            raise ConfigError(
                "as_context", self.as_context, "a function that converts an object to its text"
            )

    @classmethod
    def of(cls, owner: str, given: Mapping[str, Any]) -> Self:
        known = [one.name for one in fields(cls)]
        for name in given.keys() - {*known}:
            if name in RagEvalConfig.model_fields:
                raise InputError(f"{owner} has no option {name!r}. Write: RagEval({name}=...).")
        check_names(f"{owner} has no option", given, known)
        return cls(**given)

    def over(self, others: Options) -> Options:
        values = {field.name: getattr(self, field.name) for field in fields(CaptureOptions)}
        return replace(others, **{name: one for name, one in values.items() if one is not None})

    def contexts_of(self, documents: Any) -> tuple[Context, ...]:
        if (read := self.as_context) is None:
            return contexts_of(documents)
        several = documents if isinstance(documents, list | tuple) else [documents]
        own = [None if isinstance(one, str | Context) else converted(read, one) for one in several]
        return contexts_of([one or given for one, given in zip(own, several, strict=True)])


def converted(as_context: Callable[[Any], Any], value: Any) -> Context | None:
    found = as_context(value)
    if found is None or isinstance(found, Context):
        return found
    if isinstance(found, str):
        return Context(text=found) if found else None
    wrong = wrong_type("The result of as_context", "str, Context or None", found)
    raise InputError(wrong.stated + place_of(as_context))


Options = TypeVar("Options", bound=CaptureOptions)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(name, str) for name in value)
