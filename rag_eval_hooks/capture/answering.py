"""Selects the model calls that produced the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.capture.rows import texts_in
from rag_eval_hooks.capture.text_forms import contains_word, fold, is_distinctive

__all__ = ["answering_calls"]

_PREFIX = 160
"""A prompt quotes an output if the prompt contains this many leading characters of the output."""
_MAX_CALLS = 200
"""Maximum number of recent model calls whose outputs are searched for in later prompts."""
_MIN_OUTPUT = 3


@dataclass(frozen=True, slots=True)
class AnsweringCalls:
    # Prompts of the answering calls, then prompts of the quoted calls.
    calls: Sequence[Run]
    prompts: Sequence[str]
    # The same prompts without model texts of earlier turns.
    fresh: Sequence[str]
    # Prompts of all other successful calls outside retrievers and rerankers.
    others: Sequence[str]


def answering_calls(
    interaction: Interaction, answer: str, retrieved: Sequence[str]
) -> AnsweringCalls:
    """Return the calls that produced the answer, and the calls whose outputs they quote, in order.

    `retrieved` contains texts normalized by `fold`.
    """
    calls = [r for r in interaction.runs if r.kind is RunKind.MODEL and r.prompt]
    calls = [r for r in calls if not (r.within(RunKind.RETRIEVER) or r.within(RunKind.RERANKER))]
    folded = {text: fold(text) for text in {text for run in calls for text in run.prompt}}
    prompts = {run: " ".join([folded[text] for text in run.prompt]) for run in calls}
    distinctive = [text for text in retrieved if is_distinctive(text)]
    answering = _last_calls(fold(answer), prompts)
    made = _Quotes(prompts, distinctive).calls_behind(answering)
    fresh = [
        " ".join([folded[text] for n, text in enumerate(run.prompt) if n not in run.earlier])
        for run in made
    ]
    others = [p for run, p in prompts.items() if run not in made and run.error_type is None]
    return AnsweringCalls(made, [prompts[run] for run in made], fresh, others)


class _Quotes:
    def __init__(self, prompts: Mapping[Run, str], retrieved: Sequence[str]) -> None:
        self._prompts = prompts
        self._retrieved = retrieved
        self._bare: dict[Run, str] = {}
        self._outputs = {call: _outputs(call) for call in list(prompts)[-_MAX_CALLS:]}

    def calls_behind(self, answering: Sequence[Run]) -> list[Run]:
        """Return the answering calls and, recursively, the calls whose outputs they quote.

        Calls of one synthesizer or one batch always belong together.
        """
        made = self._with_siblings(answering)
        waiting = list(made)
        while waiting:
            call = waiting.pop(0)
            for one in self._with_siblings(self._quoted_by(call)):
                if one not in made:
                    # A refined answer comes before its refinement.
                    made.insert(made.index(call) if _are_alike(one, call) else len(made), one)
                    waiting.append(one)
        return made

    def _with_siblings(self, calls: Sequence[Run]) -> list[Run]:
        families = {family for call in calls for family in _families(call)}
        more = {call for call in self._prompts if not families.isdisjoint(_families(call))}
        if more.issubset(calls):
            return list(calls)
        return [call for call in self._prompts if call in calls or call in more]

    def _quoted_by(self, reader: Run) -> list[Run]:
        places = {
            call: min(at)
            for call, outputs in self._outputs.items()
            if call is not reader
            and (at := [n for said in outputs if (n := self._place(said, call, reader)) >= 0])
        }
        return sorted(places, key=places.__getitem__)

    def _place(self, said: str, call: Run, reader: Run) -> int:
        """Return the position at which a prompt quotes an output, or -1.

        Words in the call's own instructions, such as a fixed refusal, are not quotes. A short
        answer from a document also appears in its call's prompt.
        """
        prompt = self._prompts[reader]
        if is_distinctive(said):
            said = said[:_PREFIX]
            place = prompt.find(said)
        else:
            # Cheap, because most prompts do not contain it.
            place = contains_word(self._bare_prompt(reader), said) if said in prompt else -1
        is_own = place >= 0 and said in self._prompts[call] and said in self._bare_prompt(call)
        return -1 if is_own else place

    def _bare_prompt(self, call: Run) -> str:
        if call not in self._bare:
            self._bare[call] = _without(self._prompts[call], self._retrieved)
        return self._bare[call]


def _families(call: Run) -> Iterator[object]:
    for outer in call.ancestors():
        if outer.joins:
            yield outer
        if outer.batch is not None:
            yield outer.parent, outer.batch


def _are_alike(one: Run, other: Run) -> bool:
    if one.name != other.name or one.parent is None or other.parent is None:
        return False
    outer, others = one.parent, other.parent
    return outer is others or (outer.name == others.name and outer.parent is others.parent)


def _outputs(call: Run) -> list[str]:
    texts = map(fold, texts_in(call.text or ""))
    return [
        text
        for place, text in enumerate(texts)
        if (is_distinctive(text) if place else _can_be_quoted(text))
    ]


def _can_be_quoted(text: str) -> bool:
    return any(map(str.isalpha, text)) and len(text) + (not text.isascii()) >= _MIN_OUTPUT


def _without(text: str, parts: Sequence[str]) -> str:
    for part in parts:
        text = text.replace(part, " ")
    return text


def _last_calls(answer: str, prompts: Mapping[Run, str]) -> list[Run]:
    """Return the calls whose text is the answer or a part of the answer, else the last call.

    Failed attempts may have given the same reply. If the answer repeats a reply n times, return the
    last n calls with this reply.
    """
    outputs = {call: fold(call.text or "") for call in prompts}
    if answer:
        whole = [call for call, output in outputs.items() if answer in output]
        whole = [call for call in whole if outputs[call] == answer] or whole
        if whole:
            return whole[-1:]
        parts: dict[str, list[Run]] = {}
        made_of = _parts_of(answer, set(outputs.values()))
        for call, output in outputs.items():
            if output in made_of:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    spoke = [call for call in prompts if call.text]
    return spoke[-1:] or list(prompts)[-1:]


def _parts_of(answer: str, outputs: Set[str]) -> Set[str]:
    long = {output for output in outputs if is_distinctive(output) and output in answer}
    rest = _without(answer, sorted(long, key=len, reverse=True)).strip()
    sayable = {output for output in outputs - long if _can_be_quoted(output)}
    short = {output for output in sayable if contains_word(rest, output) >= 0}
    left = _without(rest, sorted(short, key=len, reverse=True)).strip()
    return long | short if short and 2 * len(left) <= len(rest) else long
