"""For tests of what is built on betimes: a virtual clock, given/when/then, store conformance, the simulator."""
