"""The example sample and findings of `example.toml`, for documentation and tests."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from pydantic import TypeAdapter

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.sample import Sample


@cache  # made on first use, because it would add milliseconds to the import
def example() -> tuple[Sample, Findings]:
    text = files("rag_eval_hooks.metrics").joinpath("example.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    findings = TypeAdapter(Findings).validate_python(tables["findings"])
    return Sample.from_dict(tables["sample"]), findings
