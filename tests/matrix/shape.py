"""A shape: a real pipeline, the ways of calling it, and what must be captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rag_eval_hooks import Status
from tests.matrix.world import World


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One interaction as it must be captured.

    Attributes:
        question: What the user asked.
        contexts: Texts that the answering model saw, in its order; None without retrieval, ()
            for an empty one.
        answer: What the user got.
        status: How it ended.
        spans: The spans below the RAG span, `<operation> <subject>`, two spaces a level, those
            of one parent sorted by name. None where they depend on chance.
    """

    question: str
    contexts: Sequence[str] | None
    answer: str | None
    status: Status = Status.OK
    spans: Sequence[str] | None = ()


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A pipeline shape.

    Attributes:
        group: As in the specification's table.
        name: Unique in its framework.
        ways: Ways of calling that it has, such as `invoke`.
        run: Builds the pipeline with the handler of the world's evaluator and runs it in a way.
        expected: The interactions that must come out, for a way.
        missing: Why it cannot run here, or None.
        write: What the application writes so that it is captured; "" where nothing is needed.
        incidents: What must be counted at an edge meanwhile.
    """

    group: str
    name: str
    ways: Sequence[str]
    run: Callable[[World, str], None]
    expected: Callable[[str], Sequence[Expected]]
    missing: str | None = None
    write: str = ""
    incidents: dict[str, int] = field(default_factory=dict)
