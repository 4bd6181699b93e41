"""Reads a handler's options and a request's metadata, and reports options without effect."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Self, TypeAlias, TypedDict
from uuid import UUID

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, InputError, check_names, nearest, unknown, wrong_type
from rag_eval_hooks.incidents import Incidents, place_of
from rag_eval_hooks.sample import Context

_MOST_NAMES = 20
# By framework: its name, the other framework, and a module of the other framework.
_FRAMEWORKS = {
    "langchain": ("LangChain", "llama_index", "llama_index.core"),
    "llama_index": ("LlamaIndex", "langchain", "langchain_core"),
}

SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_THREAD_KEYS = ("thread_id", "checkpoint_ns", "assistant_id")
_TEXT_KEYS = (*SESSION_KEYS, "user_id", "question_id", "reference")
OWN_KEYS = (*_TEXT_KEYS, "reference_ids")

Choice: TypeAlias = str | Callable[[Any], Any] | None
"""A key's name, or a function that takes a run's input or output."""


class CaptureKeywords(TypedDict, total=False):
    """Keyword arguments of a handler. `CaptureOptions` explains each keyword."""

    question: Choice
    contexts: Choice
    answer: Choice
    root: str | None
    retrieval_tools: Collection[str] | None
    as_context: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Options of a handler: where capture finds the parts of a request.

    If an option is None, capture decides automatically. If an option's function raises or returns
    an unusable value, capture counts the failure, and then decides automatically.

    Attributes:
        question: A key of the outermost call's input, or a function that takes the input and
            returns the question.
        contexts: A key of a step's output, or a function that takes the output and returns the
            contexts. If several outputs match, the last output wins.
        answer: A key of the outermost call's output, or a function that takes the output and
            returns the answer.
        root: Name of the runs that capture records as requests. None means the outermost runs.
        retrieval_tools: Names of the tools that return retrieved text.
        as_context: Function that converts an object of the application to a text or a `Context`.
            For an object without retrieved text, the function returns None. Capture never passes
            a plain dict to the function.

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


def text_of(metadata: Mapping[str, Any], *keys: str) -> str | None:
    value = next((metadata[key] for key in keys if metadata.get(key) is not None), None)
    return value if value is None or isinstance(value, str) else str(value)


def thread_of(name: str, metadata: Mapping[str, Any]) -> str | None:
    if metadata.get("thread_id") is None:
        return None
    return "/".join([name, *(str(metadata.get(key) or "") for key in _THREAD_KEYS)])


def objects_in(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: f"metadata[{key!r}] must be a text, int or UUID, not {type(metadata[key]).__name__}"
        for key in _TEXT_KEYS
        if not isinstance(metadata.get(key), str | int | UUID | None)
    }


def own_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in OWN_KEYS if values.get(key) is not None}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_names(value: Any) -> bool:
    several = isinstance(value, Collection) and not isinstance(value, str)
    return several and all(isinstance(name, str) for name in value)


class Unmatched:
    """Reports handlers that receive no run, and options that name an unknown run, tool or key."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        # Observed names, by message, expected names and place. None after a match.
        self._names: dict[tuple[str, tuple[str, ...], str], dict[str, None] | None] = {}
        # Whether a run reached a handler, by the handler's place.
        self.handlers: dict[str, bool] = {}
        # Framework by the place of its `enable`.
        self.enabled: dict[str, str] = {}

    def is_named(
        self, told: str, wanted: Collection[str], names: Collection[str], place: str
    ) -> bool:
        seen = self._names.setdefault(key := (told, tuple(wanted), place), {})
        if is_met := any(name in wanted for name in names):
            self._names[key] = None
        elif seen is not None:
            seen |= dict.fromkeys(islice(names, max(0, _MOST_NAMES - len(seen))))
        return is_met

    def enable(self, framework: str, place: str, before: Unmatched | None) -> None:
        if before is not None and before is not self:
            advice = "Pass the same RagEval to all calls of enable()"
            self._incidents.mistake("enable() replaces the RagEval of an earlier call", advice)
            before.enabled.clear()
        self.enabled[place] = framework

    def report(self) -> None:
        for (told, wanted, place), seen in list(self._names.items()):
            if seen:
                meant = next((one for one in wanted if nearest(one, [*seen])), *wanted[:1])
                self._incidents.count(unknown(told, meant, [*seen]), detail=place)
        is_idle = not any(self.handlers.values())
        for place, framework in list(self.enabled.items()):
            name, other, module = _FRAMEWORKS[framework]
            if is_idle and module in sys.modules:
                told = f"rag_eval_hooks_{framework}.enable() captured no call of {name}. For "
                told += f"{_FRAMEWORKS[other][0]}, write: from rag_eval_hooks_{other} import enable"
                self._incidents.count(told, detail=f"at {place}")

    def report_unreached(self) -> None:
        for place in [place for place, is_reached in self.handlers.items() if not is_reached]:
            told = f"No run reached the handler created at {place}. Before evals.shutdown(), "
            self._incidents.count(told + 'call the chain with config={"callbacks": [handler]}')
        self.handlers.clear()
