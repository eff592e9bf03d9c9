"""What is called outside, against real servers on loopback."""
