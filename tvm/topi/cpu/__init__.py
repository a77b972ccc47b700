"""Templates of the heavy operators on a CPU: the knobs of each, the choice without search, and the schedule."""
