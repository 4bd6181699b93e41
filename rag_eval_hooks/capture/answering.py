"""Selection of the model calls that made the answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.replies import json_in, texts_in
from rag_eval_hooks.capture.text_forms import contains_word, fold, is_distinctive

__all__ = ["AnsweringCalls", "answering_calls"]

_PREFIX = 160
"""Characters of an output that must stand in a prompt: a quotation may be cut."""
_MAX_CALLS = 200
"""Last calls among which quoted ones are looked for."""
_MIN_OUTPUT = 3
"""Width of the shortest output that can be quoted."""


@dataclass(frozen=True, slots=True)
class AnsweringCalls:
    """Folded prompts of the model calls that made an answer.

    Attributes:
        calls: The answering calls, then those whose outputs they quote.
        prompts: Their prompts.
        fresh: The same without what a model said in earlier turns.
        others: Prompts of all other calls that did not fail, outside retrievers and rerankers.
    """

    calls: Sequence[Run]
    prompts: Sequence[str]
    fresh: Sequence[str]
    others: Sequence[str]


def answering_calls(
    interaction: Interaction, answer: str, retrieved: Sequence[str], documents: Collection[str]
) -> AnsweringCalls:
    """Return the calls that made the answer and those that fed them, in order.

    Args:
        interaction: An ended one.
        answer: What the user got.
        retrieved: Folded texts that were retrieved.
        documents: Those of them that are documents.
    """
    engines = {found.run for found in interaction.lists_of(Origin.SOURCES)}
    calls = [
        run
        for run in interaction.runs
        if run.kind is RunKind.MODEL and run.prompt and not _is_part_of_retrieval(run, engines)
    ]
    folded = {text: fold(text) for run in calls for text in run.prompt}
    prompts = {run: " ".join([folded[text] for text in run.prompt]) for run in calls}
    distinctive = [text for text in retrieved if is_distinctive(text)]
    answering = _last_calls(calls, fold(answer), prompts, distinctive)
    made = _Quotes(prompts, distinctive, documents).calls_behind(answering)
    fresh = [
        " ".join([folded[text] for n, text in enumerate(run.prompt) if n not in run.earlier])
        for run in made
    ]
    others = [p for run, p in prompts.items() if run not in made and run.error_type is None]
    return AnsweringCalls(made, [prompts[run] for run in made], fresh, others)


def _is_part_of_retrieval(run: Run, engines: Set[Run]) -> bool:
    """Return whether a call is part of a retrieval, such as a compressor's.

    A call by which an engine within a retriever answers is not: its documents were read.
    """
    for outer in run.ancestors():
        if outer in engines or outer.kind in (RunKind.RETRIEVER, RunKind.RERANKER):
            return outer not in engines
    return False


class _Quotes:
    """Calls whose outputs stand in the prompts of others."""

    def __init__(
        self, prompts: Mapping[Run, str], retrieved: Sequence[str], documents: Collection[str]
    ) -> None:
        self._prompts = prompts
        self._retrieved = retrieved
        self._documents = documents
        self._bare: dict[Run, str] = {}
        self._outputs = {call: _outputs(call) for call in list(prompts)[-_MAX_CALLS:]}

    def calls_behind(self, answering: Sequence[Run]) -> list[Run]:
        """Return the answering calls, then those that they quote, and so on."""
        synthesizers = {one for call in answering for one in call.ancestors() if one.joins}
        beside = [c for c in self._prompts if not synthesizers.isdisjoint(c.ancestors())]
        made = self._together(answering, beside)
        waiting = list(made)
        while waiting:
            call = waiting.pop(0)
            quoted = self._quoted_by(call)
            for one in self._together(quoted, self._siblings(quoted)):
                if one not in made:
                    # A refined answer comes before the one that refines it.
                    made.insert(made.index(call) if _are_alike(one, call) else len(made), one)
                    waiting.append(one)
        return made

    def _siblings(self, calls: Sequence[Run]) -> list[Run]:
        families = {family for call in calls for family in _families(call)}
        return [
            c
            for c in self._prompts
            if not families.isdisjoint(_families(c)) or any(_is_beside(c, one) for one in calls)
        ]

    def _together(self, calls: Sequence[Run], more: Sequence[Run]) -> list[Run]:
        """Return calls and more of them in order of start, if there are more."""
        if set(more).issubset(calls):
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
        """Return where a prompt quotes an output, or -1.

        Words of the call's own instructions, such as a fixed refusal, quote nothing; a short
        answer taken from a document stands in its own prompt, too.
        """
        if is_distinctive(said):
            said = said[:_PREFIX] if not self._is_document(said) else ""
            place = self._prompts[reader].find(said) if said else -1
            is_own = place >= 0 and said in self._prompts[call]
        else:
            # Cheap in most prompts, which do not hold it at all.
            is_held = said in self._prompts[reader]
            place = contains_word(self._without_retrieved(reader), said) if is_held else -1
            is_own = place >= 0
        return -1 if is_own and said in self._without_retrieved(call) else place

    def _without_retrieved(self, call: Run) -> str:
        if call not in self._bare:
            self._bare[call] = _without(self._prompts[call], self._retrieved)
        return self._bare[call]

    def _is_document(self, said: str) -> bool:
        """Return whether an output is most of a document, as a translation that became one."""
        most = 2 * len(said)
        return any(said in one and len(one) <= most for one in self._documents)


def _families(call: Run) -> Iterator[object]:
    """Yield what calls share that belong together whatever they said."""
    for outer in call.ancestors():
        if outer.joins:
            yield outer
        if outer.batch is not None:
            yield outer.parent, outer.batch


def _are_alike(one: Run, other: Run) -> bool:
    """Return whether two calls were made by the same step, one after the other."""
    if one.name != other.name or one.parent is None or other.parent is None:
        return False
    outer, others = one.parent, other.parent
    return outer is others or (outer.name == others.name and outer.parent is others.parent)


def _is_beside(one: Run, other: Run) -> bool:
    """Return whether one step made two calls at once: parts of a batch."""
    if one is other or one.parent is not other.parent or one.name != other.name:
        return False
    ends = (one.end or one.start, other.end or other.start)
    return max(one.start, other.start) < min(ends)


def _outputs(call: Run) -> list[str]:
    """Return what a call said: its text, and the texts in it if it is JSON."""
    text = fold(call.text or "")
    inner = map(fold, texts_in(json_in(call.text or "")))
    return [text] * _can_be_quoted(text) + [one for one in inner if is_distinctive(one)]


def _can_be_quoted(text: str) -> bool:
    return any(map(str.isalpha, text)) and len(text) + (not text.isascii()) >= _MIN_OUTPUT


def _without(text: str, parts: Sequence[str]) -> str:
    for part in parts:
        text = text.replace(part, " ")
    return text


def _last_calls(
    calls: Sequence[Run], answer: str, prompts: Mapping[Run, str], retrieved: Sequence[str]
) -> list[Run]:
    """Return the call that gave the answer, or those that it is made of; else the last.

    Of calls that gave the same the last count, as many as the answer says it: the others were
    tries.
    """
    outputs = {call: fold(call.text or "") or _picked(call) for call in calls}
    if answer:
        whole = [call for call, output in outputs.items() if answer in output]
        equal = [call for call in whole if outputs[call] == answer]
        if whole:
            return [_last_of(equal or whole, answer, prompts, retrieved)]
        made_of = _parts_of(answer, set(outputs.values()))
        parts: dict[str, list[Run]] = {}
        for call, output in outputs.items():
            if output in made_of:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    spoke = [call for call in calls if call.text]
    return spoke[-1:] or list(calls[-1:])


def _parts_of(answer: str, outputs: Set[str]) -> Set[str]:
    """Return the outputs that an answer is made of.

    A short output such as a grader's stands in many answers by chance: it counts where such
    outputs are most of what the long ones leave.
    """
    long = {output for output in outputs if is_distinctive(output) and output in answer}
    rest = _without(answer, sorted(long, key=len, reverse=True)).strip()
    sayable = {output for output in outputs - long if _can_be_quoted(output)}
    short = {output for output in sayable if contains_word(rest, output) >= 0}
    left = _without(rest, sorted(short, key=len, reverse=True)).strip()
    return long | short if short and 2 * len(left) <= len(rest) else long


def _last_of(
    calls: Sequence[Run], answer: str, prompts: Mapping[Run, str], retrieved: Sequence[str]
) -> Run:
    """Return the last of calls that gave an answer, preferring those with retrieved text.

    A grader may say the same short word about the answer, without any of the documents.
    """
    if is_distinctive(answer) or len(calls) == 1:
        return calls[-1]
    shown = (call for call in reversed(calls) if any(text in prompts[call] for text in retrieved))
    return next(shown, calls[-1])


def _picked(call: Run) -> str:
    """Return the arguments of tool calls, by which a model gives structured output."""
    try:
        arguments = list(call.tool_arguments)
        return fold(json.dumps(arguments, ensure_ascii=False)) if arguments else ""
    except (TypeError, ValueError, RecursionError):
        return ""
