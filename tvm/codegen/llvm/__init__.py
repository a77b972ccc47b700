"""LLVM IR from lowered functions: host code of every CPU LLVM knows, and kernels of NVIDIA and AMD GPUs."""
