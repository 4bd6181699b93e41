"""Factories of the judges, embedders and token scorers that settings name."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any, Final, cast

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.base import Embedder, Judge, TokenScorer
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS

__all__ = ["choose_embedder", "choose_judge", "choose_token_scorer"]

_logger = logging.getLogger("rag_eval_hooks")

_MINILM: Final = "sentence-transformers/all-MiniLM-L6-v2"
_OLLAMA: Final = "http://localhost:11434/v1"
_DEBERTA: Final = "microsoft/deberta-xlarge-mnli"


def choose_judge(config: RagEvalConfig, embedder: Embedder | None, **options: Any) -> Judge:
    """Make the judge that `config.judge` names.

    Args:
        config: The settings.
        embedder: Adds vectors to the rules of the local judge.
        **options: Options of the client, for a judge with an endpoint.

    Raises:
        ConfigError: The name is unknown, or a hosted judge has no key.
        ImportError: The judge's extra is not installed; the text names the pip command.
    """
    return cast(Judge, JUDGES.find(config.judge).make(config, config.judge, embedder, **options))


def choose_embedder(config: RagEvalConfig, **options: Any) -> Embedder | None:
    """Make the embedder that `config.embedder` names, or None. Options as for a judge.

    Raises:
        ConfigError: The name is unknown, or a hosted embedder has no key.
        ImportError: The embedder's extra is not installed.
    """
    row = EMBEDDERS.find(config.embedder)
    return cast(Embedder | None, row.make(config, config.embedder, **options))


def choose_token_scorer(config: RagEvalConfig) -> TokenScorer | None:
    """Make the token scorer that `config.token_scorer` names, or None.

    Raises:
        ConfigError: The name is unknown.
        ImportError: The extra `bertscore` is not installed.
    """
    row = TOKEN_SCORERS.find(config.token_scorer)
    return cast(TokenScorer | None, row.make(config, config.token_scorer))


def local_judge(
    _config: RagEvalConfig, _model: str, embedder: Embedder | None, **_options: Any
) -> Judge:
    """Make the embedded judge."""
    from rag_eval_hooks.judges.heuristic import LocalJudge

    return LocalJudge(embedder)


def nli_judge(
    _config: RagEvalConfig, model: str, embedder: Embedder | None, **_options: Any
) -> Judge:
    """Make the embedded judge with an entailment model for what words leave open."""
    from rag_eval_hooks.judges.heuristic import LocalJudge
    from rag_eval_hooks.judges.heuristic.entailer import Entailer

    return LocalJudge(embedder, entailer=Entailer(model))


def openai_judge(
    config: RagEvalConfig, model: str, _embedder: Embedder | None, **options: Any
) -> Judge:
    """Make a judge over an OpenAI-compatible endpoint, with a memo in memory by default."""
    from rag_eval_hooks.judges.memo import Memo
    from rag_eval_hooks.judges.openai import OpenAIJudge
    from rag_eval_hooks.judges.prices import prices_of

    given = {"memo": Memo(), "prices": prices_of(config), **_endpoint(config), **options}
    return OpenAIJudge(model, **given)


def azure_judge(
    config: RagEvalConfig, deployment: str, embedder: Embedder | None, **options: Any
) -> Judge:
    """Make a judge over a deployment of Azure OpenAI."""
    return openai_judge(_at_azure(config), deployment, embedder, **options)


def ollama_judge(
    config: RagEvalConfig, model: str, embedder: Embedder | None, **options: Any
) -> Judge:
    """Make a judge over an Ollama server, by default the one on this machine."""
    return openai_judge(_at_ollama(config), model, embedder, **options)


def openai_embedder(config: RagEvalConfig, model: str, **options: Any) -> Embedder:
    """Make an embedder over an OpenAI-compatible endpoint."""
    from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
    from rag_eval_hooks.judges.prices import prices_of

    return OpenAIEmbedder(model, **{"prices": prices_of(config), **_endpoint(config), **options})


def azure_embedder(config: RagEvalConfig, deployment: str, **options: Any) -> Embedder:
    """Make an embedder over a deployment of Azure OpenAI."""
    return openai_embedder(_at_azure(config), deployment, **options)


def ollama_embedder(config: RagEvalConfig, model: str, **options: Any) -> Embedder:
    """Make an embedder over an Ollama server, by default the one on this machine."""
    return openai_embedder(_at_ollama(config), model, **options)


def sentence_embedder(_config: RagEvalConfig, model: str, **_options: Any) -> Embedder:
    """Make an embedder over a sentence-transformers model."""
    from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder

    return SentenceEmbedder(model or _MINILM)


def auto_embedder(config: RagEvalConfig, _model: str, **options: Any) -> Embedder | None:
    """Make the embedder of the judge's endpoint, or MiniLM where that costs no download."""
    setting = JUDGES.find(config.judge).embedder
    if setting is not None:
        return cast(Embedder, EMBEDDERS.find(setting).make(config, setting, **options))
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(_MINILM, "modules.json"), str):
        return sentence_embedder(config, _MINILM)
    _logger.info("%s is not on disk; set embedder to its name or a path to use it", _MINILM)
    return None


def bert_scorer(_config: RagEvalConfig, model: str) -> TokenScorer:
    """Make a token scorer by BERTScore."""
    from rag_eval_hooks.judges.bert_scorer import BertScorer

    return BertScorer(model or _DEBERTA)


def _at_azure(config: RagEvalConfig) -> RagEvalConfig:
    """Return the settings with the address of Azure's API without versions."""
    if config.judge_base_url is None:
        wants = "the resource's address (RAG_EVAL_JUDGE_BASE_URL or AZURE_OPENAI_ENDPOINT)"
        raise ConfigError("judge_base_url", None, wants)
    address = config.judge_base_url.rstrip("/").removesuffix("/openai/v1")
    return config.model_copy(update={"judge_base_url": f"{address}/openai/v1"})


def _at_ollama(config: RagEvalConfig) -> RagEvalConfig:
    return config.model_copy(update={"judge_base_url": config.judge_base_url or _OLLAMA})


def _endpoint(config: RagEvalConfig) -> dict[str, Any]:
    if config.judge_api_key is None and config.judge_base_url is None:
        wants = "a key (RAG_EVAL_JUDGE_API_KEY or OPENAI_API_KEY), or judge_base_url without one"
        raise ConfigError("judge_api_key", None, wants)
    key = config.judge_api_key
    return {
        "base_url": config.judge_base_url,
        "api_key": None if key is None else key.get_secret_value(),
        "headers": {k: v.get_secret_value() for k, v in config.judge_headers.items()},
        "timeout": config.judge_timeout,
        "retries": limits.JUDGE_RETRIES,
        "concurrency": config.judge_concurrency,
    }
