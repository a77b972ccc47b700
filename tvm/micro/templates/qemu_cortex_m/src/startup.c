/* The start of a program on a Cortex-M: vectors, initialized data, the floating-point unit, and the loop. */
#include "tvm_crt.h"

extern uint32_t __stack_top[], __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];

void Reset_Handler(void);
void Fault_Handler(void);

typedef struct {
  void* stack;
  void (*handlers[15])(void);
} Vectors;

__attribute__((section(".vectors"), used)) static const Vectors vectors = {
    __stack_top,
    {Reset_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, 0, 0, 0,
     Fault_Handler, Fault_Handler, 0, Fault_Handler, Fault_Handler},
};

void Fault_Handler(void) { TVMPlatformAbort(3); }

void Reset_Handler(void) {
  for (uint32_t *to = __data_start, *from = __data_load; to != __data_end;) *to++ = *from++;
  for (uint32_t* to = __bss_start; to != __bss_end;) *to++ = 0;
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  /* Full access to the coprocessors 10 and 11: floating point and vectors. */
  *(volatile uint32_t*)0xe000ed88u |= 0xfu << 20;
  __asm__ volatile("dsb\nisb" ::: "memory");
#endif
  TVMCrtMain();
  TVMPlatformAbort(0);
}
