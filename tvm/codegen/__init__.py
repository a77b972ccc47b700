"""Code generation: lowered functions to objects and source. A back end is a row of the table in ``backend``."""
