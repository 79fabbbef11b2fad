"""Variables of the environment in a job file: ``${NAME}``, and only where a secret may stand.

Which fields these are is said in `description.py`. What is written down and shown is the name; the value is looked up when the
thing is built that needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The fields in which a variable may stand, as a user reads it.
WHERE: Final = "dsn of postgres, options of Kafka, token of the page"


def has_variable(value: object) -> bool:
    """Whether a text names a variable, or tries to."""
    return isinstance(value, str) and "${" in value


def variable_problem(text: str, *, is_whole: bool, environ: Mapping[str, str] = os.environ) -> str | None:
    """What is wrong with the variables of a secret field; ``is_whole``: one variable has to be the whole value.

    >>> variable_problem("${PG_DSN}", is_whole=False, environ={})
    'the variable PG_DSN is not set in the environment; set it, as in PG_DSN=... headwater run'
    """
    names = _VARIABLE.findall(text)
    wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
    if wrong is not None or text.count("${") != len(names):
        return "a variable is written ${NAME}, of letters, digits and _"
    if is_whole and not _VARIABLE.fullmatch(text):
        return "here a variable is the whole value: write ${NAME} alone"
    missing = next((name for name in names if name not in environ), None)
    if missing is not None:
        return f"the variable {missing} is not set in the environment; set it, as in {missing}=... headwater run"
    return None


def filled(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """The text with the values of its variables.

    >>> filled("postgresql://me:${PASSWORD}@db/iot", {"PASSWORD": "x"})
    'postgresql://me:x@db/iot'
    """
    return _VARIABLE.sub(lambda found: environ[found[1]], text)


def by_name(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the Kafka client; its variables stay names, which each process looks up for itself.

    >>> by_name({"sasl.password": "${KAFKA_PASSWORD}", "client.id": "me"})
    {'sasl.password': {'env': 'KAFKA_PASSWORD'}, 'client.id': 'me'}
    """
    return {
        name: {"env": _VARIABLE.findall(value)[0]} if has_variable(value) else value for name, value in options.items()
    }
