"""`RagEvalMiddleware`, which captures the runs of an agent."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NotRequired, Unpack
from uuid import UUID, uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langgraph.channels import UntrackedValue

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture.options import CaptureKeywords
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks.sample import Status
from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler
from rag_eval_hooks_langchain.surroundings import (
    AMBIENT,
    ask_ambient,
    current_manager,
    current_run_id,
    key_of,
)

_RunId = Annotated[UUID, UntrackedValue, PrivateStateAttr]


class _RequestState(AgentState[Any]):  # type: ignore[misc]
    rag_eval_run: NotRequired[_RunId]  # type: ignore[valid-type]


class RagEvalMiddleware(AgentMiddleware[_RequestState, Any, Any]):  # type: ignore[misc]
    """Captures all runs of an agent: `create_agent(..., middleware=[RagEvalMiddleware(evals)])`.

    If a run also has a `RagEvalCallbackHandler` for `evals`, capture records the run only once. For
    agents with human-in-the-loop interrupts, use `RagEvalCallbackHandler` instead of the
    middleware. Both classes accept the same arguments.
    """

    state_schema = _RequestState

    def __init__(self, evals: RagEval, **options: Unpack[CaptureKeywords]) -> None:
        super().__init__()
        ask_ambient()
        self._callbacks = RagEvalCallbackHandler(evals, **options)
        self._incidents, self._recorder = evals.incidents, evals.recorder
        self._recorder.unmatched.handlers[self._callbacks.place] = True

    @host_edge
    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        if self._recorder.knows(current_run_id()):
            return None
        metadata = getattr(current_manager(), "metadata", None) or {}
        own = {key: one for key, one in metadata.items() if not key.startswith("langgraph_")}
        run_id = uuid4()
        told = {"run_id": run_id, "name": own.get("lc_agent_name") or "LangGraph", "metadata": own}
        self._callbacks.on_chain_start(None, _this_turn(state), **told)
        run = self._recorder.get(key_of(run_id))
        if run is None:
            return None
        # No hook reports a failed agent. But after a failure, no object refers to the run's id.
        held = weakref.ref(run_id)
        run.interaction.streams.append(lambda: Status.CANCELLED if held() is None else None)
        self._recorder.end(run)
        return {"rag_eval_run": run_id}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self.before_agent(state, runtime)

    @host_edge
    def after_agent(self, state: Any, runtime: Any) -> None:
        run_id = state.get("rag_eval_run")
        if (run := self._recorder.get(key_of(run_id))) is not None:
            run.interaction.streams.clear()
            self._callbacks.on_chain_end(_this_turn(state), run_id=run_id)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        self.after_agent(state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        with self._inside(request):
            return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        with self._inside(request):
            return await handler(request)

    wrap_tool_call, awrap_tool_call = wrap_model_call, awrap_model_call

    @contextmanager
    def _inside(self, request: Any) -> Iterator[None]:
        root = request.state.get("rag_eval_run")
        step_id = getattr(current_manager(), "parent_run_id", None)
        if root is None or step_id is None:
            yield
            return
        self._callbacks.on_chain_start(None, None, run_id=step_id, parent_run_id=root, name="step")
        token = AMBIENT.here.set(self._callbacks)
        try:
            yield
        finally:
            AMBIENT.here.reset(token)
            self._callbacks.on_chain_end(None, run_id=step_id)


def _this_turn(state: Any) -> dict[str, Any]:
    messages = list(state["messages"])
    asked = [place for place, one in enumerate(messages) if one.type == "human"]
    own = {key: one for key, one in state.items() if key != "rag_eval_run"}
    return {**own, "messages": messages[asked[-1] if asked else 0 :]}
