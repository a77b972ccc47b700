#ifndef KERNEL_H_
#define KERNEL_H_
#include <stddef.h>
#include <stdint.h>
void k_yield(void);
int32_t k_msleep(int32_t milliseconds);
uint32_t k_cycle_get_32(void);
static inline uint64_t k_cyc_to_us_floor64(uint64_t cycles) { return cycles; }
void printk(const char* format, ...);
#endif
