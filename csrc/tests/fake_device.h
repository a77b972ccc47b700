/* What the library of devices in fake_device.c tells the tests, and what the tests tell it. */
#ifndef TVM_TESTS_FAKE_DEVICE_H_
#define TVM_TESTS_FAKE_DEVICE_H_

#include <stddef.h>

enum { ABACUS = 90 }; /* a device type that DLPack does not name */

/* One piece of work: out[i] = a[i] * factor + b[i] of `count` floats, without b where it is NULL. */
typedef struct { float *out; const float *a, *b; float factor; size_t count; } FakeWork;

typedef struct {
  /* told by the test */
  int tagged; /* addresses are none of the host's: reading them without the device crashes */
  int fail_next_alloc;
  /* told by the device */
  int blocks; /* that are not freed */
  size_t largest; /* bytes of the largest block so far */
  int in, out, within; /* copies from the host, to the host, on the device */
  int done, captures, replays, graphs; /* pieces of work; captured runs, their replays, graphs not freed */
  int (*give)(FakeWork work); /* does the work, or keeps it while a run is captured */
} FakeDevice;

#endif /* TVM_TESTS_FAKE_DEVICE_H_ */
