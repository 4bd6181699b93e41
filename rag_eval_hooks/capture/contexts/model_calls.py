"""Selection of the model calls that made the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from rag_eval_hooks.capture.contexts.replies import json_in, texts_in
from rag_eval_hooks.capture.contexts.text_forms import fold, forms, is_telling
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind

__all__ = ["Grounding", "grounding_of"]

_PREFIX = 160
"""Characters of an output that must stand in a prompt: what quotes it may cut its end."""
_MOST = 200
"""Calls among which quoted ones are looked for: the last ones."""
_LEAST = 3
"""Characters of a short output that can be quoted; a wide one counts as two."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """Prompts of the calls that made the answer, folded.

    Attributes:
        prompts: Of the answering calls, then of those that they quote.
        fresh: The same without what a model said in earlier turns.
        others: Of all other calls that did not fail, outside retrievers and rerankers.
    """

    prompts: Sequence[str]
    fresh: Sequence[str]
    others: Sequence[str]


def grounding_of(interaction: Interaction, answer: str | None, texts: Iterable[str]) -> Grounding:
    """Return the prompts of the answering calls and of those that fed them, in order.

    Args:
        interaction: An ended one.
        answer: What the user got.
        texts: Folded texts that were retrieved.
    """
    calls = [run for run in interaction.runs if run.kind is RunKind.MODEL and run.prompt]
    engines = {found.run for found in interaction.lists_of(Origin.SOURCES)}
    calls = [run for run in calls if not _is_preparing(run, engines)]
    folded: dict[str, str] = {}
    prompts = {run: _prompt(run, folded) for run in calls}
    telling = [text for text in texts if is_telling(text)]
    answering = _answering_calls(calls, answer or "", prompts, telling)
    made = _Quotes(prompts, telling, _given_out(interaction)).calls(answering)
    return Grounding(
        [prompts[call] for call in made],
        [_prompt(c, folded, fresh=True) if c.earlier else prompts[c] for c in made],
        [p for call, p in prompts.items() if call not in made and call.error_type is None],
    )


def _is_preparing(run: Run, engines: Set[Run]) -> bool:
    """Return whether a call is part of a retrieval, such as a compressor's.

    One by which an engine within a retriever answers is not: what it was shown was read.
    """
    for outer in run.ancestors():
        if outer in engines or outer.kind in (RunKind.RETRIEVER, RunKind.RERANKER):
            return outer not in engines
    return False


def _prompt(run: Run, folded: dict[str, str], *, fresh: bool = False) -> str:
    """Return a call's prompt, folded, possibly without replies of earlier turns.

    Each text that calls share is folded once.
    """
    for text in run.prompt:
        if text not in folded:
            folded[text] = fold(text)
    left_out = run.earlier if fresh else ()
    return " ".join([folded[text] for n, text in enumerate(run.prompt) if n not in left_out])


def _given_out(interaction: Interaction) -> Sequence[str]:
    """Return the texts of the documents that steps gave out, folded."""
    lists = interaction.lists_of(Origin.DOCUMENTS)
    texts = {context.text for found in lists for context in found.contexts}
    return list(set(map(fold, texts)))


class _Quotes:
    """Calls whose outputs stand in the prompts of others.

    Args:
        prompts: Of all calls, folded.
        texts: Retrieved texts: a short output that stands in one of them is no quotation.
        documents: Those of documents: an output that became one of them, as a translation does,
            is a later stage of what its call was shown.
    """

    def __init__(
        self, prompts: Mapping[Run, str], texts: Sequence[str], documents: Sequence[str]
    ) -> None:
        self._prompts = prompts
        self._texts = texts
        self._documents = documents
        self._outputs = {call: _outputs(call) for call in list(prompts)[-_MOST:]}

    def calls(self, answering: Sequence[Run]) -> list[Run]:
        """Return the answering calls, then those that they quote, and so on.

        Calls of one batch and of one synthesizer belong together, in their order.
        """
        made = self._together(answering)
        waiting = list(made)
        while waiting:
            call = waiting.pop(0)
            quoted = self._with_siblings(self._quoted(self._prompts[call]))
            for one in [one for one in quoted if one not in made]:
                # What is refined comes before what refines it.
                made.insert(made.index(call) if _are_alike(one, call) else len(made), one)
                waiting.append(one)
        return made

    def _together(self, calls: Sequence[Run]) -> list[Run]:
        """Return calls with those of the same synthesizers; an answer alone ties no batch."""
        outer = {one for call in calls for one in call.ancestors() if one.joins}
        if not outer:
            return list(calls)
        return [c for c in self._prompts if c in calls or not outer.isdisjoint(c.ancestors())]

    def _with_siblings(self, calls: Sequence[Run]) -> list[Run]:
        families = {family for call in calls for family in _families(call)}
        together = {c for c in self._prompts if not families.isdisjoint(_families(c))}
        together |= {c for c in self._prompts if any(_is_beside(c, call) for call in calls)}
        if together.issubset(calls):
            return list(calls)
        return [call for call in self._prompts if call in together or call in calls]

    def _quoted(self, prompt: str) -> list[Run]:
        bare: str | None = None
        places: dict[Run, int] = {}
        for call, outputs in self._outputs.items():
            for said in outputs:
                output = said[:_PREFIX]
                if output in self._prompts[call]:
                    # Words of the instructions, such as a fixed refusal, quote nothing.
                    continue
                if is_telling(output):
                    place = -1 if self._is_document(said) else prompt.find(output)
                else:
                    bare = _without(prompt, self._texts) if bare is None else bare
                    place = _word_place(bare, output)
                if place >= 0:
                    places.setdefault(call, place)
        return sorted(places, key=places.__getitem__)

    def _is_document(self, said: str) -> bool:
        """Return whether an output is most of a document."""
        most = 2 * len(said)
        return any(len(said) <= len(one) <= most and said in one for one in self._documents)


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
    """Return whether two calls were made at once by one step: parts of a batch."""
    if one is other or one.parent is not other.parent or one.name != other.name:
        return False
    ends = (one.end or one.start, other.end or other.start)
    return max(one.start, other.start) < min(ends)


def _outputs(call: Run) -> list[str]:
    """Return what a call said: its text, or the texts in it if it is JSON."""
    text = fold(call.text or "")
    said = [text] if _is_sayable(text) else []
    return said + [t for t in map(fold, texts_in(json_in(call.text or ""))) if is_telling(t)]


def _is_sayable(text: str) -> bool:
    return any(map(str.isalpha, text)) and len(text) + (not text.isascii()) >= _LEAST


def _without(prompt: str, texts: Sequence[str]) -> str:
    for text in texts:
        prompt = prompt.replace(text, " ")
    return prompt


def _word_place(prompt: str, output: str) -> int:
    edges = (r"(?<!\w)", r"(?!\w)") if output.isascii() else ("", "")
    match = re.search(f"{edges[0]}{re.escape(output)}{edges[1]}", prompt)
    return -1 if match is None else match.start()


def _answering_calls(
    calls: Sequence[Run], text: str, prompts: Mapping[Run, str], texts: Sequence[str]
) -> list[Run]:
    """Return the call that gave the answer, or those that it is made of; else the last.

    Of calls that gave the same the last count, as many as the answer says it: the others were
    tries. A model that gave JSON has written it with escapes.
    """
    outputs = {call: fold(call.text or "") or _picked(call) for call in calls}
    if answer := fold(text):
        written = list(forms(text))
        whole = [c for c, output in outputs.items() if any(form in output for form in written)]
        equal = [call for call in whole if outputs[call] == answer]
        if whole:
            return [_last(equal or whole, answer, prompts, texts)]
        made_of = _said_in(answer, set(outputs.values()))
        parts: dict[str, list[Run]] = {}
        for call, output in outputs.items():
            if output in made_of:
                parts.setdefault(output, []).append(call)
        if parts:
            said = sorted(parts, key=answer.find)
            return [call for output in said for call in parts[output][-answer.count(output) :]]
    spoke = [call for call in calls if call.text]
    return spoke[-1:] or list(calls[-1:])


def _said_in(answer: str, outputs: Set[str]) -> Set[str]:
    """Return the outputs that an answer is made of.

    A short one such as a grader's stands in many answers by chance: it counts where such outputs
    are most of what the long ones leave.
    """
    long = {output for output in outputs if is_telling(output) and output in answer}
    rest = _without(answer, sorted(long, key=len, reverse=True)).strip()
    sayable = {output for output in outputs - long if _is_sayable(output)}
    short = {output for output in sayable if _word_place(rest, output) >= 0}
    left = _without(rest, sorted(short, key=len, reverse=True)).strip()
    return long | short if short and 2 * len(left) <= len(rest) else long


def _last(
    calls: Sequence[Run], answer: str, prompts: Mapping[Run, str], texts: Sequence[str]
) -> Run:
    """Return the last of calls that gave an answer, preferring those with retrieved text.

    A grader may say the same short word about the answer, without any of the documents.
    """
    if is_telling(answer) or len(calls) == 1:
        return calls[-1]
    shown = (call for call in reversed(calls) if any(text in prompts[call] for text in texts))
    return next(shown, calls[-1])


def _picked(call: Run) -> str:
    """Return the arguments of tool calls, by which a model gives structured output."""
    try:
        arguments = list(call.tool_arguments)
        return fold(json.dumps(arguments, ensure_ascii=False)) if arguments else ""
    except (TypeError, ValueError, RecursionError):
        return ""
