"""Selection of the model calls that made the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rag_eval_hooks.capture.contexts.text_forms import fold, forms, is_telling, least_shown
from rag_eval_hooks.capture.interaction import Interaction, Run, RunKind

__all__ = ["grounding_prompts"]

_PREFIX = 160
"""Characters of an output that must stand in a prompt: what quotes it may cut its end."""
_MOST = 200
"""Calls among which quoted ones are looked for: the last ones."""


def grounding_prompts(interaction: Interaction, answer: str | None) -> list[str]:
    """Return the prompts of the answering calls and of those that fed them, in order."""
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL and run.prompt]
    calls = [run for run in calls if not run.within(RunKind.RETRIEVER)]
    prompts = {run: fold("\n".join(run.prompt)) for run in calls}
    statements = _Statements(interaction, prompts)
    answering = _answering_calls(calls, fold(answer or ""), statements)
    return [prompts[run] for run in _grounding(calls, answering, prompts)]


def _grounding(
    calls: Sequence[Run], answering: Sequence[Run], prompts: Mapping[Run, str]
) -> list[Run]:
    """Return the answering calls, each after those that it quotes.

    Calls that ran side by side stand in the order in which they are quoted.
    """
    outputs = {call: fold(call.text or "")[:_PREFIX] for call in calls[-_MOST:]}
    grounding: dict[Run, None] = {}
    waiting = [(call, False) for call in reversed(answering)]
    visited = set(answering)
    while waiting:
        call, done = waiting.pop()
        if done:
            grounding[call] = None
            continue
        waiting.append((call, True))
        quoted = _quoted(prompts[call], {c: o for c, o in outputs.items() if c not in visited})
        visited.update(quoted)
        waiting.extend((other, False) for other in reversed(quoted))
    return list(grounding)


def _quoted(prompt: str, outputs: Mapping[Run, str]) -> list[Run]:
    places = {
        call: place
        for call, output in outputs.items()
        if is_telling(output) and (place := prompt.find(output)) >= 0
    }
    return sorted(places, key=places.__getitem__)


class _Statements:
    """Recognises calls that were given retrieved text."""

    def __init__(self, interaction: Interaction, prompts: Mapping[Run, str]) -> None:
        self._lists = interaction.lists
        self._prompts = prompts

    def last(self, calls: Sequence[Run], answer: str) -> Run:
        """Return the last of calls that gave an answer, preferring those with retrieved text.

        A grader may say the same short word about the answer, without any of the documents.
        """
        if is_telling(answer) or len(calls) == 1:
            return calls[-1]
        return next((call for call in reversed(calls) if self._was(call)), calls[-1])

    def _was(self, call: Run) -> bool:
        prompt = self._prompts[call]
        texts = {context.text for found in self._lists for context in found.contexts}
        return any(
            form[: least_shown(form)] in prompt
            for text in texts
            if is_telling(fold(text))
            for form in forms(text)
        )


def _answering_calls(calls: Sequence[Run], answer: str, statements: _Statements) -> list[Run]:
    """Return the call that gave the answer, or those that it is made of; else the last.

    Of calls that gave the same the last count, as many as the answer says it: the others were
    tries.
    """
    outputs = {call: fold(call.text or "") or _picked(call) for call in calls}
    if answer:
        whole = [call for call, output in outputs.items() if answer in output]
        equal = [call for call in whole if outputs[call] == answer]
        if whole:
            return [statements.last(equal or whole, answer)]
        # A short output such as a grader's stands in many answers by chance.
        parts: dict[str, list[Run]] = {}
        for call, output in outputs.items():
            if is_telling(output) and output in answer:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    spoke = [call for call in calls if call.text]
    return spoke[-1:] or list(calls[-1:])


def _picked(call: Run) -> str:
    """Return the arguments of tool calls, by which a model gives structured output."""
    try:
        return (
            fold(json.dumps(list(call.tool_arguments), ensure_ascii=False))
            if call.tool_arguments
            else ""
        )
    except (TypeError, ValueError, RecursionError):
        return ""
