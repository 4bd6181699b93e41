"""Files and folders of the settings that cannot even be looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.errors import ConfigError

# As a folder of somebody else's, which a test that runs as root cannot have: `stat` itself fails.
NOWHERE = "/tmp/" + "x" * 300
JUDGE: dict[str, Any] = {"judge": "openai:m", "judge_api_key": "k"}


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("spool", lambda: RagEval(config=RagEvalConfig(spool=NOWHERE))),
        ("sinks", lambda: RagEval(sinks=f"jsonl:{NOWHERE}")),
        (
            "budget.path",
            lambda: RagEval(
                config=RagEvalConfig(**JUDGE, budget={"calls_per_day": 1, "path": NOWHERE})
            ),
        ),
    ],
)
def test_a_path_that_cannot_be_looked_at_is_named_with_its_setting(
    field: str, make: Callable[[], RagEval]
) -> None:
    """The error about a path that the system refuses names the setting."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field
    assert Path(str(caught.value.got).removeprefix("jsonl:")) == Path(NOWHERE)
