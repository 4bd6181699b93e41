"""Notes the documents in what runs gave out; reads copies, off the request's thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llama_index.core.schema import NodeWithScore

from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run, RunKind
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.replies import found_nothing, main_part, mapping_in
from rag_eval_hooks.capture.rewriting import replace_rewritten, without_rewritten
from rag_eval_hooks.capture.rows import lone_row
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.document_search import (
    candidates_in,
    nodes_in,
    shown_forms,
    snapshot,
)
from rag_eval_hooks_llama_index.roles import Role
from rag_eval_hooks_llama_index.values import RESPONSES

__all__ = ["Documents", "Ended", "is_written_by_framework"]

_CORE = "llama_index.core."
_QUERIES = ("query", "aquery")
_MAX_ALONE = 10_000
"""Nodes that retrievers outside of any call gave out, as far as they are remembered."""


class Ended(NamedTuple):
    """A call that returned: copies of all that it showed."""

    role: Role
    method: str
    # A tool of the framework, such as one that hands over to another agent.
    is_own_tool: bool
    result: Any
    # Arguments of a postprocessor, by name.
    given: Any
    # What the store of a step's workflow holds, by name.
    state: Any


class Documents:
    """Documents of one evaluator's runs.

    Args:
        recorder: Where documents are noted.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._alone: dict[str, None] = {}

    def note(self, run: Run, call: Ended, options: CaptureOptions) -> None:
        """Note the documents in the result of a call."""
        nodes = nodes_in(call.result)
        if isinstance(call.result, RESPONSES):
            if run.outermost or call.method in _QUERIES:
                self._note_response(run, call)
        elif call.role is Role.RETRIEVAL:
            self._note_retrieved(run, nodes)
        elif call.role is Role.POSTPROCESSING and nodes is not None:
            given = {found.node.node_id: found.node.get_content() for found in _nodes(call.given)}
            rewritten = replace_rewritten(run, snapshot(nodes), given)
            self._recorder.documents(run, rewritten, shown=shown_forms(nodes))
        elif run.kind is RunKind.TOOL:
            self._note_tool(run, call, options)
        elif not run.within(RunKind.RETRIEVER):
            self._note_step(run, call, nodes, options)
            self._note_state(run, call.state or {}, options)

    def _note_nodes(self, run: Run, nodes: Sequence[NodeWithScore]) -> None:
        contexts = without_rewritten(run, snapshot(nodes))
        self._recorder.documents(run, contexts, shown=shown_forms(nodes))

    def _note_retrieved(self, run: Run, nodes: Sequence[NodeWithScore] | None) -> None:
        if nodes is None:
            # Which documents it gave out is not known.
            run.interaction.left_out.update(("contexts", "prompt"))
            return
        self._note_nodes(run, nodes)
        if run.parent is None:
            for found in nodes:
                remember(self._alone, found.node.node_id, None, _MAX_ALONE)

    def _note_response(self, run: Run, call: Ended) -> None:
        """Note the sources of a response; those of a synthesizer alone only if retrieved before.

        Whoever builds an index has nodes summarized that nobody retrieved.
        """
        sources = call.result.source_nodes or ()
        alone = call.role is Role.SYNTHESIS and run.parent is None
        if not alone or any(found.node.node_id in self._alone for found in sources):
            self._note_sources(run, sources)

    def _note_sources(self, run: Run, nodes: Sequence[NodeWithScore]) -> None:
        """Note the sources of an answer that were retrieved: others were made on the way.

        Where none was retrieved, as rows of a table, they all count.
        """
        sources, forms = without_rewritten(run, snapshot(nodes)), shown_forms(nodes)
        interaction = run.interaction
        retrieved = [context for each in interaction.lists for context in each.contexts]
        question = interaction.root.query or run.query or ""
        kept = [_retrieved(source, retrieved, question) for source in sources]
        if not any(kept):
            kept = list(sources)
            if sources:
                # What was retrieved on the way, such as a schema, only helped to find these.
                interaction.lists = [
                    found
                    for found in interaction.lists
                    if found.run is not run and run not in found.run.ancestors()
                ]
        places = [n for n, context in enumerate(kept) if context and context.text.strip()]
        if places:
            shown = {
                place: forms[n]
                for place, n in enumerate(places)
                if n in forms and kept[n] is sources[n]
            }
            contexts = [context for n in places if (context := kept[n])]
            self._recorder.documents(run, contexts, Origin.SOURCES, shown=shown)

    def _note_step(
        self, run: Run, call: Ended, nodes: list[NodeWithScore] | None, options: CaptureOptions
    ) -> None:
        """Note documents that a step gave out, of whatever type where it is the application's."""
        if nodes:
            self._note_nodes(run, nodes)
        if nodes is not None or call.role not in (Role.CHAIN, Role.ENGINE):
            return
        question = run.interaction.root.query
        for found in candidates_in(call.result, options.document_keys):
            if found.sure:
                self._recorder.documents(run, found.contexts)
            # A text with the question in it is a prompt.
            elif texts := [c for c in found.contexts if not (question and question in c.text)]:
                self._recorder.documents(run, texts, Origin.STEP)

    def _note_state(self, run: Run, state: Mapping[str, Any], options: CaptureOptions) -> None:
        """Note texts that a step left in the store of its workflow, each value once."""
        interaction = run.interaction
        for name, value in state.items():
            if id(value) not in interaction.kept_values:
                # Held here, no other value gets its identity.
                interaction.kept_values[id(value)] = value, 0
                self._note_kept(run, {name: value}, options)

    def _note_kept(self, run: Run, kept: Mapping[str, Any], options: CaptureOptions) -> None:
        known = run.interaction.step_texts
        for contexts in _distinctive(kept, options):
            if new := [context for context in contexts if hash(context.text) not in known]:
                known.update(hash(context.text) for context in new)
                self._recorder.documents(run, new, Origin.STEP)

    def _note_tool(self, run: Run, call: Ended, options: CaptureOptions) -> None:
        """Note the text of a tool, which may have searched by means that no event shows."""
        names, output = options.retrieval_tools, call.result
        failed = getattr(output, "is_error", False)
        if failed or call.is_own_tool or (names is not None and run.name not in names):
            return
        raw = getattr(output, "raw_output", None)
        reply = mapping_in(raw)
        if found_nothing(reply):
            return
        # The text is how the model is shown a record.
        rest = raw if reply is None else main_part(reply)
        found = list(_distinctive(rest, options)) if lone_row(raw) is None else []
        text = str(getattr(output, "content", None) or "")
        for contexts in found or _distinctive(text, options):
            self._recorder.documents(run, contexts, Origin.TEXT, named=names is not None)


