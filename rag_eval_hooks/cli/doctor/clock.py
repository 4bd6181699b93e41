"""Whether this machine's clock agrees with that of an endpoint."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Final

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status

__all__ = ["check_clock"]

_MOST: Final = 30.0  # seconds; beyond, spans of several machines no longer line up
_FIRST: Final = 1_735_689_600  # 2025-01-01: no clock that runs is before this package


def check_clock(setup: Setup) -> Iterator[Result]:
    """Compares with the `Date` header of the judge's endpoint, else of the receiver of spans."""
    now = time.time()
    if now < _FIRST:
        text = f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}"
        yield Result(check="clock", status=Status.FAILED, text=text, advice="set the clock")
        return
    for url in (setup.config.judge_base_url, setup.otlp_endpoint):
        skew = None if url is None else _skew(url, min(setup.timeout, 5.0))
        if skew is not None:
            yield _compared(skew)
            return
    yield Result(check="clock", status=Status.NOTE, text="plausible; no endpoint to compare with")


def _compared(skew: float) -> Result:
    figures = {"skew_seconds": round(skew, 1)}
    text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the endpoint's"
    if abs(skew) <= _MOST:
        return Result(check="clock", status=Status.OK, text=text, figures=figures)
    advice = "set the clock by NTP: spans are misplaced, and keys may be refused"
    return Result(check="clock", status=Status.WARNING, text=text, advice=advice, figures=figures)


def _skew(url: str, timeout: float) -> float | None:
    """Seconds by which our clock is ahead, or None where the endpoint does not tell the time."""
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            date = response.headers.get("Date")
    except urllib.error.HTTPError as refusal:
        date = refusal.headers.get("Date")
    except (OSError, ValueError, http.client.HTTPException):
        # The last is what speaks another protocol, such as gRPC, or has credentials in its URL.
        return None
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None
