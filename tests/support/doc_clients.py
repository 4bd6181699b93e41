"""Stands in for the client of LlamaIndex's OpenAI models, which excludes the newest `openai`."""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec

PACKAGE, MODULE = "llama_index.llms", "llama_index.llms.openai"


def openai_model(**_: object) -> object:
    from llama_index.core.llms import MockLLM

    return MockLLM()


if find_spec("llama_index") and not find_spec(PACKAGE):
    sys.modules[PACKAGE] = types.ModuleType(PACKAGE)
    sys.modules[MODULE] = types.ModuleType(MODULE)
    sys.modules[MODULE].OpenAI = openai_model  # type: ignore[attr-defined]
