"""CPU templates of compute-intensive operators: each defines its knobs, a choice without search, and the schedule."""
