"""The `rag-eval-hooks` command. Each subcommand is one module with `register(subparsers)`."""
