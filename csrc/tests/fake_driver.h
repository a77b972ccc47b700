/* State that the fake drivers and the tests exchange. */
#ifndef TVM_TESTS_FAKE_DRIVER_H_
#define TVM_TESTS_FAKE_DRIVER_H_

#include <stddef.h>

typedef struct {
  /* set by the test */
  int devices, major, minor;
  size_t memory; /* memory size of a device in bytes */
  int fail_capture, fail_next_sync, no_stamps, no_pinned;
  /* set by the driver */
  size_t taken;
  int blocks, parts, streams, events, modules, kernels, graphs, pinned;
  int launches, overlapping, replays, loads, allocations, copies, peer_copies;
  size_t dynamic_shared; /* dynamic shared memory of the last launch */
  char loaded[64];       /* the beginning of the last image */
} FakeDriver;

#endif /* TVM_TESTS_FAKE_DRIVER_H_ */
