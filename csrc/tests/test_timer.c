#include <time.h>

#include "check.h"

typedef struct { TVMCallFrame head; TVMValue value; int32_t code; } Frame;

static int calls, interrupts;

static int sleepy(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  struct timespec nap = {0, args[0].v_int64};
  ++calls;
  if (args[0].v_int64) nanosleep(&nap, NULL);
  return 0;
}

static int stop_at_once(void) {
  ++interrupts;
  return 1;
}

static Frame *make_frame(int64_t nanoseconds) {
  Frame *frame = calloc(1, sizeof *frame);
  OK(TVMFuncCreateFromCFunc(sleepy, NULL, NULL, &frame->head.func));
  frame->head.num_args = 1;
  frame->head.values[0].v_int64 = nanoseconds;
  calls = 0;
  return frame;
}

static void free_frame(Frame *frame) {
  OK(TVMFuncFree(frame->head.func));
  free(frame);
}

static TVMTimeOptions options_of(int number, int repeat, int min_repeat_ms) {
  return (TVMTimeOptions){number, repeat, min_repeat_ms, 100, 0, 1, 0, NULL, {kDLCPU, 0}};
}

static void test_number_and_repeat_are_kept(void) {
  Frame *frame = make_frame(1000000);
  TVMTimeOptions options = options_of(3, 4, 0);
  double times[4];
  OK(TVMFuncTime(&frame->head, &options, times));
  CHECK(calls == 1 + 3 * 4);
  for (int i = 0; i < 4; ++i) CHECK(times[i] >= 1e-3);
  options.number = 0;
  REFUSES(TVMFuncTime(&frame->head, &options, times), "must be positive");
  free_frame(frame);
}

static void test_min_repeat_ms_raises_the_number(void) {
  Frame *frame = make_frame(0);
  TVMTimeOptions options = options_of(1, 1, 5);
  double time;
  OK(TVMFuncTime(&frame->head, &options, &time));
  CHECK(calls > 100 && time > 0 && time * calls >= 4e-3);
  free_frame(frame);
}

static void test_interrupt_stops_the_loop(void) {
  Frame *frame = make_frame(2000000);
  TVMTimeOptions options = options_of(10000, 1, 0);
  double time;
  TVMSetInterruptCheck(stop_at_once);
  REFUSES(TVMFuncTime(&frame->head, &options, &time), "interrupted");
  TVMSetInterruptCheck(NULL);
  CHECK(TVMTakeForeignError() == TVM_ERROR_INTERRUPTED && interrupts == 1 && calls < 200);
  free_frame(frame);
}

int main(void) {
  RUN(test_number_and_repeat_are_kept);
  RUN(test_min_repeat_ms_raises_the_number);
  RUN(test_interrupt_stops_the_loop);
  return 0;
}
