"""How the reading of a streamed answer ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index.reading import Reading
from rag_eval_hooks_llama_index.streams import Stream

__all__ = ["chat_ending", "model_ending", "reading_ending", "stream_ending"]

_WRITER = StreamingAgentChatResponse.__name__
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}


def stream_ending(run: Run, stream: Stream) -> Callable[[], Status | None]:
    """Of a query engine's stream: when its generator is over, its last model call tells how."""

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
    run: Run, reading: Reading, keep: Callable[[Run, str | None], str | None]
) -> Callable[[], Status | None]:
    """Of a stream that is watched: as its reading ended; dropped before that it is closed.

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
    """Of a model's stream that the application reads itself, after what encloses it has ended.

    What was over by then is the application's own affair: it may have tried another model.
    """
    waited = False

    def ending() -> Status | None:
        nonlocal waited
        if not waited and run.end is not None:
            return Status.OK
        waited = True
        if run.end is not None:
            return _taken_over(run, run)
        return Status.CLOSED if stream.over else None

    return ending


def chat_ending(run: Run, stream: Stream | None) -> Callable[[], Status | None]:
    """Of a chat engine's stream: LlamaIndex reads it itself, in a run that ends with the text.

    Old versions let the user read it, or read it in a thread that knows of no run.
    """
    read_by_user = None if stream is None else stream_ending(run, stream)

    def ending() -> Status | None:
        writer = next(_inside(run, lambda inner: inner.name == _WRITER), None)
        if writer is not None:
            return None if writer.end is None else _written(run, writer)
        return None if read_by_user is None else read_by_user()

    return ending


def _written(run: Run, writer: Run) -> Status:
    """As the writer ended; old ones do not tell the text, which is that of the last model."""
    status = _taken_over(run, writer)
    if run.text is None and status is Status.OK:
        models = _inside(run, lambda inner: inner.kind is RunKind.MODEL)
        run.text = next((model.text for model in models), None)
    return status


def _taken_over(run: Run, last: Run) -> Status:
    """The text and the failure of the last run inside, which are those of the outer one."""
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
    """The runs inside another that are wanted, the last first."""
    return (r for r in reversed(run.interaction.runs) if wanted(r) and _is_inside(r, run))


def _is_inside(run: Run, outer: Run) -> bool:
    above = run.parent
    while above is not None and above is not outer:
        above = above.parent
    return above is outer
