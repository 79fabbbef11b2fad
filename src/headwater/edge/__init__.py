"""Nodes as processes, linked by ZeroMQ: the host of `headwater.node` over real links.

`plan.py` says what is run and `outcome.py` what comes of it; `cluster.py` runs it on this machine, one `round.py` after another
in the processes of `worker.py`, to which it speaks by `control.py`. In each process `process.py` makes nodes and their
surroundings, and `host.py` drives them: `links.py` are their sockets, with the rates of `rates.py`, `feed.py` hands over the
events of `sources.py` when they are due, as `pace.py` says. `quota.py` bounds the processors a process may use, `journal.py` is
what a root is made from again.

ZeroMQ is only imported by who opens a link (`pip install 'headwater[edge]'`).
"""
