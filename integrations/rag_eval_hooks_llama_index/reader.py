"""Reads the copies of what LlamaIndex's events showed, off the request's thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.capture import CaptureOptions, Choice, Recorder, Run, RunKind
from rag_eval_hooks.capture.copied import entries, named
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.snapshots import Opaque
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks_llama_index import facts, values
from rag_eval_hooks_llama_index.copies import Reply, plain
from rag_eval_hooks_llama_index.documents import Documents, Ended
from rag_eval_hooks_llama_index.roles import Role
from rag_eval_hooks_llama_index.workflows import ResumedWorkflows

__all__ = ["Reader"]


class Reader:
    """Notes on runs what copies hold.

    Args:
        recorder: Where it is noted.
        incidents: Counts choices that cannot be used.
        options: Of all interactions that have none of their own.
    """

    def __init__(self, recorder: Recorder, incidents: Incidents, options: CaptureOptions) -> None:
        self._recorder = recorder
        self._incidents = incidents
        self._options = options
        self._documents = Documents(recorder)
        self._resumed = ResumedWorkflows(recorder)

    def options_of(self, run: Run | None) -> CaptureOptions:
        """Return the options for a run: one opened by hand may have options of its own."""
        own = None if run is None else run.interaction.options
        return self._options if own is None else own.over(self._options)

    def _chosen(self, name: str, run: Run, value: Any, called: Any) -> Any:
        """Return what the application chose: by the name of a key, or by its function."""
        choice: Choice = getattr(self.options_of(run), name)
        return named(value, choice, values.LEVELS) if isinstance(choice, str) else called

    def tool_arguments(self, run: Run, given: Mapping[str, Any]) -> None:
        """Note the arguments of a tool's call for its span."""
        self._recorder.for_span(run, arguments=facts.arguments_text(given))

    def query(self, role: Role, run: Run, given: Mapping[str, Any]) -> None:
        """Note what a retriever or an inner engine was asked."""
        asked = values.question_of(given)
        if role is Role.RETRIEVAL:
            if asked is None and len(texts := values.texts_in(given)) == 1:
                asked = texts[0]
            self._recorder.question(run, asked)
        elif not run.interaction.root.query:
            self._recorder.question(run, asked)

    def input(
        self, run: Run, given: Mapping[str, Any], called: Any, declared: tuple[str, ...] | None
    ) -> None:
        """Note the input of an outermost call, which holds the question."""
        chosen = values.question_of(self._chosen("question", run, given, called))
        texts = values.texts_in(given)
        asked = values.question_of(given) if chosen is None else chosen
        if asked is None and len(texts) == 1:
            asked = texts[0]
        self._recorder.asked(run, texts)
        self._recorder.question(run, asked)
        if declared is not None:
            self._resumed.begins(run, given, declared)

    def step(self, run: Run, event: Any, state: Mapping[str, Any], called: Any) -> None:
        """Note what the step of a workflow that was given no question goes on with."""
        flow = run.parent
        if flow is None or flow.query or flow.interaction.asked:
            return
        options = self.options_of(flow)
        left = {**(entries(event) or {}), **state}
        chosen = values.question_of(self._chosen("question", flow, left, called))
        self._resumed.step(run, event, state, chosen, options)

    def result(
        self,
        how: tuple[Role, str, bool],
        streams: bool,
        run: Run,
        result: Any,
        given: Any,
        state: Any,
        contexts: Any,
        answer: Any,
    ) -> None:
        """Note the documents and the answer in the result of a call."""
        call = Ended(*how, result, given, state)
        if run.parent is None and _is_no_question(run):
            run.interaction.lists = []
            return
        if call.role is Role.TOOL and self._recorder.span_content:
            self._recorder.for_span(run, result=facts.result_text(result))
        self._note_choice(run, result, contexts)
        self._documents.note(run, call, self.options_of(run))
        if streams or call.role is Role.WRITER:
            return
        if run.outermost:
            self._note_answer(run, result, answer)
        elif call.role is Role.ENGINE:
            self._recorder.answer(run, values.answer_of(result))

    def _note_choice(self, run: Run, result: Any, called: Any) -> None:
        chosen = self._chosen("contexts", run, result, called)
        if chosen is None:
            return
        contexts = contexts_in(chosen)
        if contexts is None:
            self._incidents.report("choice contexts", TypeError())
        else:
            self._recorder.choose(run, plain(contexts))

    def _note_answer(self, run: Run, result: Any, called: Any) -> None:
        chosen = values.answer_of(self._chosen("answer", run, result, called))
        text = values.answer_of(result) if chosen is None else chosen
        unknown = text is None and isinstance(result, Reply) and result.streams
        self._recorder.answer(run, text, unknown=unknown)
        if text is None and not unknown:
            self._recorder.alternatives(run, values.texts_in(result), None)

    def prompt(self, run: Run, given: Any) -> None:
        """Note what a model was given."""
        if isinstance(given, Opaque):
            run.interaction.left_out.add("prompt")
        elif isinstance(given, str):
            self._recorder.prompt(run, (given,))
        else:
            self._recorder.prompt(run, tuple(message.text for message in given))
            self._recorder.for_span(run, roles=[message.role for message in given])

    def reply(self, run: Run, response: Any) -> None:
        """Note the details of a model's reply."""
        calls = facts.tool_calls_of(response)
        self._recorder.reply(run, facts.reply_facts(response), [one["arguments"] for one in calls])
        self._recorder.for_span(run, tool_calls=calls)


def _is_no_question(root: Run) -> bool:
    """Return whether a root was asked nothing, and neither retriever nor model was: preparation."""
    asked = root.query or root.interaction.asked
    kinds = {run.kind for run in root.interaction.runs}
    return not asked and kinds.isdisjoint((RunKind.RETRIEVER, RunKind.MODEL))
