"""Looking into compiled models while they run."""
