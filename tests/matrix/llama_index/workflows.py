"""Workflows of drawn names. Old versions cannot read annotations that are kept as texts."""

from collections.abc import Callable
from typing import Any

from llama_index.core.workflow import Context, Event, Workflow, step

from tests.support.variation import Variation


def store(ctx: Any) -> Any:
    """Return the store that steps share; old versions keep it in the context itself."""
    return getattr(ctx, "store", ctx)


def event(draw: Variation, *names: str) -> Any:
    fields = dict.fromkeys(names, Any)
    return type(draw.name().title(), (Event,), {"__annotations__": fields, "__module__": __name__})


def flow(
    draw: Variation,
    *steps: tuple[Callable[..., Any], Any, Any],
    workers: int = 1,
    timeout: float = 120.0,
    **options: Any,
) -> Any:
    """A workflow of functions of context and event, each with what it takes and gives."""
    methods: dict[str, Any] = {"__module__": __name__}
    name = draw.name().title()

    def method_of(body: Callable[..., Any], takes: Any, gives: Any) -> Any:
        async def method(self: Any, ctx: Any, ev: Any) -> Any:
            return await body(ctx, ev)

        called = draw.name()
        method.__name__, method.__qualname__ = called, f"{name}.{called}"
        method.__annotations__ = {"ctx": Context, "ev": takes, "return": gives}
        methods[called] = step(num_workers=workers)(method)

    for one in steps:
        method_of(*one)
    return type(name, (Workflow,), methods)(timeout=timeout, **options)
