"""How mistakes are planted: a method or function of production code is patched while a run lasts, and knows nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from unittest import mock

Plant = Callable[[], AbstractContextManager[Any]]


def instead(owner: type | ModuleType, name: str, wrong: Callable[..., Any]) -> Plant:
    """While it lasts, ``wrong`` is called instead of a method or function, with the right one in front of its arguments."""
    right = getattr(owner, name)

    def replaced(*arguments: Any, **named: Any) -> Any:
        return wrong(right, *arguments, **named)

    return lambda: mock.patch.object(owner, name, replaced)
