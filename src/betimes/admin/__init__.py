"""A tenant's keys, policy and secrets, as its administrators see them."""
