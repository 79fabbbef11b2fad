"""The handle of a running stream: its status, commands (add and remove queries, flush) and its end."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from headwater.engine.placement import explain
from headwater.errors import HeadwaterError, QueryError
from headwater.language.files.queries import to_json
from headwater.language.homes import homed
from headwater.language.notebooks.html import html_facts
from headwater.language.query import Query
from headwater.spark.shipped import refuse_shipped
from headwater.spark.streaming.checkpoint import StreamCheckpoint
from headwater.spark.streaming.errors import ReplacedError
from headwater.spark.streaming.inputs.input import Input
from headwater.spark.streaming.runner import BatchRunner
from headwater.spark.streaming.sinks import SinkPerQuery
from headwater.spark.streaming.start.query_changes import running_queries
from headwater.spark.streaming.watch.status import StreamStatus

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_TRACE = "Traceback (most recent call last)"
#: How often a command's outcome is looked for.
LOOK_SECONDS = 0.02
#: Seconds a command may take: the batch that runs has to end first.
COMMAND_SECONDS = 300.0


class StreamError(HeadwaterError):
    """A stream that has stopped because of an error; the message says which."""


class Stream:
    """A stream that runs: queries can be added and removed, and it can be flushed and stopped."""

    def __init__(self, query: StreamingQuery, checkpoint: StreamCheckpoint, opened: Input, runner: BatchRunner) -> None:
        #: Spark's own handle.
        self.query = query
        self._checkpoint = checkpoint
        self._opened = opened
        self._runner = runner

    # --- how it is ---

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    @property
    def sink(self) -> Any:
        """Where rows go; a memory sink has them as ``stream.sink.table()``, that of one query as ``stream.sink["load"]``."""
        return self._runner.sink

    @property
    def aside(self) -> Any:
        """Where events go that are in no result, if anywhere."""
        return self._runner.aside

    @property
    def progress(self) -> dict[str, Any]:
        """How far the stream is, after the last batch that is done."""
        directive = self._last()
        return dict(directive["status"]) if directive else {}

    @property
    def status(self) -> StreamStatus | None:
        """How the stream is doing at this moment; None where only its server knows."""
        from headwater.spark.streaming.watch.listener import progress_of

        observer = self._runner.observer
        if observer is None:
            return None
        status, progress = observer.status(), self.query.lastProgress
        # Without a listener nothing was told; then Spark is asked.
        return status if status.spark is not None or progress is None else replace(status, spark=progress_of(progress))

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds its metrics, if anywhere."""
        observer = self._runner.observer
        return observer.metrics.url if observer is not None and observer.metrics is not None else None

    @property
    def page_url(self) -> str | None:
        """Where its live page is, if it has one; a browser opens it with ``?token=...`` if it has a token."""
        observer = self._runner.observer
        return observer.page.url if observer is not None and observer.page is not None else None

    @property
    def problems(self) -> list[tuple[str, str, str]]:
        """Files that could not be read at all and were passed over: their source, their path, and why."""
        found = getattr(self._opened, "problems", None)
        return list(found()) if found is not None else []

    @property
    def is_finished(self) -> bool:
        """Whether it was flushed, and everything has come out."""
        directive = self._last()
        return bool(directive and directive["is_finished"])

    def _last(self) -> dict[str, Any] | None:
        batch = self._checkpoint.last_batch()
        return None if batch is None else self._checkpoint.directive(batch)

    def explain(self) -> str:
        """Where the root is and why, and for each query where it is computed and what travels for it."""
        about = self._checkpoint.begun()
        where = "on the driver" if about.roots == 1 else f"in {about.roots} tasks that share the keys"
        queries = list(running_queries(self._checkpoint).values())
        counting = about.count_scheme
        ways = about.roots == 1, counting.is_distributed, counting.leaves_small_ones
        return f"root {where}: {about.why}\n{explain(queries, *ways)}"

    def _repr_html_(self) -> str:
        """Its status for a notebook, and the way to its page."""
        status, url = self.status, self.page_url
        shown = html_facts("stream", [("progress", self.progress)]) if status is None else status._repr_html_()
        return shown if url is None else f'{shown}<a href="{escape(url)}" target="_blank">{escape(url)}</a>'

    # --- what it is asked for ---

    def add_query(self, query: Query) -> None:
        """Answer one more query, from an event time on that lies above all seen so far. Returns when the root has it."""
        if isinstance(self.sink, SinkPerQuery):
            self.sink.check_taken([query.name])
        refuse_shipped([query], "hw.stream")
        asked = homed([query], self._checkpoint.begun().home)
        self._ask({"what": "add", "queries": to_json(asked)})

    def remove_query(self, name: str, drain: bool = False) -> None:
        """End a query: at once, or when its open windows have closed. Returns when the root knows."""
        self._ask({"what": "remove", "name": name, "drain": drain})

    def flush(self, timeout: float | None = None) -> None:
        """The sources end where they are now: everything complete comes out, and the stream is over. Returns then."""
        self._ask({"what": "flush"})
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_finished:
            self._check_running("flush", deadline)
            time.sleep(LOOK_SECONDS)
        self.stop()

    def _ask(self, command: dict[str, Any]) -> None:
        self._check_running(command["what"], None)
        number = self._checkpoint.ask(command)
        deadline = time.monotonic() + COMMAND_SECONDS
        while True:
            directive = self._last()
            if directive is not None and directive["commands"] > number:
                break
            if directive is not None and directive["is_finished"]:
                if command["what"] == "flush":
                    return  # it was flushed before, perhaps in an earlier life
                raise StreamError(f"the stream was flushed and is over, so nobody can {command['what']} a query")
            self._check_running(command["what"], deadline)
            time.sleep(LOOK_SECONDS)
        refused = self._checkpoint.refused(number)
        if refused is not None:
            raise QueryError(refused)

    def _check_running(self, what: str, deadline: float | None) -> None:
        self._runner.owner.check()
        if not self.is_active:
            if (error := self.query.exception()) is not None:
                raise self._told(error)
            raise StreamError(f"the stream does not run any more, so nobody can {what}; start it again first")
        if deadline is not None and time.monotonic() > deadline:
            raise StreamError(
                f"{what} was asked for, but no batch has ended since; is a trigger very rare, or a batch very long?"
            )

    # --- its end ---

    def end(self) -> str | None:
        """None while it runs; then what stopped it as a sentence, or nothing if it was somebody who asked it to."""
        if self.is_active:
            return None
        error = self.query.exception()
        return "" if error is None else str(self._told(error))

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the stream has stopped, at most ``timeout`` seconds; whether it has. What stopped it is raised."""
        try:
            ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]
        except Exception as error:
            told = self._told(error)
            raise told from told.__cause__
        if ended is False:
            return False
        self._runner.close_sinks()
        return True

    def stop(self) -> None:
        """Stop after the step it is at; started again with the same checkpoint it goes on from there."""
        self.query.stop()
        self._runner.close()

    def _told(self, error: Exception) -> Exception:
        """What went wrong as one sentence, with its cause: what headwater said, if it was headwater that said it.

        Two drivers that meet in Spark's log hear of it from Spark: of them the one that was replaced is told so.
        """
        found = self._runner.error
        replaced = self._runner.owner.replaced()
        if replaced is not None and not isinstance(found, ReplacedError):
            replaced.__cause__ = found or error
            return replaced
        if isinstance(found, HeadwaterError):
            told: Exception = found
        elif found is None or _TRACE in str(found):
            told = StreamError(last_words(str(found or error)))
        else:
            told = StreamError(f"the stream was stopped by {type(found).__name__}: {found}")
        if told.__cause__ is None:
            told.__cause__ = error if found is None or found is told else found
        return told


def last_words(text: str) -> str:
    """What an error of Spark says about a process of Python that it has heard of: what headwater said in it, else how it ended.

    >>> trace = "Traceback (most recent call last):\\n  File 'x'\\nKeyError: 'q'"
    >>> last_words(f"[STREAM_FAILED] Query [id = 7] failed: {trace}\\n\\n=== Query ===\\nIdentifier: [id = 7]")
    "KeyError: 'q'"
    """
    found = re.findall(r"headwater\.[\w.]*Error: (.+)", text)
    if found:
        return str(found[-1]).strip()
    _, mark, rest = text.rpartition(_TRACE)
    # Behind the lines of the trace, which are indented; what follows is Spark's again.
    lines = [line.strip() for line in rest.splitlines()[1:] if mark and line[:1].strip()]
    return lines[0] if lines else text.strip().partition("\n")[0]
