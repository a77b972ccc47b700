"""CUDA C++ text from kernels, and its compilation."""
