"""Decision models over HTTP: OpenAI's Decisions API, or a System One server."""

from __future__ import annotations

from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.context import Meter
from rag_eval_hooks.judges.decision_model import DecisionModel, Questions, system_one
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint, field
from rag_eval_hooks.prompts.questions import Question

_KINDS: Final = ("openai-decisions", "systemone")
_TYPESAFE: Final = "https://api.typesafe.ai/v1"
_OPTIONS: Final = {"choice": ("choices", "value"), "score": ("levels", "label")}


class DecisionEndpoint(DecisionModel):
    """A decision model behind `/decisions` or `/systemone`.

    Args:
        name: `openai-decisions:<model>`, `systemone:<model>` or `systemone:<url>`. With a URL, the
            server chooses the model.
        keywords: Fields of `ClientOptions`. They are removed from the mapping.
    """

    def __init__(self, name: str, keywords: dict[str, Any]) -> None:
        kind, _, model = name.partition(":")
        if kind not in _KINDS or not model:
            raise ConfigError(
                "model", name, "'openai-decisions:<model>' or 'systemone:<model or url>'"
            )
        self._speaks_openai = kind == "openai-decisions"
        self._path = "/decisions" if self._speaks_openai else "/systemone"
        self._model = {} if "://" in model else {"model": model}
        if not self._speaks_openai:
            keywords["base_url"] = _root(keywords, model)
        options = ClientOptions.taken_from(keywords)
        self._endpoint = Endpoint(options)
        self.host = self._endpoint.host
        hosts = {_TYPESAFE: "typesafe"}
        provider = "openai" if self._speaks_openai else hosts.get(f"{options.base_url}")
        super().__init__(name, options, provider=provider, scope=str(options.base_url))

    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        body: dict[str, Any] = dict(self._model)
        # Uses the client's low-level method, because only openai 3 has `decisions`.
        if self._speaks_openai:
            roles = {"system": system, "user": state}
            body["input"] = [{"role": role, "content": text} for role, text in roles.items()]
            body["questions"] = [_decision(name, one) for name, one in questions.items()]
        else:
            body["state"] = f"{system}\n\n{state}"
            body["questions"] = {name: system_one(one) for name, one in questions.items()}
        reply = await self._endpoint.post(self._path, body, meter)
        used, model, reply_id = (field(reply, name) for name in ("usage", "model", "id"))
        tokens = field(used, "input_tokens"), field(used, "output_tokens")
        meter.replied(*tokens, model=model, id=reply_id)
        return field(reply, "answers")

    async def aclose(self) -> None:
        await self._endpoint.aclose()


def _decision(name: str, question: Question) -> dict[str, Any]:
    kind, text, options = question
    asked: dict[str, Any] = {"type": kind, "name": name, "instructions": text}
    if kind in _OPTIONS:
        group, key = _OPTIONS[kind]
        asked[group] = [{key: option} for option in options]
    return asked


def _root(keywords: dict[str, Any], model: str) -> str | None:
    address = model if "://" in model else keywords.get("base_url")
    if address is None:
        return _TYPESAFE if keywords.get("api_key") else None
    return f"{address.rstrip('/').removesuffix('/systemone').removesuffix('/v1')}/v1"
