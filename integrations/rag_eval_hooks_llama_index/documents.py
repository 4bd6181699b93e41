"""Notes the documents in what runs gave out; reads copies, off the request's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run, RunKind
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.copied import Message
from rag_eval_hooks.capture.documents import Lists, documents_in
from rag_eval_hooks.capture.replies import found_nothing, main_part, mapping_in, rows_in
from rag_eval_hooks.capture.rewriting import replace_rewritten, without_rewritten
from rag_eval_hooks.capture.rows import lone_row
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.copies import NodeContext, Reply, plain
from rag_eval_hooks_llama_index.roles import Role
from rag_eval_hooks_llama_index.values import DOCUMENT_KEYS, is_of_framework

__all__ = ["Documents", "Ended", "document_lists", "is_written_by_framework"]

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
        self._alone: dict[str | None, None] = {}

    def note(self, run: Run, call: Ended, options: CaptureOptions) -> None:
        """Note the documents in the result of a call."""
        nodes = _nodes_in(call.result)
        if isinstance(call.result, Reply):
            if run.outermost or call.method in _QUERIES:
                self._note_response(run, call)
        elif call.role is Role.RETRIEVAL:
            self._note_retrieved(run, nodes)
        elif call.role is Role.POSTPROCESSING and nodes is not None:
            lists = (_nodes_in(value) or () for value in (call.given or {}).values())
            given = {node.id or "": node.text for several in lists for node in several}
            self._note(run, replace_rewritten(run, nodes, given))
        elif run.kind is RunKind.TOOL:
            self._note_tool(run, call, options)
        elif call.role is not Role.PART and not run.within(RunKind.RETRIEVER):
            self._note_step(run, call, nodes, options)
            self._note_state(run, call.state or {}, options)

    def _note(
        self, run: Run, contexts: Sequence[Context], origin: Origin = Origin.DOCUMENTS
    ) -> None:
        """Note contexts, and the form in which a model is shown each node."""
        shown = {
            place: context.shown
            for place, context in enumerate(contexts)
            if isinstance(context, NodeContext) and context.node is not None
        }
        self._recorder.documents(run, plain(contexts), origin, shown=shown)

    def _note_retrieved(self, run: Run, nodes: list[NodeContext] | None) -> None:
        if nodes is None:
            # Which documents it gave out is not known.
            run.interaction.left_out.update(("contexts", "prompt"))
            return
        self._note(run, without_rewritten(run, nodes))
        if run.parent is None:
            for node in nodes:
                remember(self._alone, node.id, None, _MAX_ALONE)

    def _note_response(self, run: Run, call: Ended) -> None:
        """Note the sources of a response; those of a synthesizer alone only if retrieved before.

        Whoever builds an index has nodes summarized that nobody retrieved.
        """
        sources = without_rewritten(run, call.result.sources)
        alone = call.role is Role.SYNTHESIS and run.parent is None
        if alone and not any(source.id in self._alone for source in sources):
            return
        interaction = run.interaction
        retrieved = [context for each in interaction.lists for context in each.contexts]
        question = interaction.root.query or run.query or ""
        kept = list(filter(None, (_retrieved(one, retrieved, question) for one in sources)))
        if sources and not kept:
            # Made on the way, as rows of a table. What was retrieved, such as a schema, only
            # helped to find them.
            kept = list(sources)
            interaction.lists = [
                found
                for found in interaction.lists
                if found.run is not run and run not in found.run.ancestors()
            ]
        if kept := [context for context in kept if context.text.strip()]:
            self._note(run, kept, Origin.SOURCES)

    def _note_step(
        self, run: Run, call: Ended, nodes: list[NodeContext] | None, options: CaptureOptions
    ) -> None:
        """Note documents that a step gave out, of whatever type where it is the application's."""
        if nodes:
            self._note(run, without_rewritten(run, nodes))
        is_step = nodes is None and call.role in (Role.CHAIN, Role.ENGINE)
        if not is_step or is_of_framework(call.result):
            return
        for contexts in document_lists(call.result, options):
            self._note(run, contexts)
        question = run.interaction.root.query
        for contexts in rows_in(call.result):
            # A text with the question in it is a prompt.
            if texts := [c for c in contexts if not (question and question in c.text)]:
                self._recorder.documents(run, texts, Origin.STEP)

    def _note_state(self, run: Run, state: Mapping[str, Any], options: CaptureOptions) -> None:
        """Note texts that a step left in the store of its workflow, each value once."""
        interaction = run.interaction
        known = interaction.step_texts
        for value in state.values():
            if id(value) in interaction.kept_values or is_of_framework(value):
                continue
            # Held here, no other value gets its identity.
            interaction.kept_values[id(value)] = value, 0
            for contexts in _distinctive(value, options):
                if new := [context for context in contexts if hash(context.text) not in known]:
                    known.update(hash(context.text) for context in new)
                    self._recorder.documents(run, plain(new), Origin.STEP)

    def _note_tool(self, run: Run, call: Ended, options: CaptureOptions) -> None:
        """Note the text of a tool, which may have searched by means that no event shows."""
        names, output = options.retrieval_tools, call.result
        if not isinstance(output, Message) or output.failed or call.is_own_tool:
            return
        reply = mapping_in(output.artifact)
        if found_nothing(reply) or (names is not None and run.name not in names):
            return
        # The text is how the model is shown a record.
        rest = output.artifact if reply is None else main_part(reply)
        is_record = is_of_framework(rest) or lone_row(output.artifact) is not None
        found = [] if is_record else _distinctive(rest, options)
        for contexts in found or rows_in(output.text):
            self._recorder.documents(run, plain(contexts), Origin.TEXT, named=names is not None)


def document_lists(value: Any, options: CaptureOptions) -> Lists:
    """Return the lists of documents in a copy, in order; an empty list under a key may count."""
    keys = DOCUMENT_KEYS if options.document_keys is None else options.document_keys
    return documents_in(value, keys=keys, artifacts=False)


def _nodes_in(value: Any) -> list[NodeContext] | None:
    """Return the nodes that a call gave out as a list; None for anything else."""
    is_list = isinstance(value, list) and all(isinstance(item, NodeContext) for item in value)
    return value if is_list else None


def _distinctive(value: Any, options: CaptureOptions) -> list[Sequence[Context]]:
    """Return the lists of texts in a copy that are long enough to be recognized."""
    lists = [*document_lists(value, options), *rows_in(value)]
    long = ([one for one in contexts if is_distinctive_text(one.text)] for contexts in lists)
    return [contexts for contexts in long if contexts]


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
    functions = [getattr(tool, name, None) for name in ("fn", "async_fn")]
    modules = [str(function.__module__) for function in functions if function is not None]
    return bool(modules) and all(module.startswith(_CORE) for module in modules)
