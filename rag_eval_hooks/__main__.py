"""`python -m rag_eval_hooks`: the command line."""

import sys

from rag_eval_hooks.cli.main import main

sys.exit(main())
