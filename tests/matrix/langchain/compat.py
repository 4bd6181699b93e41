"""The same parts by the names that they have in LangChain 0.3 and 1.x."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


_CLASSIC = next(
    (name for name in ("langchain_classic", "langchain") if has(f"{name}.chains")), None
)
CLASSIC_MISSING = None if _CLASSIC else "langchain-classic is not installed"
GRAPHS_MISSING = None if has("langgraph.graph") else "langgraph is not installed"
MIDDLEWARE_MISSING = (
    None if has("langchain.agents.middleware") else "this version of LangChain has no middleware"
)


def classic(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"{_CLASSIC}.{module}"), name)


def agent(model: Any, tools: list[Any], **more: Any) -> Any:
    if MIDDLEWARE_MISSING is None:
        return import_module("langchain.agents").create_agent(model, tools, **more)
    return import_module("langgraph.prebuilt").create_react_agent(model, tools, **more)


AGENTS_MISSING = GRAPHS_MISSING
