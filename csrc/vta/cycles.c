#include "core.h"
int vta_run_cycles(Pipeline *p, uint64_t limit) { return vta_run_functional(p, limit); }
