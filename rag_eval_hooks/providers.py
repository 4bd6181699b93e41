"""The names of judges, embedders and sinks that settings accept.

To add a name, add a row here, and add a case in `judges/__init__.py` or `delivery/dispatch.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from rag_eval_hooks.errors import ConfigError, masked, nearest

_URL: Final = ":<url>"


@dataclass(frozen=True, slots=True)
class NameTable:
    setting: str
    rows: Mapping[str, str]  # ":<model>" requires a text after the name, "[:<model>]" permits one
    hint: str = ""  # advice for an unknown value; `{}` stands for the text after the colon

    @property
    def wanted(self) -> str:
        *first, last = (f"'{name}{rest}'" for name, rest in self.rows.items())
        return f"{', '.join(first)} or {last}"

    def check(self, value: str) -> str:
        self.parts(value)
        return value

    def parts(self, value: str) -> tuple[str, str]:
        name, colon, behind = value.partition(":")
        rest, behind = self.rows.get(name), behind.strip()
        if rest is None:
            raise ConfigError(self.setting, value, self.wanted + self._hint(name, colon, behind))
        if not (behind if rest.startswith(":") else rest or not colon):
            raise ConfigError(self.setting, value, self.wanted)
        if rest == _URL and not is_url(behind):
            # The error must not contain the URL's credentials.
            shown = f"{name}:**********" if "@" in value else value
            wants = f"'{name}{rest}' with a URL without credentials or parameters"
            raise ConfigError(self.setting, shown, wants)
        return name, behind

    def _hint(self, name: str, colon: str, behind: str) -> str:
        near = None if "." in name else nearest(name.lower(), list(self.rows))
        if near is not None:
            return f"; did you mean '{near}{colon}{masked(behind)}'?"
        return "" if "//" in name + behind or not name else self.hint.format(behind or name)


def is_url(text: str) -> bool:
    # Logs show these URLs, so a URL with credentials or query parameters is invalid.
    try:
        parts = urlsplit(text)
        is_plain = parts.username is None and not parts.query and parts.port != 0
    except ValueError:
        return False
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


_BY_OPENAI: Final = {"openai": ":<model>", "azure": ":<deployment>", "ollama": ":<model>"}
JUDGES: Final = NameTable(
    "judge",
    {"heuristic": "", "nli": ":<minilm, path or name>", **_BY_OPENAI}
    | {"openai-decisions": ":<model>", "systemone": ":<model or url>"},
    "; did you mean 'openai:{}'? 'openai' accepts every model of an OpenAI-compatible API at "
    "judge_base_url. For any other model, pass LangChainJudge(model)",
)
EMBEDDERS: Final = NameTable(
    "embedder",
    {"auto": "", "none": "", **_BY_OPENAI, "sentence-transformers": "[:<name or path>]"},
)
SINKS: Final = NameTable(
    "sinks",
    {"console": "", "jsonl": ":<path>", "phoenix": _URL, "mlflow": _URL, "langfuse": _URL},
    "; did you mean 'jsonl:{}'?",
)
SINK_KEYS: Final = {
    "phoenix": "<key>", "mlflow": "<token>", "langfuse": "<public key>:<secret key>"
}  # fmt: skip
