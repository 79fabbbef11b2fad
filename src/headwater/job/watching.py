"""What lets others look on: the metrics and the page of a job."""

from __future__ import annotations

from typing import Any

from headwater import Page
from headwater.errors import DataError
from headwater.job.file.description import Job, MetricsSection
from headwater.job.file.variables import filled
from headwater.spark.streaming.watch.status import StatusBoard


def stream_watching(job: Job) -> dict[str, Any]:
    """The arguments of `hw.stream` that let others look on."""
    given: dict[str, Any] = {}
    if job.metrics is not None:
        given |= {"metrics_port": job.metrics.port, "metrics_host": job.metrics.host}
    if job.page is not None:
        token = None if job.page.token is None else filled(job.page.token)
        given["page"] = Page(port=job.page.port, host=job.page.host, token=token)
    return given


def places(page_url: str | None, metrics_url: str | None) -> list[str]:
    """Where others look on, as sentences: a port that was left open is known only now.

    >>> places("http://127.0.0.1:40123/", None)
    ['The live page is at http://127.0.0.1:40123/']
    """
    told = {"The live page is at": page_url, "Metrics are at": metrics_url}
    return [f"{what} {url}" for what, url in told.items() if url is not None]


def metrics_server(board: StatusBoard, section: MetricsSection) -> Any:
    """Serves the metrics of a run in this process, from now until it is closed."""
    try:
        from headwater.spark.streaming.watch.metrics import serve
    except ImportError:
        raise DataError(
            "metrics is given, but prometheus-client is not installed: pip install prometheus-client"
        ) from None
    return serve(board.status, section.port, section.host)
