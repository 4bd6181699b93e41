"""Draw docs/images/held-span.svg: how scores reach a span after its request has ended.

python docs/held_span.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rag_eval_hooks import RagEvalConfig, semconv
from rag_eval_hooks.semconv import EvalStatus

PICTURE: Final = Path(__file__).parent / "images" / "held-span.svg"
WIDTH, LANE = 920, 195
BEGIN, END = 180, 420
STYLE: Final = """
  text { font: 14px system-ui, sans-serif; fill: #1b1f24 }
  .title { font-weight: 600; font-size: 16px } .small { font-size: 12px; fill: #57606a }
  .request { fill: #8c959f } .rag { fill: #2f6feb } .judge { fill: #bf8700 }
  .late { fill: #cf222e } .bar { fill: #fff }
  .held { fill: none; stroke: #2f6feb; stroke-width: 2; stroke-dasharray: 6 4 }
  .moment { stroke: #57606a; stroke-dasharray: 2 3 }
  .page { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b1 } .page { fill: #22252f }
    .request { fill: #6e7781 } .moment { stroke: #9da7b1 } .held { stroke: #6ea8fe }
  }
"""


def picture() -> str:
    """Return the picture, with names and time limit from the code."""
    wait = RagEvalConfig().hold_timeout
    limit = f"hold_timeout, {wait:g} s"
    score = "rag.eval.ragas.faithfulness.score"
    shapes = [
        *lane(20, "Scores arrive in time", judged=620, exported=620),
        note(630, 121, "exported once, with its scores"),
        *lane(20 + LANE, "Scores arrive too late", judged=780, exported=620),
        *moment(620, 48 + LANE, 130, limit),
        note(630, 121 + LANE, f"exported with {semconv.EVAL_STATUS}={EvalStatus.TIMEOUT}"),
        f'<circle class="late" cx="{END}" cy="{188 + LANE}" r="6"/>',
        note(20, 193 + LANE, "evaluation span"),
        note(END + 14, 193 + LANE, f"exported with {score}, at the request's end"),
    ]
    height = 2 * LANE + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            "<title>A RAG span ends with its request and waits for its scores</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def lane(top: int, title: str, *, judged: int, exported: int) -> list[str]:
    """Return one row each for request, RAG span and judge."""
    rows = {"request": top + 48, "RAG span": top + 84, "judge": top + 120}
    return [
        f'<text class="title" x="20" y="{top + 14}">{escape(title)}</text>',
        *(note(20, y + 17, name) for name, y in rows.items()),
        bar("request", BEGIN, END, rows["request"], "retrieve, generate, answer"),
        bar("rag", BEGIN, END, rows["RAG span"], "times of the request"),
        f'<rect class="held" x="{END}" y="{top + 85}" width="{exported - END}" height="22"/>',
        note(END + 10, top + 101, "held: waits for its scores"),
        bar("judge", END + 20, judged, rows["judge"], "in the background"),
        *moment(END, top + 28, 130, "the user has the answer"),
    ]


def bar(kind: str, left: int, right: int, top: int, text: str) -> str:
    return (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{right - left}" height="24" rx="3"/>'
        f'<text class="bar" x="{left + 10}" y="{top + 17}">{escape(text)}</text>'
    )


def moment(x: int, top: int, height: int, text: str) -> list[str]:
    """Return a labelled vertical line through all rows."""
    return [
        f'<line class="moment" x1="{x}" y1="{top}" x2="{x}" y2="{top + height}"/>',
        note(x, top - 4, text, at="middle"),
    ]


def note(x: int, y: int, text: str, *, at: str = "start") -> str:
    return f'<text class="small" x="{x}" y="{y}" text-anchor="{at}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
