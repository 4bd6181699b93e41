"""Says from inside a run what the model is given."""

from __future__ import annotations

from typing import Any

from rag_eval_hooks.capture.scopes import enclosing_scopes
from rag_eval_hooks_langchain.callback_handler import RagEvalCallbackHandler
from rag_eval_hooks_langchain.surroundings import current_handlers, current_run_id

__all__ = ["record_contexts"]


def record_contexts(documents: Any) -> bool:
    """Records documents as what the running step gives to the model.

    For what no event shows: a search in a middleware whose result goes into the system prompt, a
    call of a service, text put together by hand. Call it in a node, tool, middleware or lambda;
    whether the model really saw the documents is still found from its prompt.

    In an `evals.interaction(...)` outside of any run it says what `it.contexts` says.

    Args:
        documents: Texts, documents of LangChain, pairs with a score, mappings, or one of them.

    Returns:
        Whether a handler of ours, or an interaction, heard it.
    """
    run_id = current_run_id()
    ours = [h for h in current_handlers() if isinstance(h, RagEvalCallbackHandler)]
    if run_id is not None and ours:
        for handler in ours:
            handler.record(documents, run_id)
        return True
    scopes = enclosing_scopes()
    for scope in scopes:
        scope.contexts(documents)
    return bool(scopes)
