"""The checkpoint folder of a stream: the state of the root, its directives to the leaves, and commands of users.

All of it lies under one folder, beside Spark's own checkpoint::

    about.json            what the stream is: format, identity, input, settings
    states/7.full         the root as it was after batch 7
    states/8.part         what happened to it in batch 8; both make the root after batch 8
    directives/8.json     what it tells the leaves for batch 9; written last, so its presence says that batch 8 is done
    queries/<hash>.json   the text of the queries a directive names
    commands/3.json       what users asked for, in order
    lives/                an empty file for each start of the stream (`sinks.timeline`)
    gathered/             rows that wait until their sink makes a file of them (`sinks.gathered`)

Each file appears at once or not at all, and none is ever changed into something else: a batch that is run again writes the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.engine.wire.snapshot_bytes import from_bytes, to_bytes
from headwater.errors import HeadwaterError
from headwater.language.homes import Home
from headwater.language.places import local_path
from headwater.language.time_columns import time_column
from headwater.logs import files
from headwater.node.splitting import Sharing
from headwater.protocols.count_windows import Counting
from headwater.spark.streaming.arrivals import Stamps, Taken
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.inputs.input import stores_arrivals

#: How rows come out: since the first release in ticks with all columns, now as times (`engine.results.shape`). A stream keeps
#: the form with which it began, for its sink holds rows of it already.
TICKS_FORM = 1
ROW_FORM = 2


@dataclass(frozen=True, slots=True)
class About:
    """``kind`` and ``input``: what is read; ``settings``: time, unit, disorder, strict, idle_ns, ahead_max, which cannot change.

    ``chains``: how many leaves share the sources; ``roots``: how many roots share the keys, ``sharing``: how, and ``why``.
    ``counting``: what leaves send for count windows; None in checkpoints of releases that knew no schemes. ``born_ms``: when it
    began, since 1970. ``row_form``: the columns in which rows come out, `ROW_FORM` or that of an earlier release. ``home``: the
    column that says where events are at home, or where sources are if not where they lie.
    """

    id: str
    kind: str
    input: Mapping[str, Any]
    schema: pa.Schema
    settings: Mapping[str, Any]
    chains: int
    roots: int
    sharing: Sharing
    why: str
    counting: Counting | None
    born_ms: int
    row_form: int = ROW_FORM
    home: Home = None

    @property
    def schema_bytes(self) -> bytes:
        return schema_to_bytes(self.schema)

    @property
    def count_scheme(self) -> Counting:
        """How the stream counts; without a scheme, and with several roots, events travel."""
        return Counting("central") if self.counting is None or self.roots > 1 else self.counting

    def to_data(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "input": dict(self.input),
            "schema": self.schema_bytes.hex(),
            "settings": dict(self.settings),
            "strict": self.settings["strict"],
            "chains": self.chains,
            "roots": self.roots,
            "sharing": asdict(self.sharing),
            "why": self.why,
            "counting": None if self.counting is None else asdict(self.counting),
            "born_ms": self.born_ms,
            **({"home": self.home} if self.home else {}),
        }

    def stamps(self, taken: Taken) -> Stamps | None:
        """How leaves give events their arrivals, if these matter; ``taken``: when events were taken, where that decides."""
        # Checkpoints of releases that knew no arrivals say nothing of them.
        ahead_max, unit = self.settings.get("ahead_max"), self.settings["unit"]
        if ahead_max is None and time_column(self.settings["time"]).reading != "arrival":
            return None
        return Stamps(None if stores_arrivals(self.kind, self.input) else taken, ahead_max, unit)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> About:
        sharing, counting = data["sharing"], data.get("counting")
        read = {
            "schema": schema_from_bytes(bytes.fromhex(data["schema"])),
            "sharing": Sharing(tuple(sharing["raw_keys"]), tuple(map(tuple, sharing["together"]))),
            "counting": None if counting is None else Counting(**counting),
        }
        plain = ("id", "kind", "input", "settings", "chains", "roots", "why", "born_ms")
        return cls(**read, **{name: data[name] for name in plain}, home=data.get("home"))


VERSION = 3
#: The versions that are read, each with the form of its rows.
ROW_FORMS = {2: TICKS_FORM, VERSION: ROW_FORM}
#: How many batches before the last keep their states and directives, for inspection.
KEPT = 20


class CheckpointError(HeadwaterError):
    """A checkpoint that cannot be used; the message says where it is and why."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The root after a batch: its last snapshot, and what was recorded since. ``since``: of which batch the snapshot is."""

    since: int
    snapshot: bytes
    records: tuple[bytes, ...]


