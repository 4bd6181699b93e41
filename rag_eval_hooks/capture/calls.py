"""Which model calls made the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rag_eval_hooks.capture.run import Interaction, Run, RunKind

__all__ = ["PREFIX", "TELLING", "fold", "grounding_prompts"]

PREFIX = 160
"""Characters of a text that must stand in the prompt: formatters cut the ends of texts."""
TELLING = 20
"""Characters below which a text may stand in a prompt by chance."""

_MOST = 200
"""Calls among which quoted ones are looked for: the last ones."""


def grounding_prompts(interaction: Interaction, answer: str | None) -> list[str]:
    """The prompts of the answering calls and of those whose output went into them, in order."""
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL and run.prompt]
    calls = [run for run in calls if not run.within(RunKind.RETRIEVER)]
    answering = _answering_calls(calls, fold(answer or ""))
    prompts = {run: fold(" ".join(run.prompt)) for run in calls}
    return [prompts[run] for run in _grounding(calls, answering, prompts)]


def _grounding(
    calls: Sequence[Run], answering: Sequence[Run], prompts: Mapping[Run, str]
) -> list[Run]:
    """The answering calls after those that they quote, each of these after those that it quotes.

    Calls that ran side by side stand in the order in which they are quoted.
    """
    outputs = {call: fold(call.text or "")[:PREFIX] for call in calls[-_MOST:]}
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
        if len(output) >= TELLING and (place := prompt.find(output)) >= 0
    }
    return sorted(places, key=places.__getitem__)


def _answering_calls(calls: Sequence[Run], answer: str) -> list[Run]:
    """The call that gave the answer, or those whose outputs it is made of; else the last.

    Of calls that gave the same the last count, as many as the answer says it: the others were
    tries.
    """
    outputs = {call: fold(call.text or "") or _picked(call) for call in calls}
    if answer:
        whole = [call for call, output in outputs.items() if answer in output]
        equal = [call for call in whole if outputs[call] == answer]
        if whole:
            return [(equal or whole)[-1]]
        # A short output such as a grader's stands in many answers by chance.
        parts: dict[str, list[Run]] = {}
        for call, output in outputs.items():
            if len(output) >= TELLING and output in answer:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    told = [call for call in calls if call.text]
    return told[-1:] or list(calls[-1:])


def _picked(call: Run) -> str:
    """The arguments of tool calls: with them a model gives structured output."""
    try:
        return fold(json.dumps(list(call.picks), ensure_ascii=False)) if call.picks else ""
    except (TypeError, ValueError, RecursionError):
        return ""


def fold(text: str) -> str:
    """The text with each stretch of white space as one blank."""
    return " ".join(text.split())
