"""Helpers beside the compiler: toolchains, files, outside libraries."""
