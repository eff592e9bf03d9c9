"""The tests of betimes: real stores, virtual time, no sleeps."""
