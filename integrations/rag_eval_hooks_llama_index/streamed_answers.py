"""Follows streamed answers until they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.readers import watch
from rag_eval_hooks_llama_index.reading import StreamReading
from rag_eval_hooks_llama_index.streams import Stream, Streams, may_differ

__all__ = ["StreamedAnswers", "chat_ending", "model_ending", "reading_ending", "stream_ending"]


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
        # One more than is kept, so that a cut can be noticed.
        self._most = evals.recorder.longest + 1
        self._watches = watch_streams

    def note(self, run: Run, given: Any, text: str | None = None) -> bool:
        """Note a streamed answer; the interaction of an outermost one then waits for it.

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

    def _reading(self, run: Run, given: Any) -> StreamReading | None:
        """Watch a response whose stream is not LlamaIndex's own."""
        is_other = isinstance(given, values.STREAMING) and may_differ(given.response_gen)
        return watch(given, str(run.id), self._most) if self._watches and is_other else None


_WRITER = StreamingAgentChatResponse.__name__
_REACT = "ReActAgent"
_THOUGHT, _ANSWER = "Thought", "Answer:"
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}


def stream_ending(run: Run, stream: Stream) -> Callable[[], Status | None]:
    """Follow a query engine's stream; once it is over, its last model call shows the status."""

    def ending() -> Status | None:
        if not stream.over:
            return None
        if stream.text is not None:
            if not stream.begun:
                return Status.CLOSED
            run.text = stream.text
            return Status.OK
        model = next(_inside(run, lambda inner: inner.kind is RunKind.MODEL), None)
        run.text_unknown = stream.foreign
        if model is None or model.end is None:
            return Status.CLOSED
        return _taken_over(run, model)

    return ending


def reading_ending(
    run: Run, reading: StreamReading, keep: Callable[[Run, str | None], str | None]
) -> Callable[[], Status | None]:
    """Follow a stream that is watched by how its reading ended; `closed` if dropped before.

    Args:
        run: Who gave it out.
        reading: What is read.
        keep: As much of a text as may be kept.
    """

    def ending() -> Status | None:
        if not reading.over:
            return None
        status = reading.status or Status.CLOSED
        run.text = keep(run, reading.text)
        run.text_unknown = run.text is None
        _blame(run, reading.error_type)
        interaction = run.interaction
        interaction.read_until = max(interaction.read_until, reading.ended)
        return status

    return ending


def model_ending(run: Run, stream: Stream) -> Callable[[], Status | None]:
    """Follow a model's stream that the application reads itself, after the outer run ended.

    What was over by then is the application's own affair: it may have tried another model.
    """
    waited = False

    def ending() -> Status | None:
        nonlocal waited
        # A model called by hand is the root, which is open until its stream is over.
        replied = run.end is not None or (run.parent is None and run.interaction.returned)
        if not waited and replied:
            return Status.OK
        waited = True
        if replied:
            return _taken_over(run, run)
        return Status.CLOSED if stream.over else None

    return ending


def chat_ending(run: Run, stream: Stream | None) -> Callable[[], Status | None]:
    """Follow a chat engine's stream, which LlamaIndex reads in a run that ends with the text.

    Old versions let the user read it, or read it in a thread that knows of no run.
    """
    read_by_user = None if stream is None else stream_ending(run, stream)

    def ending() -> Status | None:
        writer = next(_inside(run, lambda inner: inner.name == _WRITER), None)
        if writer is not None:
            return None if writer.end is None else _written(run, writer)
        return None if read_by_user is None else _spoken(run, read_by_user())

    return ending


def _written(run: Run, writer: Run) -> Status | None:
    """Return the writer's status; the text of old ones is that of the last model."""
    status = _taken_over(run, writer)
    if run.text is None and status is Status.OK:
        models = _inside(run, lambda inner: inner.kind is RunKind.MODEL)
        run.text = next((model.text for model in models), None)
    return _spoken(run, status)


def _spoken(run: Run, status: Status | None) -> Status | None:
    """Leave of an agent's text the answer: what it thought before, old versions do not give out."""
    if run.name == _REACT and run.text is not None and run.text.startswith(_THOUGHT):
        run.text = run.text.partition(_ANSWER)[2].strip() or run.text
    return status


def _taken_over(run: Run, last: Run) -> Status:
    """Take over text and failure of the last run inside; return its status."""
    run.text = None if run.text_unknown else last.text
    if last.error_type is None:
        return Status.OK
    status = _STATUS.get(last.error_type, Status.ERROR)
    if status is Status.ERROR:
        _blame(run, last.error_type)
    return status


def _blame(run: Run, error_type: str | None) -> None:
    if error_type is not None:
        run.error_type = run.interaction.root.error_type = error_type


def _inside(run: Run, wanted: Callable[[Run], bool]) -> Iterator[Run]:
    """Yield the runs inside another that are wanted, the last first."""
    return (r for r in reversed(run.interaction.runs) if wanted(r) and _is_inside(r, run))


def _is_inside(run: Run, outer: Run) -> bool:
    above = run.parent
    while above is not None and above is not outer:
        above = above.parent
    return above is outer
