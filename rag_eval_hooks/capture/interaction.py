"""Records requests manually: the block `with evals.interaction(question) as it:`."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from opentelemetry import context as otel_context

from rag_eval_hooks import incidents
from rag_eval_hooks.capture.options import OWN_KEYS, objects_in
from rag_eval_hooks.capture.records import Origin, Run, RunKind
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.errors import InputError, check_type, unknown, wrong_type
from rag_eval_hooks.incidents import Incidents, host_edge
from rag_eval_hooks.sample import texts_of

if TYPE_CHECKING:
    from rag_eval_hooks.capture.recorder import Recorder

_PACKAGE = __name__.rpartition(".")[0] + "."
_RECORDING = ("contexts", "answer", "metadata")
_OUTSIDE = "outside the with block"
_MANY_ANSWERS = 4
_MAPPING = "a mapping, such as {'session_id': ...}"
_HELPERS = contextlib.__name__
_INCIDENTS = incidents.__name__


class BlockEnd(NamedTuple):
    place: str
    has_answer: bool


class ManualInteraction:
    """A request that the application records in a block of `RagEval.interaction`.

    The object is a synchronous and an asynchronous context manager.

    Framework runs inside the block become steps of this request. Runs in another task or thread
    become steps if the task or thread copied the block's `contextvars` and the block is open.

    A block inside a framework's run creates no request. The run's request receives the block's
    contexts and metadata. If that request has no answer, it also receives the block's answer.

    A block inside another block is a separate request only if the two questions differ. Otherwise,
    the inner block adds its values to the outer block's request.

    A server may end its span before a streamed response opens the block. In that case, the
    request joins the trace that was current when the application called `interaction()`.

    `it.answer = text` calls `it.answer(text)`. Assignments to `it.contexts` and
    `it.metadata` work the same way.
    """

    def __init__(
        self,
        recorder: Recorder,
        incidents: Incidents,
        question: str | None,
        *,
        metadata: Mapping[str, Any] | None,
        tags: Sequence[str] | None,
        name: str | None,
        keywords: Collection[str],
    ) -> None:
        self._recorder = recorder
        self._incidents = incidents
        self._made_in = otel_context.get_current()
        self._run: Run | None = None
        self._state, self._thread = _OUTSIDE, 0
        self._answers = 0
        self._outer: ManualInteraction | None = None
        self._frame: FrameType | None = None
        if question is None or (isinstance(question, str) and not question.strip()):
            incidents.mistake("interaction() received no question", "Pass the user's question")
        self._question: str = self._read("question", _text, question) or ""
        self._metadata: dict[str, Any] = self._read("metadata", self._entries, metadata) or {}
        self._tags: tuple[str, ...] = self._read("tags", texts_of, tags) or ()
        self._name: str = self._read("name", _text, name) or "interaction"
        for keyword in keywords:
            incidents.mistake(*_no_keyword(keyword))

    def _read(self, field: str, read: Callable[[str, Any], Any], value: Any) -> Any:
        try:
            return None if value is None else read(field, value)
        except Exception as error:  # noqa: BLE001 - the application may pass any object
            self._incidents.report(f"capture interaction {field}", error)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _RECORDING:
            getattr(self, name)(value)
            return
        if name[0] != "_":
            self._incidents.mistake(unknown("the interaction has no field", name, _RECORDING))
        super().__setattr__(name, value)

    def _opened(self, method: str) -> Run | None:
        if self._state:
            advice = "Write: `with evals.interaction(question) as it:`"
            if self._state != _OUTSIDE and self._thread != threading.get_ident():
                advice = "Wait for all threads that record values before you leave the block"
            self._incidents.mistake(f"it.{method}() was called {self._state}", advice)
        return self._run

    @host_edge
    def contexts(self, *documents: Any) -> None:
        """Record the retrieved documents that your code gives to the model.

        Args:
            documents: One document or several: texts, `Context` objects, mappings with a `text`,
                or LangChain documents. Each call appends documents to the documents of earlier
                calls, without repeated texts. An empty list means that retrieval found nothing.
        """
        if not documents:
            raise InputError("it.contexts() needs documents. If retrieval found none, pass [].")
        if (run := self._opened("contexts")) is not None:
            given = documents[0] if len(documents) == 1 else documents
            found = _unless_lost(run, "contexts", lambda: contexts_of(given))
            self._recorder.defer(
                run, "contexts", self._recorder.documents, run, found, Origin.STATED
            )

    @host_edge
    def answer(self, text: Any) -> None:
        """Record the answer. If the block calls this method repeatedly, the last call wins.

        Args:
            text: A text, a framework's message or response, or None if there is no answer.
        """
        if (run := self._opened("answer")) is not None:
            self._answers += 1
            if self._answers == _MANY_ANSWERS:
                advice = "Only the last call counts. Join a stream's parts, and call answer() once"
                self._incidents.mistake("An interaction() block called answer() repeatedly", advice)
            self._recorder.answer(run, _unless_lost(run, "answer", lambda: _text("answer", text)))

    @host_edge
    def metadata(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Add metadata, such as `session_id`. A repeated key replaces the earlier value."""
        if (run := self._opened("metadata")) is not None:
            check_type("metadata", values, Mapping, _MAPPING)
            run.interaction.add_metadata(self._entries("metadata", {**(values or {}), **more}))

    def _entries(self, name: str, values: Any) -> dict[str, Any]:
        check_type(name, values, Mapping, _MAPPING)
        own = dict(values)
        for key, told in objects_in(own).items():
            del own[key]
            self._incidents.mistake(told, "capture omits this key")
        return own

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException as interruption:
            # A signal handler raised before the block started, so close the block here.
            self._close(interruption)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._close(error)
        except BaseException as interruption:
            self._close(interruption)
            raise

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    @host_edge
    def _open(self) -> None:
        self._state, self._thread = "", threading.get_ident()
        outer = (block._question for block in _around(self._recorder))
        asked = next(filter(None, outer), "")
        self._run = run = self._recorder.start(
            object(),
            None,
            RunKind.MANUAL,
            self._name,
            self._metadata,
            self._tags,
            apart=bool(asked and self._question) and asked != self._question,
        )
        if run is None:
            return
        self._recorder.question(run, self._question)
        interaction = run.interaction
        if run.parent is not None:
            interaction.add_metadata(self._metadata)
        elif not interaction.span_context.is_valid:
            interaction.otel = self._made_in
        self._frame = _caller_outside()
        self._outer = next(_opened_blocks(), None)
        _current.set(self)

    @host_edge
    def _close(self, error: BaseException | None) -> None:
        run, frame, self._run, self._frame = self._run, self._frame, None, None
        self._state = "after the with block ended"
        # A generator may be closed in another context, where we must not reset the value.
        if _current.get() is self:
            _current.set(next(_opened_blocks(), None))
        if run is not None and error is not None:
            self._recorder.fail(run, error)
        elif run is not None:
            if frame is not None:
                place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
                run.state = BlockEnd(place, has_answer=self._answers > 0)
            self._recorder.end(run)


