/* The start of a program on a RISC-V: the stack, the floating-point unit, and the loop. */
#include "tvm_crt.h"

extern uint8_t __bss_start[], __bss_end[];

void start(void);

/* The first instructions of the program. Traps end it. */
__attribute__((naked, section(".start"), used)) void _start(void) {
  __asm__ volatile(
      ".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\n"
      "la sp, __stack_top\n"
      "la t0, trap\ncsrw mtvec, t0\n"
      "li t0, 0x2000\ncsrs mstatus, t0\n"
      "tail start");
}

__attribute__((aligned(4), used)) void trap(void) { TVMPlatformAbort(3); }

void start(void) {
  for (uint8_t* to = __bss_start; to != __bss_end;) *to++ = 0;
  TVMCrtMain();
  TVMPlatformAbort(0);
}