def _nodes(given: Any) -> Iterator[NodeWithScore]:
    for value in (given or {}).values():
        yield from nodes_in(value) or ()


def _distinctive(value: Any, options: CaptureOptions) -> Iterator[Sequence[Context]]:
    """Yield the lists of texts in a value that are long enough to be recognized."""
    for found in candidates_in(value, options.document_keys):
        if texts := [context for context in found.contexts if is_distinctive_text(context.text)]:
            yield texts


def _retrieved(source: Context, retrieved: Sequence[Context], question: str) -> Context | None:
    """Return a source if it was retrieved, the document that it wraps in a prompt, or None.

    An engine may cut what it retrieved, and number the pieces; others put what they generated
    among the sources of an answer.
    """
    if any(source.id == context.id for context in retrieved):
        return source
    text = source.text.strip()
    wholes = {context.text.strip(): context for context in retrieved if context.text.strip()}
    held = [whole for whole in wholes if whole in text]
    if len(held) == 1 and held[0] != text:
        asked, around = fold(question), fold(text.replace(held[0], " "))
        if is_distinctive(asked) and asked in around:
            return wholes[held[0]]
    body = text.partition("\n")[2].strip()
    is_piece = any(text in whole or (body and body in whole) for whole in wholes)
    return source if held or is_piece else None


def is_written_by_framework(tool: Any) -> bool:
    """Return whether the framework wrote a tool, such as one that hands over to another agent.

    Of an application's function, sync or async, the other form is a wrapper of the framework.
    """
    functions: Iterable[Any] = (getattr(tool, name, None) for name in ("fn", "async_fn"))
    modules = [str(function.__module__) for function in functions if function is not None]
    return bool(modules) and all(module.startswith(_CORE) for module in modules)
