"""The CUDA C++ code generator and the compilation of its source."""
