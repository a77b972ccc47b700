"""C text from lowered functions, and what dialects of C share."""
