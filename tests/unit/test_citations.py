"""Support of cited claims by the passages that are cited, however an answer cites."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.findings import ClaimVerdict, Findings, Support
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.score import Cause, Unavailable

FORMS = (
    "{text} [{n}].",
    "{text}. [{n}]",
    "{text} (source {n}).",
    "{text} [Doc: {n}].",
    "{text}【{n}】。",
)
CHUNKS = 4
CITED = st.integers(0, CHUNKS)
WORDS = st.lists(st.text("abcdefghij", min_size=4, max_size=8), min_size=3, max_size=6)


def scored(answer: str, claims: list[str], support: list[Support]) -> Outcome:
    sample = Sample(question="q", contexts=("c",) * CHUNKS, answer=answer)  # type: ignore[arg-type]
    findings = Findings(answer_claims=tuple(claims), answer_support=tuple(support))
    try:
        return CITATION_SUPPORT.score(sample, findings)
    except Unavailable as absent:
        return absent.outcome


def by(*chunks: int) -> Support:
    return Support(tuple(number in chunks for number in range(1, CHUNKS + 1)))


@given(
    st.lists(
        st.tuples(WORDS, st.integers(0, CHUNKS), st.integers(0, CHUNKS)), min_size=1, max_size=6
    ),
    st.sampled_from(FORMS),
)
@settings(deadline=None)
def test_share_is_that_of_cited_claims_whose_passage_supports_them(
    drawn: list[tuple[list[str], int, int]], form: str
) -> None:
    """A claim is cited by its sentence's numbers; 0 stands for none, of citations and support."""
    said = [" ".join([*words, f"thing{at}"]).capitalize() for at, (words, *_) in enumerate(drawn)]
    answer = " ".join(
        form.format(text=text, n=cited) if cited else f"{text}."
        for text, (_, cited, _) in zip(said, drawn, strict=True)
    )
    found = scored(answer, said, [by(chunk) for *_, chunk in drawn])
    cited = [(number, chunk) for _, number, chunk in drawn if number]
    if not cited:
        assert isinstance(found, NotScored)
        assert found.cause is Cause.UNDEFINED
    else:
        assert isinstance(found, Score)
        assert found.value == pytest.approx(sum(n == c for n, c in cited) / len(cited))


@pytest.mark.parametrize(
    ("citation", "support", "value"),
    [
        ("[1, 3]", by(3), 1.0),
        ("[1-3]", by(2), 1.0),
        ("[1][4]", by(4), 1.0),
        ("[^2]", by(2), 1.0),
        ("【4】", by(4), 1.0),
        ("[9]", by(1), 0.0),
        ("[1,2]", Support((False,) * CHUNKS, together=True), 1.0),
        ("[1]", Support((False,) * CHUNKS, together=True), 0.0),
        ("[1]", Support((False,) * CHUNKS, verdict=ClaimVerdict.CONTRADICTED), 0.0),
        ("[1]", Support((False,) * CHUNKS, verdict=ClaimVerdict.UNSURE), None),
        ("as document 3 says", by(3), 1.0),
        ("(1)", by(1), None),
        ("as document 1999 says", by(1), None),
        ("[1999]", by(1), None),
    ],
)
def test_numbers_name_passages(citation: str, support: Support, value: float | None) -> None:
    """Lists and spans too; a number in round brackets alone, or a year, cites nothing."""
    assert (
        scored(
            f"The ferry leaves at six {citation}.", ["The ferry leaves at six."], [support]
        ).value
        == value
    )
