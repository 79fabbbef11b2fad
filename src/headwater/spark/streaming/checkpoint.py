"""The checkpoint folder of a stream: the state of the root, its directives to the leaves, and commands of users.

All of it lies under one folder, beside Spark's own checkpoint::

    about.json            what the stream is: format, identity, input, settings
    owners/3              who runs it: the highest number does (`owners`)
    states/7.3.full       the root as it was after batch 7, by owner 3
    states/8.3.part       what happened to it in batch 8; both make the root after batch 8 (`states`)
    roots/001/states/     the same of each root, where several share the keys
    directives/8.json     what it tells the leaves for batch 9, and which states are those after batch 8
    offsets/9.json        the offset of batch 9, from before anybody saw rows of it: Spark may lose its own
    directives/-1.1.json  the same before the first batch; of several that began the stream at once, by the one of `about.json`
    queries/5-<hash>.json the text of queries that have changed in batch 5; directives name it
    commands/3.json       what users asked for, in order
    lives/                an empty file for each start of the stream (`sinks.timeline`)
    gathered/             rows that wait until their sink makes a file of them (`sinks.gathered`)

The directive is the commit of a batch: it is created last of all, by one driver and no other, and everything else counts only if
it leads there. Each file appears at once or not at all, and none is ever changed into something else. Directives and descriptions
begin with their checksum; states and queries are named by theirs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.base.arrow import schema_from_bytes, schema_to_bytes
from headwater.errors import HeadwaterError
from headwater.language.homes import Home
from headwater.language.places import local_path
from headwater.language.time_columns import time_column
from headwater.logs import files
from headwater.node.splitting import Sharing
from headwater.protocols.count_windows import Counting
from headwater.spark.streaming.arrivals import Stamps, Taken
from headwater.spark.streaming.directives import Directive
from headwater.spark.streaming.errors import CheckpointError, EndedError, OtherOffsetError, missing_part
from headwater.spark.streaming.inputs.input import stores_arrivals
from headwater.spark.streaming.seals import fingerprint, read_named, sealed, unsealed
from headwater.spark.streaming.sinks.gathered import GatheredRows
from headwater.spark.streaming.states import StateFolder, StateRef

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
    column that says where events are at home, or where sources are if not where they lie. ``owner``: the driver that began it, 0
    in checkpoints of releases that knew none.
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
    owner: int = 0

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
            **({"row_form": self.row_form} if self.row_form != ROW_FORM else {}),
            "owner": self.owner,
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
        since = {"home": data.get("home"), "row_form": data.get("row_form", ROW_FORM), "owner": data.get("owner", 0)}
        return cls(**read, **{name: data[name] for name in plain}, **since)


VERSION = 4
#: The versions that are read, each with the form of its rows; since 4 the description says it, and has a checksum.
ROW_FORMS = {2: TICKS_FORM, 3: ROW_FORM, VERSION: ROW_FORM}
#: How many batches before the last keep their states and directives, for inspection.
KEPT = 20


class StreamCheckpoint:
    """The folder of one stream."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        #: Queries of which it is known here that their file would survive a loss of power.
        self._kept_queries: set[str] = set()

    # --- what it is ---

    def about(self) -> About | None:
        """The description of the stream; None if it has not begun."""
        place = self.path / "about.json"
        tree = self._described(place)
        if tree is None:
            return None
        version = tree["headwater_stream"]
        if version not in ROW_FORMS:
            raise CheckpointError(
                f"{place}: the checkpoint has version {version}, this release reads versions 2 to {VERSION}; go on with the"
                " release that wrote it, or begin anew with another folder"
            )
        try:
            return About.from_data(tree if version == VERSION else {"row_form": ROW_FORMS[version], **tree})
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{place}: this description of a stream is damaged: {error}") from error

    def _described(self, place: Path) -> dict[str, Any] | None:
        try:
            tree = unsealed(place, place.read_bytes())
        except FileNotFoundError:
            return None
        if not isinstance(tree, dict) or "headwater_stream" not in tree:
            raise CheckpointError(f"{place}: this is not the checkpoint of a stream; give another folder")
        return tree

    def begun(self) -> About:
        """The description of the stream; an error if it has not begun."""
        about = self.about()
        if about is None:
            raise CheckpointError(f"{self.path}: there is no stream here; begin one with headwater.stream")
        return about

    def prepare(self, roots: int = 1) -> None:
        """Make room for a new stream."""
        for folder in ("directives", "offsets", "queries", "commands"):
            files.make_folder(self.path / folder)
        for number in range(roots):
            files.make_folder(self.states(number, roots).path)

    def write_about(self, about: About) -> None:
        """Last of all that is there before the first batch: with this the stream exists."""
        try:
            files.create(self.path / "about.json", _about_bytes(about))
        except FileExistsError as error:
            raise CheckpointError(
                f"{self.path}: another driver began this stream at the same moment; start it again, and it goes on"
            ) from error

    def go_on(self, about: About) -> None:
        """A driver has taken a stream over: what others left unfinished goes, and a former version becomes this one.

        Releases that know no owners refuse the stream from now on, by its version.
        """
        for place in self.path.rglob(f".*{files.UNFINISHED}"):
            files.remove(place)
        files.make_folder(self.path / "offsets")  # which former releases did not keep
        data = _about_bytes(about)
        if (self.path / "about.json").read_bytes() != data:
            files.replace(self.path / "about.json", data)
            files.sync_directory(self.path)

    # --- before each batch ---

    def fix(self, batch: int, owner: int, offset: Mapping[str, Any]) -> None:
        """Keep the offset of a batch before anybody sees rows of it, so that it is run again as it was.

        Spark does not sync its own log, so a loss of power may take it; and a driver that was paused may write into it.
        """
        place, data = self._offset(batch), sealed({"owner": owner, "offset": dict(offset)})
        try:
            files.create(place, data)
        except FileExistsError:
            if self.fixed(batch) != json.loads(data)["offset"]:
                raise OtherOffsetError(
                    f"{place}: another driver has begun batch {batch} with another offset; start the stream again"
                ) from None
            files.sync_directory(place.parent)  # whoever created it may have died before it did
        except FileNotFoundError as error:
            raise missing_part(place.parent) from error

    def fixed(self, batch: int) -> dict[str, Any] | None:
        """The offset that a batch was begun with; None if nobody has seen rows of it."""
        place = self._offset(batch)
        try:
            offset: dict[str, Any] = unsealed(place, place.read_bytes())["offset"]
        except FileNotFoundError:
            return None
        return offset

    # --- after each batch ---

    def directive(self, batch: int) -> dict[str, Any] | None:
        """What the root told the leaves after a batch; None while it is not done."""
        place = self._directive(batch)
        try:
            tree: dict[str, Any] = unsealed(place, place.read_bytes())
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
        try:
            return Directive.from_data(data)
        except (HeadwaterError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self._directive(batch)}: this directive is damaged: {error}") from error

    def commit(self, directive: Directive) -> bool:
        """End a batch, whose states are written; False if another driver has, and then nothing is changed."""
        place = self._directive(directive.batch, directive.owner)
        try:
            files.create(place, sealed(directive.to_data()))
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise missing_part(place.parent) from error
        self._forget(directive.batch - KEPT)
        return True

    def settle(self) -> None:
        """Directives that are there stay there after a loss of power, though whoever created the last has died since."""
        files.sync_directory(self.path / "directives")

    def last_batch(self) -> int | None:
        """The last batch that is done; None before anything is."""
        return max(self._directives(), default=None)

    def last_done(self) -> int:
        """The last batch that is done; -1 before the first is."""
        last = self.last_batch()
        return -1 if last is None else last

    def row_counts(self) -> dict[int, int]:
        """How many rows batches had, of those whose directives are still there."""
        found = {}
        for batch in self._directives():
            status = (self.directive(batch) or {}).get("status", {})
            if "rows" in status:
                found[batch] = int(status["rows"])
        return found

    def write_queries(self, text: str, batch: int, before: str = "") -> str:
        """Keep the text of queries as they are after a batch; the name under which a directive may speak of it.

        That is the name that they had ``before``, if they are the same. Else it begins with the batch, so that nobody can take
        it for one of those that are over, and remove it.
        """
        hash_ = fingerprint(text.encode())
        if before.rpartition("-")[2] == hash_:
            return before
        name = f"{batch}-{hash_}"
        place = self.path / "queries" / f"{name}.json"
        if not place.exists():
            self._put(place, text.encode())
        elif name not in self._kept_queries:
            files.sync_directory(place.parent)  # whoever wrote it may have died before it did
        self._kept_queries.add(name)
        return name

    def queries(self, name: str) -> str:
        place = self.path / "queries" / f"{name}.json"
        try:
            return read_named(place, name.rpartition("-")[2]).decode()
        except FileNotFoundError as error:
            raise missing_part(place) from error

    def states(self, number: int = 0, roots: int = 1) -> StateFolder:
        """The states of a root; of the only one, or of one of several."""
        return StateFolder((self.path / "roots" / f"{number:03d}" if roots > 1 else self.path) / "states")

    def state(self, directive: Directive, number: int = 0, roots: int = 1) -> StateRef:
        """The state of a root after a batch that is done."""
        if directive.owner:
            return directive.states[number]
        return self.states(number, roots).former(directive.batch)

    def gathered(self, what: str, owner: int = 0) -> GatheredRows:
        """The rows that wait for a sink, for the driver ``owner`` to keep more of them."""
        return GatheredRows(self.path / "gathered" / what, owner)

    def _forget(self, batch: int) -> None:
        """Remove what lies before a batch and before the snapshots that its states build on."""
        if batch < 0 or batch % KEPT or (known := self.directive(batch)) is None or "states" not in known:
            return
        states = [StateRef(*state) for state in known["states"]]
        for number, state in enumerate(states):
            self.states(number, len(states)).forget(state.since)
        for folder in ("directives", "offsets"):
            for place in (self.path / folder).glob("*.json"):
                if _number(place) < batch:
                    files.remove(place)
        self._forget_asked()

    def _forget_asked(self) -> None:
        """Remove commands that all directives know of, but for the last, which counts them; and queries of before all of them.

        Whoever sleeps in here knows less of the directives that came since, and removes less than it could.
        """
        known = [data for batch in self._directives() if (data := self.directive(batch)) is not None]
        done = min([self.command_count() - 1, *(data["commands"] for data in known)])
        changed = min((_changed(data["queries"]) for data in known), default=-1)
        for place in (self.path / "commands").glob("[0-9]*"):
            if _number(place) < done:
                files.remove(place)
        for place in (self.path / "queries").glob("*.json"):
            if _changed(place.stem) < changed:
                files.remove(place)

    # --- what users ask for ---

    def command_count(self) -> int:
        """How many commands there ever were: those that are done are forgotten, but for the last."""
        return 1 + max((int(place.stem) for place in (self.path / "commands").glob("*.json")), default=-1)

    def command(self, number: int) -> dict[str, Any]:
        """The command of this number, from 0."""
        place = self.path / "commands" / f"{number}.json"
        try:
            tree: dict[str, Any] = unsealed(place, place.read_bytes())
        except FileNotFoundError as error:
            raise missing_part(place) from error
        return tree

    def ask(self, command: dict[str, Any]) -> int:
        """Add a command; its number."""
        number = self.command_count()
        while True:
            try:
                files.create(self.path / "commands" / f"{number}.json", sealed({"is_sealed": True, **command}))
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

    def _directive(self, batch: int, owner: int | None = None) -> Path:
        """Where the directive after a batch is; before the first, that of ``owner``, or of whoever began the stream."""
        if batch >= 0:
            return self.path / "directives" / f"{batch}.json"
        if owner is None:
            about = self.about()
            owner = 0 if about is None else about.owner
        return self.path / "directives" / (f"{batch}.{owner}.json" if owner else f"{batch}.json")

    def _directives(self) -> list[int]:
        """The batches that have directives."""
        return [_number(place) for place in (self.path / "directives").glob("*.json")]

    def _offset(self, batch: int) -> Path:
        return self.path / "offsets" / f"{batch}.json"

    def _put(self, place: Path, data: bytes) -> None:
        try:
            files.replace(place, data)
        except FileNotFoundError as error:
            raise missing_part(place.parent) from error
        files.sync_directory(place.parent)


