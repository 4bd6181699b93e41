"""What code of an application raises shows its class and place in a log, never its text."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_hooks import Context, JudgeError, RagEval, Sample
from rag_eval_hooks.errors import InputError, JudgeTimeout

SECRET = "Zebra crossing 4711"


@pytest.mark.parametrize("kind", [InputError, JudgeError, JudgeTimeout, ValueError])
@pytest.mark.parametrize("part", ["metrics", "judge"])
def test_text_of_a_users_exception_is_in_no_log_and_no_outcome(
    kind: type[Exception], part: str, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(_: Any) -> Any:
        raise kind(f"cannot read {SECRET}")

    given: dict[str, Any] = {"metrics": "ragas.faithfulness", part: failing}
    with RagEval(**given) as evals:
        (outcome,) = evals.evaluate(
            Sample(question="q", contexts=(Context("The quay opened in 1931."),), answer="It did.")
        ).values()
        counted = str(evals.stats().incidents)
    for told in (caplog.text, str(outcome), counted):
        assert SECRET not in told
    assert f"{kind.__name__}" in caplog.text
    assert __file__ in caplog.text
