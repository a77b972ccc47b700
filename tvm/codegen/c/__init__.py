"""The C code generator and the parts that it shares with dialects of C."""
