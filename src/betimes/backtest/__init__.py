"""Backtests: what another policy would have done with the traffic that was recorded.

plan.py       what is asked: the window, the candidates, a swept parameter
traffic.py    the ledger in order, checked on the way; which of its commands came from outside
partition.py  groups of streams that can be rehearsed apart from each other
worlds.py     one policy, and all that follows from it
lockstep.py   the recorded policy and every candidate, side by side, through the same traffic
control.py    compares the rehearsed recorded policy with the ledger
calls.py      the ends of calls in a world where they may not have been made
domain_rules.py  how each domain is rehearsed, as its DOMAIN declares
tally.py      counts, and samples of answers that differ
report.py     the answer, for people and programs
part_runner.py  one part of a backtest, or all of it, from beginning to end

plan_builder.py  from a request to a checked plan
summary.py    a report in words
page.py       a report as one page of HTML, with charts.py
jobs.py       backtests that a tenant has asked for
executor.py   their executor
"""
