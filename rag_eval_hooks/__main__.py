"""Entry point of `python -m rag_eval_hooks`."""

import sys

from rag_eval_hooks.cli.main import main

sys.exit(main())
