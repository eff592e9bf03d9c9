"""The domains: folders of one shape, `model.py` (commands, events, state), `policy.py` and `decide.py`."""
