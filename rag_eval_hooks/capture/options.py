"""Options that tell capture where to find question, contexts and answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias, TypedDict

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, InputError, check_names, wrong_type
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.sample import Context

Choice: TypeAlias = str | Callable[[Any], Any] | None
"""A key's name, or a function that takes a run's input or output."""


class CaptureKeywords(TypedDict, total=False):
    """Keywords of a handler. `CaptureOptions` explains each keyword."""

    question: Choice
    contexts: Choice
    answer: Choice
    root: str | None
    retrieval_tools: Collection[str] | None
    as_context: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a handler. None means automatic detection.

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
        as_context: Function that converts an object of the application to a text or a `Context`.
            The function returns None for other objects. The function never receives plain dicts.

    Raises:
        ConfigError: An option is invalid.
    """

    question: Choice = None
    contexts: Choice = None
    answer: Choice = None
    root: str | None = None
    retrieval_tools: Collection[str] | None = None
    as_context: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("question", "contexts", "answer"):
            value = getattr(self, name)
            if not (value is None or callable(value) or _is_name(value)):
                raise ConfigError(name, value, "the name of a key, or a function")
        if not (self.root is None or _is_name(self.root)):
            raise ConfigError("root", self.root, "the name of a run")
        if not (self.retrieval_tools is None or _are_names(self.retrieval_tools)):
            raise ConfigError("retrieval_tools", self.retrieval_tools, "a list of names")
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


def converted(as_context: Callable[[Any], Any], value: Any) -> Context | None:
    found = as_context(value)
    if found is None or isinstance(found, Context):
        return found
    if isinstance(found, str):
        return Context(text=found) if found else None
    wrong = wrong_type("The result of as_context", "str, Context or None", found)
    raise InputError(wrong.stated + place_of(as_context))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(name, str) for name in value)