_current: ContextVar[ManualInteraction | None] = ContextVar("rag_eval_interaction", default=None)


def enclosing_run(recorder: object) -> Run | None:
    around = None if _current.get() is None else _around(recorder)
    return around[0]._run if around else None


def enclosing_interactions() -> list[ManualInteraction]:
    recorders = dict.fromkeys(block._recorder for block in _opened_blocks())
    return [around[0] for recorder in recorders if (around := _around(recorder))]


def _around(recorder: object) -> list[ManualInteraction]:
    # Open blocks, innermost first.
    blocks = [block for block in _opened_blocks() if block._recorder is recorder]
    if len(blocks) > 1 and _is_generator(blocks[0]._frame):
        # The context variable of a suspended generator stays set, but the stack lacks its frame.
        on_stack = (n for frame in _stack() for n, b in enumerate(blocks) if b._frame is frame)
        return blocks[next(on_stack, len(blocks)) :]
    return blocks


def _opened_blocks() -> Iterator[ManualInteraction]:
    block = _current.get()
    while block is not None:
        if block._run is not None and block._run.end is None:
            yield block
        block = block._outer


def _stack() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _caller_outside() -> FrameType | None:
    outside: FrameType | None = None
    for frame in _stack():
        module = frame.f_globals.get("__name__", "")
        if outside is None:
            inside = module.startswith(_PACKAGE) or module in (_HELPERS, _INCIDENTS)
            outside = None if inside else frame
        elif module == _HELPERS and _is_generator(outside):
            outside = None
        else:
            break
    return outside


def _is_generator(frame: FrameType | None) -> bool:
    flags = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
    return frame is not None and bool(frame.f_code.co_flags & flags)


def _unless_lost(run: Run, part: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:
        run.interaction.left_out.add(part)
        raise


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    attributes = (getattr(value, name, None) for name in ("content", "text", "response"))
    if (text := next((one for one in attributes if isinstance(one, str)), None)) is None:
        raise wrong_type(name, "a text", value, "Pass its text.")
    return text


def _no_keyword(name: str) -> tuple[str, str]:
    told = unknown("interaction() has no option", name, _RECORDING)
    if name in OWN_KEYS:
        return told, f"Pass metadata={{{name!r}: ...}}"
    known = f"with evals.interaction(question) as it: it.{name}(...)"
    return told, f"Write: `{known}`" if name in _RECORDING else ""
