"""Measurement of tuning candidates: worker processes, the code they run, and crash-safe record files."""
