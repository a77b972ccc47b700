"""Models whose runs are captured as CUDA graphs."""
