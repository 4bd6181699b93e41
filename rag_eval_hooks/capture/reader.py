"""Copies the inputs and outputs of runs, and applies the handler's options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any, Final

from rag_eval_hooks.capture.copied import Read, entries, json_in, named, texts_in
from rag_eval_hooks.capture.documents import Rows, contexts_in, rows_in
from rag_eval_hooks.capture.options import CaptureOptions, converted
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Cut, Origin, Run
from rag_eval_hooks.capture.snapshots import ATOMS, Copier, Form
from rag_eval_hooks.capture.text_forms import width
from rag_eval_hooks.incidents import Incidents, place_of_caller
from rag_eval_hooks.sample import Context

_MAIN_SHARE: Final = 0.75


@cache
def _forms_by(_: Callable[[type], Form | None]) -> dict[type, Form]:
    # Applications may create a handler for each request, so all handlers share the forms.
    return {}


class BaseReader:
    def __init__(
        self,
        recorder: Recorder,
        incidents: Incidents,
        options: CaptureOptions,
        form_of: Callable[[type], Form | None],
    ) -> None:
        self._recorder = recorder
        self._incidents = incidents
        self.options = options
        self.place = f"set at {place_of_caller()}" if options != CaptureOptions() else ""
        self._form_of = form_of
        choices = {name: getattr(options, name) for name in ("question", "contexts", "answer")}
        self.functions = {name: one for name, one in choices.items() if callable(one)}

    def is_root(self, root: str, name: str) -> bool:
        told = "The option `root` names an unknown run"
        return self._recorder.unmatched.is_named(told, [root], [name], self.place)

    def is_named_tool(self, run: Run) -> bool | None:
        if (names := self.options.retrieval_tools) is None:
            return None
        told = "The option `retrieval_tools` names an unknown tool"
        return self._recorder.unmatched.is_named(told, names, [run.name], self.place)

    def _converted(self, run: Run, read: Callable[[Any], Any], value: Any) -> Context | None:
        try:
            return converted(read, value)
        except Exception as error:  # noqa: BLE001 - the application's function may raise anything
            run.interaction.left_out.add("contexts")
            self._incidents.report(f"as_context of an object of type {type(value).__name__}", error)
            return None

    def defer(
        self, run: Run, event: str, read: Callable[..., None], value: Any, *more: Any
    ) -> None:
        """Copy the values now. Another thread later calls `read` with the copies."""
        copies = [self.copy(run, one) for one in more] if more else ()
        values = run, self.copy(run, value), *copies
        run.interaction.pending.append(partial(self._recorder.read, run, event, read, values))

    def copy(self, run: Run, value: Any) -> Any:
        if (kind := type(value)) in ATOMS:
            if kind is str:
                run.interaction.snapshots.count(value)
            return value
        read = self.options.as_context
        copier = Copier(
            run.interaction.snapshots,
            self._form_of,
            _forms_by(self._form_of),
            read and partial(self._converted, run, read),
            self._recorder.most_waiting,
        )
        copy = copier.of(value)
        return Cut(value, copier, run) if copier.is_cut else copy

    def choose(self, run: Run, name: str, value: Any) -> None:
        choice = self.functions.get(name)
        if choice is None or isinstance(run.chosen.get(name), str):
            return
        try:
            result = choice(value)
        except Exception as error:  # noqa: BLE001 - the application's function may raise anything
            result = error
        run.chosen = {**run.chosen, name: result}

    def _chosen_text(self, name: str, run: Run, value: Any, read: Read) -> str | None:
        choice, result = getattr(self.options, name), run.chosen.get(name)
        if isinstance(choice, str):
            found = named(value, choice)
            self.note_match(run, name, value, is_met=found is not None)
            return None if found is None else read(found)
        if result is None or isinstance(result, str):
            return result
        self._report_choice(name, result)
        return None

    def _report_choice(self, name: str, result: Any) -> None:
        error = result if isinstance(result, Exception) else TypeError()
        self._incidents.report(f"choice {name}", error)

    def note_match(self, run: Run, name: str, value: Any, *, is_met: bool) -> None:
        choice = getattr(self.options, name)
        keys = [choice] if is_met else list(map(str, entries(value) or ()))
        told = f"The option `{name}` names an unknown key"
        self._recorder.unmatched.is_named(told, [choice], keys, self.place)

    def _note_choice(self, run: Run, value: Any) -> None:
        choice, result = self.options.contexts, run.chosen.get("contexts")
        if isinstance(choice, str):
            result = named(value, choice)
            if result is not None or run.outermost:
                self.note_match(run, "contexts", value, is_met=result is not None)
        if choice is None or result is None:
            return
        contexts = None if isinstance(result, Exception) else contexts_in(result)
        if contexts is not None:
            self._recorder.documents(run, contexts, Origin.CHOSEN)
        elif run.outermost and not run.interaction.lists_of(Origin.CHOSEN):
            # Report only the root's output, because the function may not fit every step's output.
            self._report_choice("contexts", result)


def added_rows(run: Run, values: Sequence[Any]) -> Rows:
    told = {text for value in values for text in texts_in(value) if json_in(text) is None}
    told.difference_update(model.text or "" for model in run.interaction.models)
    for contexts in (rows for value in values for rows in rows_in(value)):
        first = contexts[0]
        # A lone text is a candidate only if it is most of the text that the step added.
        if len(contexts) > 1 or first.metadata or _is_main(first.text, told):
            yield contexts


def _is_main(text: str, told: Collection[str]) -> bool:
    left = width(text) * (1 - _MAIN_SHARE) / _MAIN_SHARE
    is_json = json_in(text) is not None
    for other in told:
        # A prompt contains the text, and a JSON text contains its fields.
        left -= 0 if text in other or (is_json and other in text) else width(other)
        if left < 0:
            return False
    return True
