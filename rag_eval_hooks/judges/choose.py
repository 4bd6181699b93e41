"""From settings to the judge and the embedder they name. Nothing is imported before it is named."""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING, Any

from rag_eval_hooks.config.groups import EMBEDDERS, TOKEN_SCORERS
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.base import Embedder, Judge, TokenScorer

if TYPE_CHECKING:
    from rag_eval_hooks.judges.openai import OpenAIJudge
    from rag_eval_hooks.judges.openai_chat import OpenAIChat
    from rag_eval_hooks.judges.prices import Prices

__all__ = ["choose_embedder", "choose_judge", "choose_token_scorer", "openai_chat"]

_logger = logging.getLogger("rag_eval_hooks")

_MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_DEBERTA = "microsoft/deberta-xlarge-mnli"
_OPENAI_EMBEDDING = "text-embedding-3-small"


def choose_judge(config: RagEvalConfig, embedder: Embedder | None) -> Judge:
    """The judge that `config.judge` names.

    Args:
        config: The settings.
        embedder: What the embedded judge may add to its rules.

    Raises:
        ConfigError: The name is unknown, or a hosted judge has no key.
        ImportError: The judge's extra is not installed; the text names the pip command.
    """
    kind, _, model = config.judge.partition(":")
    if config.judge == "local":
        from rag_eval_hooks.judges.local import LocalJudge

        return LocalJudge(embedder)
    if kind == "openai" and model.strip():
        return _openai_judge(config, model.strip())
    raise ConfigError("judge", config.judge, "'local', 'openai:<model>' or a Judge")


def choose_embedder(config: RagEvalConfig) -> Embedder | None:
    """The embedder that `config.embedder` names, or None.

    Raises:
        ConfigError: The name is unknown, or a hosted embedder has no key.
        ImportError: The embedder's extra is not installed.
    """
    kind, _, model = _resolve_auto(config).partition(":")
    if kind == "none" and not model:
        return None
    if kind == "openai" and model:
        from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder

        return OpenAIEmbedder(model, prices=_prices(config), **_endpoint(config))
    if kind == "sentence-transformers":
        from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder

        return SentenceEmbedder(model or _MINILM, process=config.model_process)
    raise ConfigError("embedder", config.embedder, f"{EMBEDDERS}, or an Embedder")


def choose_token_scorer(config: RagEvalConfig) -> TokenScorer | None:
    """The token scorer that `config.token_scorer` names, or None.

    Raises:
        ConfigError: The name is unknown.
        ImportError: The extra `bertscore` is not installed.
    """
    kind, _, model = config.token_scorer.partition(":")
    if config.token_scorer == "none":
        return None
    if kind != "bert-score":
        raise ConfigError("token_scorer", config.token_scorer, f"{TOKEN_SCORERS}, or a TokenScorer")
    from rag_eval_hooks.judges.bert_scorer import BertScorer

    return BertScorer(model or _DEBERTA, process=config.model_process)


def openai_chat(config: RagEvalConfig, model: str) -> OpenAIChat:
    """The model of an OpenAI judge alone: without memo and prices.

    Raises:
        ConfigError: There is no key.
        ImportError: The extra `openai` is not installed.
    """
    from rag_eval_hooks.judges.client_options import ClientOptions

    options = ClientOptions(**_endpoint(config))
    from rag_eval_hooks.judges.openai_chat import OpenAIChat

    return OpenAIChat(model, options, temperature=config.judge_temperature)


def _openai_judge(config: RagEvalConfig, model: str) -> OpenAIJudge:
    from rag_eval_hooks.judges.memo import Memo
    from rag_eval_hooks.judges.openai import OpenAIJudge

    return OpenAIJudge(
        model,
        temperature=config.judge_temperature,
        memo=Memo(config.judge_memo),
        prices=_prices(config),
        calls=config.calls,
        nvidia_calls=config.nvidia_calls,
        **_endpoint(config),
    )


def _prices(config: RagEvalConfig) -> Prices | None:
    from rag_eval_hooks.judges.prices import Prices

    if config.judge_prices is None:
        return None
    try:
        return Prices.read(config.judge_prices)
    except ConfigError as error:
        # The table's own word for itself is not that of the setting.
        raise ConfigError(f"judge_{error.field}", error.got, error.wants) from None


def _endpoint(config: RagEvalConfig) -> dict[str, Any]:
    _require("openai", "openai")
    if config.judge_api_key is None and config.judge_base_url is None:
        wants = "a key (RAG_EVAL_JUDGE_API_KEY or OPENAI_API_KEY), or judge_base_url without one"
        raise ConfigError("judge_api_key", None, wants)
    key = config.judge_api_key
    return {
        "base_url": config.judge_base_url,
        "api_key": None if key is None else key.get_secret_value(),
        "headers": {k: v.get_secret_value() for k, v in config.judge_headers.items()},
        "query": {k: v.get_secret_value() for k, v in config.judge_query.items()},
        "timeout": config.judge_timeout,
        "retries": config.judge_retries,
        "concurrency": config.judge_concurrency,
    }


def _resolve_auto(config: RagEvalConfig) -> str:
    """What `auto` means: the judge's own endpoint, or MiniLM where that costs no download."""
    if config.embedder != "auto":
        return config.embedder
    if config.judge.startswith("openai:"):
        return f"openai:{_OPENAI_EMBEDDING}"
    if not _installed("sentence_transformers"):
        return "none"
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(_MINILM, "modules.json"), str):
        return f"sentence-transformers:{_MINILM}"
    _logger.info("%s is not on disk; set embedder to its name or a path to use it", _MINILM)
    return "none"


def _require(module: str, extra: str) -> None:
    if not _installed(module):
        raise ImportError(f'{module} is not installed: pip install "rag-eval-hooks[{extra}]"')


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
