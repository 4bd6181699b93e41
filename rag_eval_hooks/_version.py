"""The package's version. The build reads the version, and every score states the version."""

__version__: str = "0.1.0"
