/* The checksum of libraries and executables, as functions of the C interface. */
#include "../../include/tvm/checksum.h"

#include "base.h"

uint64_t TVMChecksumOfParts(const void *const *parts, const size_t *sizes, int count) {
  return tvm_checksum_of_parts(parts, sizes, count);
}

uint64_t TVMChecksum(const void *data, size_t size) { return TVMChecksumOfParts(&data, &size, 1); }
