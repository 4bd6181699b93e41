"""Choices that the application makes itself, in place of the automatic ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeAlias

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain import question_answer as values
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.structured import entries

__all__ = ["Choice", "Choices", "class_name", "name_or_none", "names", "users_tags"]

Choice: TypeAlias = str | Callable[[Any], Any] | None
"""The name of a key, or a function from what a run was given or gave."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Choice of question, contexts or answer; None leaves it to us.

    A function that raises, or gives what cannot be used, is counted, and the automatic choice
    serves.

    Attributes:
        question: Of the root's input.
        contexts: As a key, of any step's output, the last one that has it; as a function, of the
            root's output.
        answer: Of the root's output.

    Raises:
        ConfigError: One is neither the name of a key nor callable.
    """

    question: Choice = None
    contexts: Choice = None
    answer: Choice = None

    def __post_init__(self) -> None:
        """Refuse values that can never work."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or callable(value) or (isinstance(value, str) and value):
                continue
            raise ConfigError(field.name, value, "the name of a key, or a callable")

    def question_in(self, inputs: Any, incidents: Incidents) -> str | None:
        """Return the user's question in a root's input."""
        return _text("question", self.question, inputs, values.question_of, incidents)

    def asked_in(self, state: Any) -> str | None:
        """Return the user's question in a state, if the root's input does not hold it."""
        key = self.question if isinstance(self.question, str) else None
        found = None if key is None else values.named(state, key, values.question_of)
        return values.asked_in(state) if found is None else found

    def answer_in(self, outputs: Any, incidents: Incidents, given: Any = None) -> str | None:
        """Return the answer in the output of a root."""
        if isinstance(self.answer, str):
            chosen = values.named(outputs, self.answer, values.named_answer)
            if chosen is not None:
                return chosen
        choice = None if isinstance(self.answer, str) else self.answer
        read = partial(values.answer_of, given=given)
        return _text("answer", choice, outputs, read, incidents)

    def other_answers(self, outputs: Any, given: Any, answer: str | None) -> tuple[str, ...]:
        """Return texts that may be the answer instead; none if the application chose one."""
        chosen = answer and self.answer is not None
        return () if chosen else values.other_answers(outputs, given, answer)

    def contexts_in(
        self, outputs: Any, documents: Documents, incidents: Incidents, *, root: bool
    ) -> tuple[Context, ...] | None:
        """Return the contexts in an output that the application chose; None without a choice."""
        if self.contexts is None:
            return None
        if isinstance(self.contexts, str):
            chosen = (entries(outputs) or {}).get(self.contexts)
        else:
            chosen = _called("contexts", self.contexts, outputs, incidents) if root else None
        if chosen is None:
            return None
        contexts = documents.typed(chosen)
        if contexts is None:
            incidents.report("choice contexts", TypeError())
        return contexts


def _text(
    name: str,
    choice: Choice,
    value: Any,
    read: Callable[[Any], str | None],
    incidents: Incidents,
) -> str | None:
    if choice is None:
        return read(value)
    if isinstance(choice, str):
        found = values.named(value, choice, read)
    else:
        found = _called(name, choice, value, incidents)
        if found is not None and not isinstance(found, str):
            incidents.report(f"choice {name}", TypeError())
            found = None
    return read(value) if found is None else found


def _called(name: str, choice: Callable[[Any], Any], value: Any, incidents: Incidents) -> Any:
    try:
        return choice(value)
    except Exception as error:  # noqa: BLE001 - the host's edge: a function of its own
        incidents.report(f"choice {name}", error)
        return None


def class_name(serialized: Mapping[str, Any] | None) -> str | None:
    """Return the name of a tool, or the class behind a run that has no name of its own."""
    described = serialized or {}
    path = described.get("id")
    name = path[-1] if path else described.get("name")
    return None if name is None else str(name)


_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
"""Tags that LangChain and LangGraph give their steps."""


def users_tags(tags: Sequence[str]) -> list[str]:
    """Return the tags that the application gave."""
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]


def name_or_none(field: str, value: Any) -> str | None:
    """Return the name that an argument gives, or None.

    Raises:
        ConfigError: It is neither.
    """
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(field, value, "a run's name")
    return None if value is None else str(value)


def names(field: str, value: Any) -> frozenset[str]:
    """Return the names that an argument gives.

    Raises:
        ConfigError: It is no collection of names; one text is none.
    """
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ConfigError(field, value, "a list of names")
    if not all(isinstance(name, str) for name in value):
        raise ConfigError(field, value, "a list of names")
    return frozenset(value)
