"""Backtests: what another policy would have done with the traffic that was recorded.

plan.py       what is asked: the window, the candidates, a swept parameter
reading.py    the ledger in order, checked on the way; which of its commands came from outside
links.py      which streams can be rehearsed apart from each other
worlds.py     one policy, and all that follows from it
lockstep.py   the recorded policy and every candidate, side by side, through the same traffic
control.py    whether the recorded policy, rehearsed, decides what the ledger says
calls.py      how calls end in a world where they may not have been made
tally.py      what is counted, and how two worlds' answers are compared
report.py     the answer, for people and programs
running.py    one part of a backtest, or all of it, from beginning to end

asking.py     from what somebody asks to a checked plan
telling.py    a report in words
page.py       a report as one page of HTML, with charts.py
jobs.py       backtests that a tenant has asked for
making.py     their executor
"""
