"""Choices that the application makes itself, in place of the automatic ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rag_eval_hooks.capture import Choice
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain import question_answer as values
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.structured import entries

__all__ = ["Choices", "class_name", "users_tags"]


@dataclass(frozen=True, slots=True)
class Choices:
    """Choice of question, contexts or answer; None leaves it to us.

    A function that raises, or gives what cannot be used, is counted, and the automatic choice
    serves.

    Attributes:
        question: Of the root's input, or of the state of a graph that goes on.
        contexts: Of any step's output, the last one that has them.
        answer: Of the root's output.
    """

    question: Choice = None
    contexts: Choice = None
    answer: Choice = None

    def call(self, name: str, value: Any) -> Any:
        """Return what a function of the application gives for a value, or how it failed.

        It is called on the request's thread: it gets the application's own objects.
        """
        choice = getattr(self, name)
        if not callable(choice):
            return None
        try:
            return choice(value)
        except Exception as error:  # noqa: BLE001 - the host's edge: a function of its own
            return _Failed(error)

    def question_in(self, inputs: Any, incidents: Incidents, called: Any = None) -> str | None:
        """Return the user's question in a root's input."""
        return _text("question", self.question, inputs, values.question_of, incidents, called)

    def asked_in(self, state: Any, called: Any = None) -> str | None:
        """Return the user's question in a state, if the root's input does not hold it."""
        found = called
        if not callable(self.question):
            found = values.named(state, self.question or "", values.question_of)
        return found if isinstance(found, str) else values.asked_in(state)

    def answer_in(
        self,
        outputs: Any,
        incidents: Incidents,
        given: Any = None,
        said: Callable[[str], bool] = lambda _: False,
        called: Any = None,
    ) -> str | None:
        """Return the answer in the output of a root."""
        if isinstance(self.answer, str):
            chosen = values.named(outputs, self.answer, values.named_answer)
            if chosen is not None:
                return chosen
        choice = None if isinstance(self.answer, str) else self.answer
        read = partial(values.answer_of, given=given, said=said)
        return _text("answer", choice, outputs, read, incidents, called)

    def other_answers(self, outputs: Any, given: Any, answer: str | None) -> tuple[str, ...]:
        """Return texts that may be the answer instead; none if the application chose one."""
        chosen = answer and self.answer is not None
        return () if chosen else values.other_answers(outputs, given, answer)

    def contexts_in(
        self, outputs: Any, documents: Documents, incidents: Incidents | None, called: Any = None
    ) -> tuple[Context, ...] | None:
        """Return the contexts in an output that the application chose; None without a choice.

        Args:
            outputs: Of any step.
            documents: Reads what was chosen.
            incidents: Counts a function that fails; None where it need not fit.
            called: A copy of what the function gave.
        """
        if callable(self.contexts):
            chosen = _result("contexts", called, incidents)
        else:
            chosen = (entries(outputs) or {}).get(self.contexts or "")
        contexts = None if chosen is None else documents.typed(chosen)
        if chosen is not None and contexts is None and incidents is not None:
            incidents.report("choice contexts", TypeError())
        return contexts


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


def _result(name: str, called: Any, incidents: Incidents | None) -> Any:
    if not isinstance(called, _Failed):
        return called
    if incidents is not None:
        incidents.report(f"choice {name}", called.error)
    return None


def _text(
    name: str,
    choice: Choice,
    value: Any,
    read: Callable[[Any], str | None],
    incidents: Incidents,
    called: Any,
) -> str | None:
    if choice is None:
        return read(value)
    if isinstance(choice, str):
        found = values.named(value, choice, read)
    else:
        found = _result(name, called, incidents)
        if found is not None and not isinstance(found, str):
            incidents.report(f"choice {name}", TypeError())
            found = None
    return read(value) if found is None else found


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