class StreamCheckpoint:
    """The folder of one stream."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    # --- what it is ---

    def about(self) -> About | None:
        """The description of the stream; None if it has not begun."""
        place = self.path / "about.json"
        if not place.exists():
            return None
        try:
            tree: dict[str, Any] = json.loads(place.read_bytes())
            version = tree["headwater_stream"]
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"{place}: this is not the checkpoint of a stream; give another folder") from None
        if version not in ROW_FORMS:
            raise CheckpointError(
                f"{place}: the checkpoint has version {version}, this release reads versions 2 and {VERSION}; go on with the"
                " release that wrote it, or begin anew with another folder"
            )
        return replace(About.from_data(tree), row_form=ROW_FORMS[version])

    def begun(self) -> About:
        """The description of the stream; an error if it has not begun."""
        about = self.about()
        if about is None:
            raise CheckpointError(f"{self.path}: there is no stream here; begin one with headwater.stream")
        return about

    def prepare(self) -> None:
        """Make room for a new stream."""
        for folder in ("states", "directives", "queries", "commands"):
            files.make_folder(self.path / folder)

    def write_about(self, about: About) -> None:
        """Last of all that is there before the first batch: with this the stream exists."""
        self._put(self.path / "about.json", _json({"headwater_stream": VERSION, **about.to_data()}))

    # --- after each batch ---

    def directive(self, batch: int) -> dict[str, Any] | None:
        """What the root told the leaves after a batch; None while it is not done."""
        try:
            tree: dict[str, Any] = json.loads(self._directive(batch).read_bytes())
        except FileNotFoundError:
            return None
        return tree

    def said(self, batch: int) -> Directive:
        """What the root told the leaves after a batch that is done."""
        data = self.directive(batch)
        if data is None:
            raise CheckpointError(
                f"{self.path}: what the root said after batch {batch} is missing, so nothing can go on"
            )
        return Directive.from_data(data)

    def last_batch(self) -> int | None:
        """The last batch that is done; None before anything is."""
        found = [int(place.stem) for place in (self.path / "directives").glob("*.json")]
        return max(found, default=None)

    def last_done(self) -> int:
        """The last batch that is done; -1 before the first is."""
        last = self.last_batch()
        return -1 if last is None else last

    def row_counts(self) -> dict[int, int]:
        """How many rows batches had, of those whose directives are still there."""
        found = {}
        for place in (self.path / "directives").glob("*.json"):
            status = (self.directive(int(place.stem)) or {}).get("status", {})
            if "rows" in status:
                found[int(place.stem)] = int(status["rows"])
        return found

    def write_directive(self, batch: int, directive: dict[str, Any]) -> None:
        self._put(self._directive(batch), _json(directive))
        self._forget(batch - KEPT)

    def write_queries(self, text: str) -> str:
        """Keep the text of queries; the name under which a directive may speak of it."""
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        place = self.path / "queries" / f"{name}.json"
        if not place.exists():
            self._put(place, text.encode())
        return name

    def queries(self, name: str) -> str:
        return (self.path / "queries" / f"{name}.json").read_text()

    def write_snapshot(self, batch: int, snapshot: bytes) -> None:
        self._put(self._state(batch, "full"), snapshot)

    def write_records(self, batch: int, since: int, records: Sequence[bytes]) -> None:
        self._put(self._state(batch, "part"), to_bytes([since, list(records)]))

    def saved(self, batch: int) -> Saved:
        """The root after a batch that is done."""
        try:
            records: list[bytes] = []
            at = batch
            while not (full := self._state(at, "full")).exists():
                _, some = from_bytes(self._state(at, "part").read_bytes())
                records[:0] = some
                at -= 1
            return Saved(at, full.read_bytes(), tuple(records))
        except FileNotFoundError as error:
            raise CheckpointError(f"{error.filename}: this part of the checkpoint is missing") from None

    def _forget(self, batch: int) -> None:
        """Remove what lies before a batch and before the snapshot that its state builds on."""
        if batch < 0 or batch % KEPT:
            return
        fulls = [at for place in (self.path / "states").glob("*.full") if (at := int(place.stem)) <= batch]
        oldest = max(fulls, default=-1)
        for folder, before in (("states", oldest), ("directives", batch)):
            for place in (self.path / folder).iterdir():
                # Whoever died while writing left "7.full.<uuid>".
                number = place.name.partition(".")[0]
                if number.lstrip("-").isdigit() and int(number) < before:
                    place.unlink(missing_ok=True)
        self._forget_asked()

    def _forget_asked(self) -> None:
        """Remove commands that all directives know of, but for the last, which counts them; and queries that none names."""
        places = (self.path / "directives").glob("*.json")
        known = [data for place in places if (data := self.directive(int(place.stem))) is not None]
        done = min(min(data["commands"] for data in known), self.command_count() - 1)
        named = {data["queries"] for data in known}
        for place in (self.path / "commands").iterdir():
            if int(place.name.partition(".")[0]) < done:
                place.unlink(missing_ok=True)
        for place in (self.path / "queries").iterdir():
            if place.name.partition(".")[0] not in named:
                place.unlink(missing_ok=True)

    # --- what users ask for ---

    def command_count(self) -> int:
        """How many commands there ever were: those that are done are forgotten, but for the last."""
        return 1 + max((int(place.stem) for place in (self.path / "commands").glob("*.json")), default=-1)

    def command(self, number: int) -> dict[str, Any]:
        """The command of this number, from 0."""
        tree: dict[str, Any] = json.loads((self.path / "commands" / f"{number}.json").read_bytes())
        return tree

    def ask(self, command: dict[str, Any]) -> int:
        """Add a command; its number."""
        number = self.command_count()
        while True:
            try:
                files.create(self.path / "commands" / f"{number}.json", _json(command))
                return number
            except FileExistsError:
                number += 1

    def refuse(self, number: int, reason: str) -> None:
        """Say why a command could not be done."""
        self._put(self.path / "commands" / f"{number}.refused", reason.encode())

    def refused(self, number: int) -> str | None:
        place = self.path / "commands" / f"{number}.refused"
        return place.read_text() if place.exists() else None

    # --- files ---

    def _directive(self, batch: int) -> Path:
        return self.path / "directives" / f"{batch}.json"

    def _state(self, batch: int, suffix: str) -> Path:
        return self.path / "states" / f"{batch}.{suffix}"

    def _put(self, place: Path, data: bytes) -> None:
        # Two attempts of one task may write the same file at the same time.
        unfinished = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
        try:
            files.replace(unfinished, data)
            unfinished.replace(place)
        except FileNotFoundError:
            raise CheckpointError(f"{place.parent}: this part of the checkpoint is gone") from None
        files.sync_directory(place.parent)


def checkpoint_folder(path: str | os.PathLike[str]) -> Path:
    """The folder that a user names."""
    return local_path("checkpoint", path, "give a folder that the driver and all workers can see as files").absolute()


def _json(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()
