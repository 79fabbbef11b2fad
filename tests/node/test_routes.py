"""Routes: what concerns a chain goes down the links it was heard on."""

from __future__ import annotations

from headwater.node.routes import Routes
from headwater.protocols.actions import SendMessage
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions
from node.parts import sent


def routes_of() -> Routes:
    routes = Routes()
    routes.heard_all(("a", "b#cuts"), "left")
    routes.heard("a", "right")
    return routes


def test_a_chain_that_was_heard_on_two_links_is_told_on_both() -> None:
    assert routes_of().down("a", b"x") == [SendMessage("left", b"x"), SendMessage("right", b"x")]
    assert routes_of().down("nobody", b"x") == []


def test_the_cuts_of_a_chain_go_where_the_chain_goes() -> None:
    assert routes_of().of("b") == routes_of().of("b#cuts") == ["left"]


def test_all_children_are_told_but_the_one_who_said_it() -> None:
    assert routes_of().to_all(b"x") == [SendMessage("left", b"x"), SendMessage("right", b"x")]
    assert routes_of().to_all(b"x", but="left") == [SendMessage("right", b"x")]


def test_each_link_hears_of_its_own_chains_only() -> None:
    at = Position(1, 2)
    told = sent(routes_of().positions(True, {"a": at, "b": at}))
    assert told == [("left", Positions(True, {"a": at, "b": at})), ("right", Positions(True, {"a": at}))]


def test_routes_survive_a_snapshot() -> None:
    again = Routes.restored(routes_of().state())
    assert (again.links, again.children) == (routes_of().links, routes_of().children)
