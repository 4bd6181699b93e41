"""Notes the documents in what runs of LlamaIndex give out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llama_index.core.schema import NodeWithScore

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import Origin, Run, RunKind
from rag_eval_hooks.capture.replies import found_nothing, main_part, mapping_in
from rag_eval_hooks.capture.rewriting import replace_rewritten
from rag_eval_hooks.capture.rows import lone_row
from rag_eval_hooks.capture.text_forms import is_distinctive_text
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.capture_options import LlamaIndexOptions
from rag_eval_hooks_llama_index.kinds import Role
from rag_eval_hooks_llama_index.resumed_workflows import state_of
from rag_eval_hooks_llama_index.sources import (
    given_texts,
    nodes_in,
    note_nodes,
    note_sources,
    shown_forms,
    snapshot,
)

__all__ = ["Call", "RunDocuments"]

_CORE = "llama_index.core."
_QUERIES = ("query", "aquery")
_MOST_ALONE = 10_000
"""Nodes that retrievers outside of any call gave out, as far as they are remembered."""


class Call(NamedTuple):
    """A call that returned: its object, the method's name, and the arguments by name."""

    instance: Any
    method: str
    arguments: Mapping[str, Any]


class RunDocuments:
    """Notes documents on the runs of one evaluator.

    Args:
        evals: Where interactions go.
        options: Choices of the application.
    """

    def __init__(self, evals: RagEval, options: LlamaIndexOptions) -> None:
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._options = options
        self._alone: dict[str, None] = {}

    def note(self, run: Run, role: Role, call: Call, given: Any) -> None:
        """Note the documents in the result of a call."""
        if self._options.of(run).contexts is not None:
            self._choose(run, given)
        if isinstance(given, values.ANSWERS_WITH_SOURCES):
            if run.outermost or call.method in _QUERIES:
                self._note_answer(run, role, given)
            return
        nodes = nodes_in(given)
        if role is Role.RETRIEVAL:
            self._note_retrieved(run, nodes)
        elif role is Role.POSTPROCESSING and nodes is not None:
            rewritten = replace_rewritten(run, snapshot(nodes), given_texts(call.arguments))
            self._recorder.documents(run, rewritten, shown=shown_forms(nodes))
        elif run.kind is RunKind.TOOL:
            self._note_tool(run, call.instance, given)
        elif not run.within(RunKind.RETRIEVER):
            self._note_step(run, role, given)
            self._note_store(run, call.arguments)

    def _choose(self, run: Run, given: Any) -> None:
        chosen = self._options.of(run).contexts_in(given, self._incidents)
        if chosen is not None:
            self._recorder.choose(run, chosen)

    def _note_answer(self, run: Run, role: Role, given: Any) -> None:
        """Note the sources of an answer; those of a synthesizer alone only if retrieved before.

        Whoever builds an index has nodes summarised that nobody retrieved.
        """
        sources = given.source_nodes if isinstance(given.source_nodes, list | tuple) else ()
        alone = role is Role.SYNTHESIS and run.parent is None
        if not alone or any(found.node.node_id in self._alone for found in sources):
            note_sources(self._recorder, run, sources)

    def _note_retrieved(self, run: Run, nodes: Sequence[NodeWithScore] | None) -> None:
        if nodes is None:
            # Which ones it gave is not known.
            self._recorder.lost(run.id)
            return
        note_nodes(self._recorder, run, nodes)
        self._remember_alone(run)

    def _remember_alone(self, run: Run) -> None:
        if run.parent is None:
            for found in run.interaction.lists[-1:]:
                self._alone.update(dict.fromkeys(c.id for c in found.contexts if c.id))
            while len(self._alone) > _MOST_ALONE:
                self._alone.pop(next(iter(self._alone)), None)

    def _note_step(self, run: Run, role: Role, given: Any) -> None:
        """Note documents that a step gave out, of whatever type where it is the application's."""
        if nodes := nodes_in(given):
            note_nodes(self._recorder, run, nodes)
        if nodes is not None or role not in (Role.CHAIN, Role.ENGINE):
            return
        question = run.interaction.root.query
        for found in self._options.of(run).documents_in(given):
            if found.sure:
                self._recorder.documents(run, found.contexts)
                continue
            # A text with the question in it is a prompt.
            texts = [c for c in found.contexts if not (question and question in c.text)]
            if texts:
                self._recorder.documents(run, texts, Origin.STEP)

    def _note_store(self, run: Run, arguments: Mapping[str, Any]) -> None:
        """Note texts that a step left in the store of its workflow, each value once."""
        read = run.interaction.kept_values
        for name, value in state_of(arguments).items():
            size = len(value) if isinstance(value, list | dict) else 0
            if read.get(id(value), (value, -1))[1] != size:
                # Held here, no other value gets its identity.
                read[id(value)] = value, size
                self._note_kept(run, {name: value})

    def _note_kept(self, run: Run, kept: Mapping[str, Any]) -> None:
        known = run.interaction.step_texts
        for contexts in _telling(self._options.of(run), kept):
            if new := [context for context in contexts if hash(context.text) not in known]:
                known.update(hash(context.text) for context in new)
                self._recorder.documents(run, new, Origin.STEP)

    def _note_tool(self, run: Run, tool: Any, output: Any) -> None:
        """Note the text of a tool, which may have searched by means that no event shows."""
        options = self._options.of(run)
        names = options.retrieval_tools
        if getattr(output, "is_error", False) or (names is not None and run.name not in names):
            return
        if _is_of_core(tool):
            return
        text = str(getattr(output, "content", None) or "")
        raw = getattr(output, "raw_output", None)
        reply = mapping_in(raw)
        if found_nothing(reply):
            return
        # The text is how the model is shown a record.
        rest = raw if reply is None else main_part(reply)
        found = _telling(options, rest) if lone_row(raw) is None else []
        for contexts in found or _telling(options, text):
            self._recorder.documents(run, contexts, Origin.TEXT, named=names is not None)


def _telling(options: LlamaIndexOptions, value: Any) -> list[Sequence[Context]]:
    """Return the lists of texts in a value that are long enough to be recognised."""
    lists = (
        [c for c in f.contexts if is_distinctive_text(c.text)] for f in options.documents_in(value)
    )
    return list(filter(None, lists))


def _is_of_core(tool: Any) -> bool:
    """Return whether the framework wrote a tool, such as one that hands over to another agent.

    Of an application's function, sync or async, the other form is a wrapper of the framework.
    """
    functions = (getattr(tool, name, None) for name in ("fn", "async_fn"))
    modules = [str(function.__module__) for function in functions if function is not None]
    return bool(modules) and all(module.startswith(_CORE) for module in modules)
