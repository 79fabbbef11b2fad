"""Links: what comes over a socket that no node sends is dropped, and costs no more than a frame may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from headwater.edge import links as links_module
from headwater.edge.links import Links, _name_of
from waiting import wait_until

zmq = pytest.importorskip("zmq")


@pytest.fixture
def stranger() -> Iterator[zmq.Socket]:
    """A socket of somebody who runs no node."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IDENTITY, b"mallory")
        yield socket


def frame_at(links: Links, ask: Callable[[], object] = lambda: None) -> tuple[str, bytes]:
    """The next frame that comes in; ``ask`` is done until there is one."""

    def found() -> list[tuple[str, bytes]]:
        ask()
        return [(sender, bytes(frame)) for sender, frame in links.receive(1)]

    (frame,) = wait_until(found, "a frame comes in")
    return frame


def test_a_message_that_is_longer_than_any_frame_is_never_taken_in(monkeypatch, stranger):
    monkeypatch.setattr(links_module, "FRAME_BYTES_MAX", 1000)
    with closing(Links("root")) as root, closing(Links("leaf", {"root": root.bind()})) as leaf:
        stranger.connect(leaf.addresses["root"])
        stranger.send(b"x" * 2000)
        leaf.send("root", b"y" * 1000, 0)
        assert frame_at(root) == ("leaf", b"y" * 1000)
        # It is cut off, and may come again with what is short enough; what it sends meanwhile may be lost.
        assert frame_at(root, lambda: stranger.send(b"short")) == ("mallory", b"short")


def test_messages_of_several_parts_are_passed_over(stranger):
    with closing(Links("root")) as root:
        stranger.connect(root.bind())
        stranger.send_multipart([b"", b"leaf", b"frame"])
        stranger.send(b"frame")
        assert frame_at(root) == ("mallory", b"frame")


def test_a_name_that_is_no_text_is_no_name():
    assert _name_of([zmq.Frame(b"\xff\xfe")]) is None and _name_of([zmq.Frame("é".encode())]) == "é"
