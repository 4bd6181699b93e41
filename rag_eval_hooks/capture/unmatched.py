"""Reports handlers that no run reached, and options that name no run or tool."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import islice

from rag_eval_hooks.errors import nearest, unknown
from rag_eval_hooks.incidents import Incidents

_MOST_NAMES = 20
# By framework: its name, the other framework, and a module of the other framework.
_FRAMEWORKS = {
    "langchain": ("LangChain", "llama_index", "llama_index.core"),
    "llama_index": ("LlamaIndex", "langchain", "langchain_core"),
}


class Unmatched:
    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        # Observed names, by message, expected names and place. None after a match.
        self._names: dict[tuple[str, tuple[str, ...], str], dict[str, None] | None] = {}
        # Whether a run reached a handler, by the handler's place.
        self.handlers: dict[str, bool] = {}
        # Framework by the place of its `enable`.
        self.enabled: dict[str, str] = {}

    def is_named(
        self, told: str, wanted: Collection[str], names: Collection[str], place: str
    ) -> bool:
        seen = self._names.setdefault(key := (told, tuple(wanted), place), {})
        if is_met := any(name in wanted for name in names):
            self._names[key] = None
        elif seen is not None:
            seen |= dict.fromkeys(islice(names, max(0, _MOST_NAMES - len(seen))))
        return is_met

    def enable(self, framework: str, place: str, before: Unmatched | None) -> None:
        if before is not None and before is not self:
            advice = "Pass the same RagEval to all calls of enable()"
            self._incidents.mistake("enable() replaces the RagEval of an earlier call", advice)
            before.enabled.clear()
        self.enabled[place] = framework

    def report(self) -> None:
        for (told, wanted, place), seen in list(self._names.items()):
            if seen:
                meant = next((one for one in wanted if nearest(one, [*seen])), *wanted[:1])
                self._incidents.count(unknown(told, meant, [*seen]), detail=place)
        is_idle = not any(self.handlers.values())
        for place, framework in list(self.enabled.items()):
            name, other, module = _FRAMEWORKS[framework]
            if is_idle and module in sys.modules:
                told = f"rag_eval_hooks_{framework}.enable() captured no call of {name}. For "
                told += f"{_FRAMEWORKS[other][0]}, write: from rag_eval_hooks_{other} import enable"
                self._incidents.count(told, detail=f"at {place}")

    def report_unreached(self) -> None:
        for place in [place for place, is_reached in self.handlers.items() if not is_reached]:
            told = f"No run reached the handler created at {place}. Before evals.shutdown(), "
            self._incidents.count(told + 'call the chain with config={"callbacks": [handler]}')
        self.handlers.clear()
