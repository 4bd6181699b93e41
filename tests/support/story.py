"""Interactions built event by event."""

from __future__ import annotations

from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction, Run, RunKind
from rag_eval_hooks.sample import Context


class Story:
    def __init__(self) -> None:
        self.ended: list[Interaction] = []
        self.recorder = Recorder(self.ended.append)
        self.root = self.run("root", None, RunKind.CHAIN)

    def run(self, name: str, parent: Run | None, kind: RunKind) -> Run:
        parent_id = parent.id if parent else None
        run = self.recorder.start(name, parent_id, kind, name)
        assert run is not None
        return run

    def gave(self, name: str, *texts: str, kind: str = "retriever", parent: str = "root") -> None:
        run = self.run(name, self.recorder.get(parent) or self.root, RunKind(kind))
        self.recorder.documents(run, [Context(text=text, id=name) for text in texts])
        self.recorder.end(run)

    def asked(self, name: str, prompt: str, reply: str) -> None:
        run = self.run(name, self.root, RunKind.MODEL)
        run.prompt, run.text = (prompt,), reply
        self.recorder.end(run)

    def contexts(self, answer: str) -> list[str] | None:
        self.root.text = answer
        self.recorder.end(self.root)
        if not self.ended:
            return None
        found = find_contexts(self.ended[0], answer).contexts
        return None if found is None else [context.text for context in found]
