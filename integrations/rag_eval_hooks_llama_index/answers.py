"""Follows streamed answers until they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.endings import (
    chat_ending,
    model_ending,
    reading_ending,
    stream_ending,
)
from rag_eval_hooks_llama_index.readers import watch
from rag_eval_hooks_llama_index.reading import Reading
from rag_eval_hooks_llama_index.streams import Streams, may_differ

__all__ = ["StreamedAnswers"]


class StreamedAnswers:
    """The streams of one handler.

    Args:
        evals: Where interactions go.
        watch_streams: Whether streams that are not LlamaIndex's own are read through an object
            of ours; otherwise their answers are not known.

    Attributes:
        streams: Which of them a call belongs to.
    """

    def __init__(self, evals: RagEval, *, watch_streams: bool = True) -> None:
        self.streams = Streams()
        self._recorder = evals.recorder
        # One more than is kept, so that it can be told that something was cut.
        self._most = evals.recorder.longest + 1
        self._watches = watch_streams

    def note(self, run: Run, given: Any, text: str | None = None) -> bool:
        """Notes a streamed answer; the interaction of an outermost one then waits for it.

        Args:
            run: Who gave it out.
            given: What it gave out, streamed or not.
            text: Of a stream that is made of a fixed text.

        Returns:
            Whether it is a stream.
        """
        if isinstance(given, StreamingAgentChatResponse):
            source = self.streams.add(given.chat_stream or given.achat_stream, run)
            if run.outermost:
                self._follow(run, chat_ending(run, source))
            return True
        stream = self.streams.add(values.generator_of(given), run, text)
        reading = self._reading(run, given) if run.outermost else None
        if reading is not None:
            self._follow(run, reading_ending(run, reading, self._recorder.text))
        elif stream is not None and run.outermost:
            way = model_ending if run.kind is RunKind.MODEL else stream_ending
            self._follow(run, way(run, stream))
        return stream is not None or reading is not None

    def _follow(self, run: Run, ending: Callable[[], Status | None]) -> None:
        root = run.interaction.root

        def over() -> Status | None:
            # Where the application states the answer, it need not be read.
            stated = run is not root and root.text is not None
            return Status.OK if stated else ending()

        self._recorder.follow(run, over)

    def _reading(self, run: Run, given: Any) -> Reading | None:
        """What will be read of a response whose stream is not LlamaIndex's own."""
        is_other = isinstance(given, values.STREAMING) and may_differ(given.response_gen)
        return watch(given, str(run.id), self._most) if self._watches and is_other else None
