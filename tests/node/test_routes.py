"""Routes: a chain comes over one link, and what concerns it goes down that one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.node import routes as routes_module
from headwater.node.routes import Routes
from headwater.protocols.actions import SendMessage
from headwater.protocols.ledger import Position
from headwater.protocols.messages import Positions
from node.parts import sent


def routes_of() -> Routes:
    routes = Routes(silence_ns=10)
    for chain, link in (("a", "left"), ("b#cuts", "left"), ("c", "right")):
        routes.admit(chain, link, now_ns=0)
    return routes


def test_what_concerns_a_chain_goes_down_its_link() -> None:
    assert routes_of().down("a", b"x") == [SendMessage("left", b"x")]
    assert routes_of().down("nobody", b"x") == []


def test_the_cuts_of_a_chain_go_where_the_chain_goes() -> None:
    assert routes_of().of("b") == routes_of().of("b#cuts") == "left"


def test_all_children_are_told_but_the_one_who_said_it() -> None:
    assert routes_of().to_all(b"x") == [SendMessage("left", b"x"), SendMessage("right", b"x")]
    assert routes_of().to_all(b"x", but="left") == [SendMessage("right", b"x")]


def test_each_link_hears_of_its_own_chains_only() -> None:
    at = Position(1, 2)
    told = sent(routes_of().positions(True, {"a": at, "b": at, "c": at, "nobody": at}))
    assert told == [("left", Positions(True, {"a": at, "b": at})), ("right", Positions(True, {"c": at}))]


def test_a_chain_moves_to_another_link_only_after_silence_or_leave() -> None:
    routes = routes_of()
    routes.hear(("a", "b"), "left", now_ns=5)
    assert not routes.may_bring(["a"], "right", now_ns=14) and routes.may_bring(["a"], "right", now_ns=15)
    assert routes.may_bring(["c"], "left", now_ns=12)
    routes.leave("b")
    assert routes.may_bring(["b"], "right", now_ns=6) and not routes.may_bring(["a", "b"], "right", now_ns=6)
    routes.admit("b", "right", now_ns=6)
    assert routes.strangers(("a", "b"), "left") == ["b"]


def test_chains_of_a_link_are_bounded_and_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(routes_module, "CHAINS_PER_LINK_MAX", 2)
    routes = routes_of()
    assert not routes.may_bring(["d"], "left", now_ns=0) and routes.may_bring(["d", "d#cuts"], "right", now_ns=0)
    assert not routes.may_bring(["d", "e"], "right", now_ns=0), "all that come at once are counted"
    routes.forget(["a"])
    assert routes.may_bring(["d"], "left", now_ns=0)
    routes.forget(["b", "c"])
    assert (routes.links, routes.children) == ({}, {})


def test_routes_survive_a_snapshot_and_those_of_older_releases_keep_the_last_link() -> None:
    again = Routes.restored(routes_of().state(), 10)
    assert (again.links, again.children) == (routes_of().links, routes_of().children)
    assert Routes.restored([["a", "left", "right"]], 10).of("a") == "right"


class SlowRoutes:
    """The same without any shortcut: when each chain was last heard on its link."""

    def __init__(self) -> None:
        self.links: dict[str, str] = {}
        self.heard: dict[str, int] = {}

    def may_bring(self, chain: str, link: str, now_ns: int) -> bool:
        return self.links.get(chain, link) == link or now_ns - self.heard[chain] >= 10


AFTERWARDS = ["nothing", "nothing", "leave", "the clock begins anew"]
STEPS = st.tuples(
    st.sampled_from("lr"), st.sets(st.sampled_from("abc"), min_size=1), st.integers(0, 6), st.sampled_from(AFTERWARDS)
)


@given(st.lists(STEPS, max_size=30))
def test_who_may_bring_what_does_not_depend_on_how_it_is_remembered(steps) -> None:
    routes, slow, now = Routes(silence_ns=10), SlowRoutes(), 0
    for link, named, later, afterwards in steps:
        now += later
        chains = tuple(sorted(named))
        may = [routes.may_bring(routes.strangers((chain,), link), link, now) for chain in chains]
        assert may == [slow.may_bring(chain, link, now) for chain in chains]
        if not all(may):
            continue
        for chain in routes.strangers(chains, link):
            routes.admit(chain, link, now)
        routes.hear(chains, link, now)
        slow.links.update(dict.fromkeys(chains, link))
        slow.heard.update(dict.fromkeys(chains, now))
        if afterwards == "leave":
            routes.leave(chains[0])
            slow.heard[chains[0]] = now - 10
        elif afterwards == "the clock begins anew":
            now = 0
            routes.listen(now)
            slow.heard = dict.fromkeys(slow.heard, now)
