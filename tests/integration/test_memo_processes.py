"""Replies that several processes keep in one folder."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.support.size import size
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    """Processes that write at the same time lose nothing and fail nowhere."""
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from rag_eval_hooks.judges.memo import Memo\n"
        "async def main(folder, who):\n"
        "    memo = Memo(folder)\n"
        "    for n in range(40):\n"
        "        memo.keep(f'{who}:{n}'.encode(), 'text')\n"
        "        await memo.load(b'none')\n"
        "    await memo.aclose()\n"
        "    assert memo.stats() == {'asked': 40}, memo.stats()\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    count = size(3, 8)
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(who)], cwd=ROOT)
        for who in range(count)
    ]
    assert [process.wait(PATIENCE) for process in running] == [0] * count
    connection = sqlite3.connect(tmp_path / "replies.sqlite")
    assert connection.execute("SELECT COUNT(*) FROM replies_1").fetchone() == (40 * count,)
    connection.close()
