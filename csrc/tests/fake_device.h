/* State that the device library in fake_device.c and the tests exchange. */
#ifndef TVM_TESTS_FAKE_DEVICE_H_
#define TVM_TESTS_FAKE_DEVICE_H_

#include <stddef.h>

enum { ABACUS = 90 }; /* a device type that DLPack does not define */

/* One operation: out[i] = a[i] * factor + b[i] for `count` floats; b may be NULL. */
typedef struct { float *out; const float *a, *b; float factor; size_t count; } FakeWork;

typedef struct {
  /* set by the test */
  int tagged; /* device addresses are invalid on the host: accessing them without the device crashes */
  int fail_next_alloc;
  /* set by the device */
  int blocks; /* number of blocks that are not freed */
  size_t largest; /* size of the largest block so far in bytes */
  int in, out, within; /* copies from the host, to the host, on the device */
  int done, captures, replays, graphs; /* operations; captured runs, their replays, graphs not freed */
  int (*give)(FakeWork work); /* executes the operation, or records it while a run is captured */
} FakeDevice;

#endif /* TVM_TESTS_FAKE_DEVICE_H_ */
