/* What the stand-ins for the drivers tell the tests, and what the tests tell them. */
#ifndef TVM_TESTS_FAKE_DRIVER_H_
#define TVM_TESTS_FAKE_DRIVER_H_

#include <stddef.h>

typedef struct {
  /* told by the test */
  int devices, major, minor;
  size_t memory; /* bytes of a device */
  int fail_capture, fail_next_sync, no_stamps, no_pinned;
  /* told by the driver */
  size_t taken;
  int blocks, parts, streams, events, modules, kernels, graphs, pinned;
  int launches, overlapping, replays, loads, allocations, copies, peer_copies;
  size_t dynamic_shared; /* of the last launch */
  char loaded[64];       /* the beginning of the last image */
} FakeDriver;

#endif /* TVM_TESTS_FAKE_DRIVER_H_ */
