"""Code generation: lowered functions to object code and source. The table in ``backend`` has an entry for each back
end."""
