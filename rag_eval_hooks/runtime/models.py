"""Judge, embedder and token scorer: objects or names passed to `RagEval`, else the settings'."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, kind_of
from rag_eval_hooks.evaluation.collect import Sources
from rag_eval_hooks.judges import (
    Embedder,
    Judge,
    TokenScorer,
    choose_embedder,
    choose_judge,
    choose_token_scorer,
)
from rag_eval_hooks.judges.callable_judge import CallableJudge, Function
from rag_eval_hooks.judges.cascade import Cascade
from rag_eval_hooks.judges.llm import metered
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS

__all__ = ["Models", "settings_of"]

_TABLES: Final = ((JUDGES, Judge), (EMBEDDERS, Embedder), (TOKEN_SCORERS, TokenScorer))


@dataclass(frozen=True, slots=True)
class Models:
    """Models that the application passed, each as a name, as an object, or not at all."""

    judge: str | Judge | Function | None = None
    embedder: str | Embedder | None = None
    token_scorer: str | TokenScorer | None = None

    def names(self) -> dict[str, str]:
        """Return the names among them by setting.

        Raises:
            ConfigError: One is neither a name nor an object that can be used.
        """
        names = {}
        given = (self._judge, self.embedder, self.token_scorer)
        for (table, protocol), value in zip(_TABLES, given, strict=True):
            if isinstance(value, str):
                names[table.setting] = value
            elif value is not None and (isinstance(value, type) or not isinstance(value, protocol)):
                # Not the object itself: a client, or its arguments, may show a key.
                wants = f"{table.wanted}, or an instance of {protocol.__name__}"
                raise ConfigError(table.setting, kind_of(value), wants + _way_to_wrap(value))
        return names

    def sources(self, config: RagEvalConfig) -> Sources:
        """Return the models in force, once `names` are in the settings."""
        judge = self._judge
        named = judge.second_name if isinstance(judge, Cascade) else None
        config = config if named is None else config.model_copy(update={"judge": named})
        embedder = self.embedder if isinstance(self.embedder, Embedder) else None
        is_own = named is None and isinstance(judge, Judge)
        if embedder is None and not (is_own and config.embedder == "auto"):
            # `auto` follows the judge of the settings; with a judge of the user's it means none.
            embedder = choose_embedder(config)
        if isinstance(judge, Cascade):
            made: Judge = judge.resolved(
                lambda name: choose_judge(config.model_copy(update={"judge": name}), embedder)
            )
        else:
            made = metered(judge if isinstance(judge, Judge) else choose_judge(config, embedder))
        scorer = self.token_scorer
        if not isinstance(scorer, TokenScorer):
            scorer = choose_token_scorer(config)
        return Sources(judge=made, embedder=embedder, scorer=scorer)

    @property
    def _judge(self) -> object:
        return CallableJudge(self.judge) if inspect.isroutine(self.judge) else self.judge


def settings_of(
    config: RagEvalConfig | None, models: Models, run_on: object, given: dict[str, Any]
) -> RagEvalConfig:
    """Return the settings in force: arguments over `config` over those of the process.

    Raises:
        ConfigError: A setting is unknown or a value is not accepted.
    """
    if config is not None and not isinstance(config, RagEvalConfig):
        raise ConfigError("config", type(config).__name__, "a RagEvalConfig")
    explicit: dict[str, Any] = {}
    if config is not None:
        explicit |= {name: getattr(config, name) for name in config.model_fields_set}
    explicit |= given | models.names()
    if run_on is not None:
        # Anything but a name is an application of Celery.
        explicit["run_on"] = run_on if isinstance(run_on, str) else "celery"
    return RagEvalConfig(**explicit)


def _way_to_wrap(value: object) -> str:
    """Return how an object of a framework becomes a judge, or nothing."""
    kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
    modules = {kind.__module__.partition(".")[0] for kind in kinds}
    if "langchain_core" in modules:
        return "; wrap it: rag_eval_hooks_langchain.LangChainJudge(model)"
    if "llama_index" in modules:
        return "; wrap it: rag_eval_hooks_llama_index.LlamaIndexJudge(llm)"
    if isinstance(value, type) or not callable(value):
        return ""
    return "; CallableJudge(function) makes one of any function"
