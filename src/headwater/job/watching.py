"""What lets others look on: the metrics and the page of a job, as far as this build of headwater has them."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from typing import Any

from headwater.errors import DataError
from headwater.job.file.description import Job, MetricsSection
from headwater.job.file.variables import filled
from headwater.spark.streaming.watch.status import StatusBoard

#: Where who asks is on this machine.
LOOPBACK = "127.0.0.1"


def stream_watching(job: Job, stream: Any) -> dict[str, Any]:
    """The arguments of `hw.stream` that let others look on; an error if this build's has none for what the job asks."""
    known = inspect.signature(stream).parameters
    given: dict[str, Any] = {}
    if job.metrics is not None:
        given["metrics_port"] = job.metrics.port
        if job.metrics.host != LOOPBACK:
            _need(
                "metrics_host" in known, f"metrics.host is {job.metrics.host!r}", f"leave it out: {LOOPBACK} is served"
            )
            given["metrics_host"] = job.metrics.host
    if job.page is not None:
        import headwater

        _need("page" in known and hasattr(headwater, "Page"), "page is given", "leave it out, or upgrade headwater")
        token = None if job.page.token is None else filled(job.page.token)
        given["page"] = headwater.Page(port=job.page.port, host=job.page.host, token=token)
    return given


def metrics_server(board: StatusBoard, section: MetricsSection) -> AbstractContextManager[Any]:
    """Serves the metrics of a run in this process."""
    try:
        from headwater.spark.streaming.watch.metrics import serve
    except ImportError:
        raise DataError(
            "metrics is given, but prometheus-client is not installed: pip install prometheus-client"
        ) from None
    if section.host == LOOPBACK:
        return serve(board.status, section.port)
    can_say = "host" in inspect.signature(serve).parameters
    _need(can_say, f"metrics.host is {section.host!r}", f"leave it out: {LOOPBACK} is served")
    given: dict[str, Any] = {"host": section.host}
    return serve(board.status, section.port, **given)


def _need(is_there: bool, what: str, right: str) -> None:
    if not is_there:
        raise DataError(f"{what}, which this build of headwater does not serve; {right}")
