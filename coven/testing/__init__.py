"""Help for tests: ours and our users'."""
