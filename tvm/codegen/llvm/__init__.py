"""The LLVM code generator: host code for every CPU that LLVM supports, and kernels for NVIDIA and AMD GPUs."""
