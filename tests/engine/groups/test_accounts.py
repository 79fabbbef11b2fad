"""What became of every event: totals that each query counts from when it came."""

import numpy as np

from group_events import restored
from headwater.engine.groups.accounts import Accounts, Totals
from headwater.engine.groups.shared import QueryGroup
from headwater.engine.windows.late import DROPPED, LATE, OUTSIDE


def test_a_query_counts_from_when_it_came():
    accounts = Accounts()
    accounts.count(10, 2, 1)
    accounts.open([7])
    accounts.count(5, 1, 1)
    extra = np.zeros(4, np.int64)
    extra[[OUTSIDE, LATE, DROPPED]] = 1, 0, 1
    assert accounts.counters(7, extra) == {"in": 5, "filtered": 1, "outside": 2, "member": 1, "late": 0, "dropped": 1}


def test_totals_that_were_taken_begin_anew():
    accounts = Accounts()
    accounts.count(3, 2, 1)
    assert accounts.take() == Totals(3, 2, 0, 1)
    assert accounts.totals == Totals()


def test_accounts_are_restored_with_what_queries_count_from():
    group = QueryGroup((), None)
    accounts = group.accounts
    accounts.count(10, 2, 1)
    accounts.open([7])
    again = restored(group, QueryGroup((), None)).accounts
    assert (again.totals, again.before) == (accounts.totals, accounts.before)
    again.count(1, 0, 0)
    assert again.counters(7, np.zeros(4, np.int64))["in"] == 1
