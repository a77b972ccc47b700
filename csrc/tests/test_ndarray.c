#include <stdint.h>

#include "check.h"

static void test_alloc_is_aligned_and_counted(void) {
  TVMArrayHandle array = make_array(3, 5);
  CHECK((uintptr_t)array->data % 64 == 0);
  CHECK(array->shape[0] == 3 && array->shape[1] == 5 && array->strides == NULL);
  OK(TVMArrayRetain(array));
  CHECK(TVMArrayUseCount(array) == 2);
  OK(TVMArrayFree(array));
  OK(TVMArrayFree(array));
}

static void test_impossible_arrays_are_refused(void) {
  TVMArrayHandle array;
  int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, 4}, large[] = {INT64_C(1) << 55};
  REFUSES(TVMArrayAlloc(negative, 2, check_float32, check_cpu, &array), "shape[1] is negative");
  REFUSES(TVMArrayAlloc(huge, 2, check_float32, check_cpu, &array), "does not fit in memory");
  REFUSES(TVMArrayAlloc(large, 1, check_float32, check_cpu, &array), "cannot allocate");
  REFUSES(TVMArrayAlloc(large, 0, check_float32, (DLDevice){kDLCUDA, 1}, &array), "cuda(1)");
}

static void test_empty_and_scalar_arrays(void) {
  TVMArrayHandle array;
  int64_t empty[] = {0, INT64_MAX, 4};
  float value = 3, back = 0;
  OK(TVMArrayAlloc(empty, 3, check_float32, check_cpu, &array));
  OK(TVMArrayCopyFromBytes(array, NULL, 0));
  OK(TVMArrayFree(array));
  OK(TVMArrayAlloc(NULL, 0, check_float32, check_cpu, &array));
  OK(TVMArrayCopyFromBytes(array, &value, 4));
  OK(TVMArrayCopyToBytes(array, &back, 4));
  CHECK(back == 3);
  OK(TVMArrayFree(array));
}

static void test_copies_respect_strides(void) {
  float source[12], back[6];
  int64_t shape[] = {3, 2}, strides[] = {4, 2};
  for (int i = 0; i < 12; ++i) source[i] = (float)i;
  DLTensor strided = {source, check_cpu, 2, check_float32, shape, strides, 0};
  TVMArrayHandle target = make_array(3, 2);
  OK(TVMArrayCopyFromTo(&strided, target, NULL));
  OK(TVMArrayCopyToBytes(target, back, sizeof back));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) CHECK(back[2 * i + j] == source[4 * i + 2 * j]);
  float zeros[6] = {0};
  OK(TVMArrayCopyFromBytes(&strided, zeros, sizeof zeros));
  CHECK(source[0] == 0 && source[1] == 1 && source[2] == 0 && source[3] == 3);
  OK(TVMArrayFree(target));
}

static void test_copy_mismatches_are_refused(void) {
  TVMArrayHandle a = make_array(2, 2), b = make_array(2, 3), c;
  int64_t shape[] = {2, 2};
  OK(TVMArrayAlloc(shape, 2, (DLDataType){kDLInt, 32, 1}, check_cpu, &c));
  REFUSES(TVMArrayCopyFromTo(a, b, NULL), "16 bytes, but the destination has 24");
  REFUSES(TVMArrayCopyFromTo(a, c, NULL), "the source has type float32, but the destination has type int32");
  REFUSES(TVMArrayCopyFromBytes(a, shape, 8), "the array has 16 bytes, but the buffer has 8");
  OK(TVMArrayFree(a));
  OK(TVMArrayFree(b));
  OK(TVMArrayFree(c));
}

static void test_view_keeps_its_base(void) {
  TVMArrayHandle base = make_array(4, 2), view;
  int64_t shape[] = {2};
  for (int i = 0; i < 8; ++i) ((float *)base->data)[i] = (float)i;
  OK(TVMArrayCreateView(base, shape, 1, check_float32, 24, &view));
  REFUSES(TVMArrayCreateView(base, shape, 1, check_float32, 28, &view), "do not fit");
  OK(TVMArrayFree(base));
  float back[2];
  OK(TVMArrayCopyToBytes(view, back, sizeof back));
  CHECK(back[0] == 6 && back[1] == 7);
  OK(TVMArrayFree(view));
}

static int deleted;
static void count_deleted(DLManagedTensor *self) { ++deleted; }

static void test_dlpack_goes_both_ways_without_a_copy(void) {
  uint8_t data[4] = {1, 0, 1, 1};
  int64_t shape[] = {2, 2}, strides[] = {2, 1};
  DLManagedTensor managed = {{data, check_cpu, 2, {kDLBool, 8, 1}, shape, strides, 0}, NULL, count_deleted};
  TVMArrayHandle array;
  OK(TVMArrayFromDLPack(&managed, &array));
  CHECK(array->data == data && array->strides == NULL);
  CHECK(array->dtype.code == kDLUInt && array->dtype.bits == 1);
  DLManagedTensor *out;
  DLManagedTensorVersioned *versioned;
  OK(TVMArrayToDLPack(array, &out));
  OK(TVMArrayToDLPackVersioned(array, &versioned));
  OK(TVMArrayFree(array));
  CHECK(out->dl_tensor.data == data && out->dl_tensor.dtype.code == kDLBool && out->dl_tensor.strides[0] == 2);
  CHECK(versioned->version.major == 1 && versioned->dl_tensor.data == data);
  out->deleter(out);
  CHECK(deleted == 0);
  versioned->deleter(versioned);
  CHECK(deleted == 1);
}

int main(void) {
  RUN(test_alloc_is_aligned_and_counted);
  RUN(test_impossible_arrays_are_refused);
  RUN(test_empty_and_scalar_arrays);
  RUN(test_copies_respect_strides);
  RUN(test_copy_mismatches_are_refused);
  RUN(test_view_keeps_its_base);
  RUN(test_dlpack_goes_both_ways_without_a_copy);
  return 0;
}
