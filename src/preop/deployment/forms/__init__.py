"""The forms in which people write down what runs. One reader, one module; the first that takes a file reads
it, so that those told by a sure sign stand before those told by little."""

from __future__ import annotations

from preop.deployment.forms.types import Context, File, Form, Reading, Started

__all__ = ["Context", "File", "Form", "Reading", "Started", "expected", "form_of"]


def _forms() -> tuple[Form, ...]:
    from preop.deployment.forms.compose import COMPOSE
    from preop.deployment.forms.dockerfile import DOCKERFILE
    from preop.deployment.forms.engine_config import ENGINE_CONFIG
    from preop.deployment.forms.helm_values import HELM_VALUES
    from preop.deployment.forms.kubernetes import KUBERNETES
    from preop.deployment.forms.llm_d_values import LLM_D_VALUES
    from preop.deployment.forms.ray_serve import RAY_SERVE
    from preop.deployment.forms.shell_script import SHELL_SCRIPT
    from preop.deployment.forms.systemd import SYSTEMD
    from preop.deployment.forms.triton import TRITON

    return (
        *(HELM_VALUES, LLM_D_VALUES, KUBERNETES, COMPOSE, RAY_SERVE, TRITON, SYSTEMD, DOCKERFILE),
        *(ENGINE_CONFIG, SHELL_SCRIPT),
    )


def form_of(file: File) -> Form | None:
    """The form whose reader takes the file; None where there is none."""
    return next((form for form in _forms() if form.reads(file)), None)


def expected() -> str:
    """The forms in one line, for messages."""
    names = [form.name for form in _forms()]
    return f"{', '.join(names[:-1])} or {names[-1]}"
