"""Inspection of compiled models while they run."""
