"""Models whose runs are captured as one CUDA graph."""
