"""preop: the pre-operative checklist for LLM inference deployments."""

__version__ = "0.1.0"
