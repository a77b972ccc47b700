"""Measuring candidates of a tuner: worker processes, what they run, and files that a crash does not spoil."""
