"""Options of the application on where question, contexts and answer are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias, TypedDict, TypeVar

from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.errors import ConfigError, check_names
from rag_eval_hooks.sample import Context

__all__ = ["CaptureKeywords", "CaptureOptions", "Choice", "HandlerKeywords"]

Choice: TypeAlias = str | Callable[[Any], Any] | None
"""The name of a key, or a function from what a run was given or gave."""


class CaptureKeywords(TypedDict, total=False):
    """Keywords of `RagEval.interaction`, as those of `CaptureOptions`."""

    contexts: Choice
    answer: Choice
    root: str | None
    retrieval_tools: Collection[str] | None
    document_keys: Collection[str] | None
    as_context: Callable[[Any], Any] | None


class HandlerKeywords(CaptureKeywords, total=False):
    """Keywords of a framework's handler."""

    question: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a handler, or of one interaction; None leaves the choice to us.

    A function that raises, or gives what cannot be used, is counted, and the automatic choice
    serves.

    Attributes:
        question: In the outermost call's input.
        contexts: In the output of a step; the last such output counts.
        answer: In the outermost call's output.
        root: Name of the call that is an interaction, where it is not the outermost one.
        retrieval_tools: Names of the tools whose text counts, or None for every tool.
        document_keys: Names under which an empty list, or one of texts or mappings, is a retrieval.
        as_context: From an object of the application's own to its text, a `Context`, or None.

    Raises:
        ConfigError: One can never be used.
    """

    question: Choice = None
    contexts: Choice = None
    answer: Choice = None
    root: str | None = None
    retrieval_tools: Collection[str] | None = None
    document_keys: Collection[str] | None = None
    as_context: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        """Refuse values that can never work."""
        for name in ("question", "contexts", "answer"):
            value = getattr(self, name)
            if not (value is None or callable(value) or _is_name(value)):
                raise ConfigError(name, value, "the name of a key, or a callable")
        if not (self.root is None or _is_name(self.root)):
            raise ConfigError("root", self.root, "a run's name")
        for name in ("retrieval_tools", "document_keys"):
            value = getattr(self, name)
            if not (value is None or _are_names(value)):
                raise ConfigError(name, value, "a list of names")
        if not (self.as_context is None or callable(self.as_context)):
            raise ConfigError(
                "as_context", self.as_context, "a function from an object to its text"
            )

    @classmethod
    def of(cls, owner: str, given: Mapping[str, Any]) -> Self:
        """Return the options that the keywords of `owner` give.

        Raises:
            InputError: There is no such option.
            ConfigError: One can never be used.
        """
        check_names(f"{owner} has no option", given, [one.name for one in fields(cls)])
        return cls(**given)

    def over(self, others: Options) -> Options:
        """Return these options, with others where none is given."""
        values = {field.name: getattr(self, field.name) for field in fields(CaptureOptions)}
        return replace(others, **{name: one for name, one in values.items() if one is not None})

    def contexts_of(self, documents: Any) -> tuple[Context, ...]:
        """Return contexts of what the application states, also of objects of its own.

        Raises:
            TypeError: Something is no document.
        """
        if self.as_context is None:
            return contexts_of(documents)
        several = documents if isinstance(documents, list | tuple) else [documents]
        read = ((one, self.as_context(one)) for one in several)
        return contexts_of([one if text is None else text for one, text in read])


Options = TypeVar("Options", bound=CaptureOptions)
"""Options of one framework."""


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(name, str) for name in value)
