"""Schedules of heavy operators on GPUs, and what they share."""
