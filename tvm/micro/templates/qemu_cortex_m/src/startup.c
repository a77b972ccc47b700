/* The start of a program on a Cortex-M: vectors, initialized data, the floating-point unit, and the loop. */
#include "tvm_crt.h"

extern uint32_t __stack_top[], __data_load[], __data_start[], __data_end[], __bss_start[], __bss_end[];

void Reset_Handler(void);
void Timer_Handler(void);
void Fault_Handler(void);

typedef struct {
  void* stack;
  void (*handlers[15])(void);
} Vectors;

__attribute__((section(".vectors"), used)) static const Vectors vectors = {
    __stack_top,
    {Reset_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, Fault_Handler, 0, 0, 0,
     Fault_Handler, Fault_Handler, 0, Fault_Handler, Timer_Handler},
};

/* The system timer counts down 24 bits with the clock of the processor and then restarts. */
enum { TIMER_PERIOD = 1 << 24 };
#define TIMER_CONTROL (*(volatile uint32_t*)0xe000e010u)
#define TIMER_RELOAD (*(volatile uint32_t*)0xe000e014u)
#define TIMER_VALUE (*(volatile uint32_t*)0xe000e018u)
static volatile uint32_t timer_periods;

void Timer_Handler(void) { ++timer_periods; }

static void start_timer(void) {
  TIMER_RELOAD = TIMER_PERIOD - 1;
  TIMER_VALUE = 0;
  TIMER_CONTROL = 7; /* The clock of the processor, with interrupts. */
}

uint32_t TVMPlatformTimeMicroseconds(void) {
  uint32_t periods, value;
  do {
    periods = timer_periods;
    value = TIMER_VALUE;
  } while (periods != timer_periods);
  return (uint32_t)(((uint64_t)periods * TIMER_PERIOD + (TIMER_PERIOD - 1 - value)) / TVM_CLOCK_MHZ);
}

void Fault_Handler(void) { TVMPlatformAbort(3); }

void Reset_Handler(void) {
  for (uint32_t *to = __data_start, *from = __data_load; to != __data_end;) *to++ = *from++;
  for (uint32_t* to = __bss_start; to != __bss_end;) *to++ = 0;
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  /* Full access to the coprocessors 10 and 11: floating point and vectors. */
  *(volatile uint32_t*)0xe000ed88u |= 0xfu << 20;
  __asm__ volatile("dsb\nisb" ::: "memory");
#endif
  start_timer();
  TVMCrtMain();
  TVMPlatformAbort(0);
}