def refuse_ended(checkpoint: StreamCheckpoint) -> None:
    """Refuse to start a stream that has ended: it would run and take nothing in. One whose rows still wait has not."""
    last = checkpoint.last_batch()
    directive = None if last is None else checkpoint.said(last)
    if directive is None or not directive.is_finished:
        return
    if not any(checkpoint.gathered(what).waits(said) for what, said in directive.gathered.items()):
        raise EndedError(
            f"{checkpoint.path}: this stream was flushed after batch {last} and has ended, its rows are all out; what came since"
            " is for a new one: begin it with another checkpoint and another sink"
        )


def checkpoint_folder(path: str | os.PathLike[str]) -> Path:
    """The folder that a user names."""
    return local_path("checkpoint", path, "give a folder that the driver and all workers can see as files").absolute()


def _number(place: Path) -> int:
    """The batch or the command that a file is about.

    >>> _number(Path("directives/-1.3.json")), _number(Path("commands/12.refused"))
    (-1, 12)
    """
    return int(place.name.partition(".")[0])


def _changed(queries: str) -> int:
    """The batch in which queries have changed, by their name; releases without owners did not name it.

    >>> _changed("17-0a1b"), _changed("-1-0a1b"), _changed("0a1b")
    (17, -1, -2)
    """
    batch, _, _ = queries.rpartition("-")
    return int(batch) if batch else -2


def _about_bytes(about: About) -> bytes:
    return sealed({"headwater_stream": VERSION, **about.to_data()})
