/* What generated CUDA text finds when a C++ compiler reads it: the words of the language, its types and functions.
 * Threads are coroutines of emulator.cpp; whatever waits for others or touches the block's memory is a call into it. */
#ifndef CUDA_EMULATOR_H_
#define CUDA_EMULATOR_H_

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

typedef unsigned long long emu_word;

struct emu_size { unsigned x, y, z; };
struct emu_place { emu_size thread, block, block_size, grid_size; };
/* What the runtime has to know about a kernel. */
struct emu_kernel { void (*call)(void **); int arguments; int bounds; };

extern "C" {
extern emu_place *emu_now;
/* Memory of the block: array number `slot` of the kernel, and what the launch adds. */
void *emu_shared(int slot, const char *name, emu_word bytes);
void *emu_dynamic_shared(void);
/* What follows `extern __shared__ __align__(alignment)`. */
void *emu_dynamic_shared_at(emu_word alignment);
unsigned emu_shared_address(const void *place);
void *emu_shared_place(unsigned address, int bytes, int alignment);
void emu_barrier(int line);
void emu_warp_barrier(unsigned mask, int line);
unsigned emu_active_mask(int line);
emu_word emu_shuffle(int kind, unsigned mask, emu_word bits, int lane, int width, int line);
unsigned emu_ballot(unsigned mask, int predicate, int line);
void emu_copy_async(unsigned shared, const void *global, int size, int count);
void emu_copy_commit(void);
void emu_copy_wait(int groups);
void emu_proxy_fence(void);
void emu_copy_bulk(unsigned shared, const void *global, int size, unsigned barrier);
void emu_mbarrier_init(unsigned barrier, int count);
void emu_mbarrier_arrive(unsigned barrier, int bytes);
void emu_mbarrier_copies(unsigned barrier, int counted);
bool emu_mbarrier_wait(unsigned barrier, int parity);
void emu_load_matrices(emu_word *out, int count, int transposed, unsigned address, int line);
void emu_product(int m, int n, int k, const char *kinds, int saturate, emu_word *d, const emu_word *a, const emu_word *b,
                 const emu_word *c, int line);
void emu_fragment_load(int use, int column, int m, int n, int k, const char *kind, emu_word *out, int registers,
                       const void *memory, int stride, int line);
void emu_fragment_store(int column, int m, int n, int k, const char *kind, const emu_word *in, int registers, void *memory,
                        int stride, int line);
void emu_fragment_product(int column_a, int column_b, int m, int n, int k, const char *kinds, emu_word *d, int d_registers,
                          const emu_word *a, int a_registers, const emu_word *b, int b_registers, const emu_word *c,
                          int c_registers, int line);
void emu_group_product(int m, int n, int k, const char *kind, float **sums, int registers, emu_word a, emu_word b, int keep,
                       int turned_a, int turned_b, int line);
void emu_group_fence(int line);
void emu_group_commit(int line);
void emu_group_wait(int left, int line);
float emu_float_of_half(unsigned short bits);
unsigned short emu_half_of(double value);
float emu_float_of_bfloat(unsigned short bits);
unsigned short emu_bfloat_of(double value);
float emu_tf32_of(float value);
}

#define EMU_ALL_LANES 0xffffffffu
enum { EMU_IDX, EMU_UP, EMU_DOWN, EMU_XOR };

/* The emulator's own parts have the C library's names instead. */
#ifndef EMU_INSIDE
#define threadIdx (emu_now->thread)
#define blockIdx (emu_now->block)
#define blockDim (emu_now->block_size)
#define gridDim (emu_now->grid_size)
#define warpSize 32

/* Types */

#define EMU_VECTOR(scalar, name, size)                                                                              \
  struct __align__(2 * size) name##2 { scalar x, y; };                                                              \
  struct __align__(4 * size <= 16 ? 4 * size : 16) name##4 { scalar x, y, z, w; };
EMU_VECTOR(char, char, 1)
EMU_VECTOR(unsigned char, uchar, 1)
EMU_VECTOR(short, short, 2)
EMU_VECTOR(unsigned short, ushort, 2)
EMU_VECTOR(int, int, 4)
EMU_VECTOR(unsigned, uint, 4)
EMU_VECTOR(long long, longlong, 8)
EMU_VECTOR(unsigned long long, ulonglong, 8)
EMU_VECTOR(float, float, 4)
EMU_VECTOR(double, double, 8)

/* Values as the bits of a register, and back. */

template <class T> inline emu_word emu_bits(const T &value) {
  emu_word bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T> inline void emu_set(T &value, emu_word bits) { __builtin_memcpy(&value, &bits, sizeof value); }
template <class To, class From> inline To emu_as(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  To out;
  __builtin_memcpy(&out, &value, sizeof out);
  return out;
}
#define __uint_as_float(x) emu_as<float>((unsigned)(x))
#define __int_as_float(x) emu_as<float>((int)(x))
#define __float_as_uint(x) emu_as<unsigned>((float)(x))
#define __float_as_int(x) emu_as<int>((float)(x))
#define __longlong_as_double(x) emu_as<double>((long long)(x))
#define __double_as_longlong(x) emu_as<long long>((double)(x))

inline float __double2float_rz(double x) {
  float y = (float)x;
  if (__builtin_fabs((double)y) > __builtin_fabs(x)) y = emu_as<float>(emu_as<unsigned>(y) - 1);
  return y;
}

/* Functions of the language */

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
template <class T> inline T __ldg(const T *place) { return *place; }
template <class T> inline int emu_dot4(const T *x, const T *y, int sum) {
  for (int i = 0; i < 4; ++i) sum = (int)((unsigned)sum + (unsigned)((int)x[i] * (int)y[i]));
  return sum;
}
inline int __dp4a(int x, int y, int sum) { return emu_dot4((const signed char *)&x, (const signed char *)&y, sum); }
inline unsigned __dp4a(unsigned x, unsigned y, unsigned sum) {
  return (unsigned)emu_dot4((const unsigned char *)&x, (const unsigned char *)&y, (int)sum);
}
template <class T, class U> inline T atomicAdd(T *place, U amount) {
  T old = *place;
  *place = (T)(old + amount);
  return old;
}

#define __syncthreads() emu_barrier(__LINE__)
inline void emu_syncwarp(int line, unsigned mask = EMU_ALL_LANES) { emu_warp_barrier(mask, line); }
#define __syncwarp(...) emu_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __activemask() emu_active_mask(__LINE__)
#define __ballot_sync(mask, predicate) emu_ballot(mask, (predicate) != 0, __LINE__)
#define __any_sync(mask, predicate) (emu_ballot(mask, (predicate) != 0, __LINE__) != 0)
#define __all_sync(mask, predicate) (emu_ballot(mask, (predicate) == 0, __LINE__) == 0)
template <class T> inline T emu_shuffled(int line, int kind, unsigned mask, T value, int lane, int width = 32) {
  T out;
  emu_set(out, emu_shuffle(kind, mask, emu_bits(value), lane, width, line));
  return out;
}
#define __shfl_sync(...) emu_shuffled(__LINE__, EMU_IDX, __VA_ARGS__)
#define __shfl_up_sync(...) emu_shuffled(__LINE__, EMU_UP, __VA_ARGS__)
#define __shfl_down_sync(...) emu_shuffled(__LINE__, EMU_DOWN, __VA_ARGS__)
#define __shfl_xor_sync(...) emu_shuffled(__LINE__, EMU_XOR, __VA_ARGS__)
#define __cvta_generic_to_shared(place) emu_shared_address(place)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

/* Mathematics: the names are those of the C library but for these. */

#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf_sign(x)
#define isfinite(x) __builtin_isfinite(x)
extern "C" {
#define EMU_FUNCTION1(name) double name(double); float name##f(float);
#define EMU_FUNCTION2(name) double name(double, double); float name##f(float, float);
EMU_FUNCTION1(exp) EMU_FUNCTION1(exp2) EMU_FUNCTION1(exp10) EMU_FUNCTION1(expm1) EMU_FUNCTION1(log) EMU_FUNCTION1(log2)
EMU_FUNCTION1(log10) EMU_FUNCTION1(log1p) EMU_FUNCTION1(sqrt) EMU_FUNCTION1(cbrt) EMU_FUNCTION1(sin) EMU_FUNCTION1(cos)
EMU_FUNCTION1(tan) EMU_FUNCTION1(asin) EMU_FUNCTION1(acos) EMU_FUNCTION1(atan) EMU_FUNCTION1(sinh) EMU_FUNCTION1(cosh)
EMU_FUNCTION1(tanh) EMU_FUNCTION1(asinh) EMU_FUNCTION1(acosh) EMU_FUNCTION1(atanh) EMU_FUNCTION1(erf) EMU_FUNCTION1(erfc)
EMU_FUNCTION1(lgamma) EMU_FUNCTION1(tgamma) EMU_FUNCTION1(floor) EMU_FUNCTION1(ceil) EMU_FUNCTION1(trunc)
EMU_FUNCTION1(round) EMU_FUNCTION1(nearbyint) EMU_FUNCTION1(rint) EMU_FUNCTION1(fabs)
EMU_FUNCTION2(pow) EMU_FUNCTION2(fmod) EMU_FUNCTION2(hypot) EMU_FUNCTION2(copysign) EMU_FUNCTION2(nextafter)
EMU_FUNCTION2(atan2) EMU_FUNCTION2(fmin) EMU_FUNCTION2(fmax) EMU_FUNCTION2(fdim) EMU_FUNCTION2(remainder)
double fma(double, double, double);
float fmaf(float, float, float);
double ldexp(double, int);
float ldexpf(float, int);
long long llabs(long long);
int abs(int);
}
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
#define __expf expf
#define __logf logf
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __fdividef(x, y) ((x) / (y))
#define __frcp_rn(x) (1.0f / (x))

/* A kernel is called with pointers to its arguments. */

/* The braces of an initializer are evaluated from the left, which takes the arguments in order. */
template <class... A> struct emu_application {
  emu_application(void (*kernel)(A...), A... values) { kernel(values...); }
};
template <class... A> inline void emu_apply(void (*kernel)(A...), void **arguments) {
  int next = 0;
  emu_application<A...>{kernel, *(A *)arguments[next++]...};
  (void)next;
}
template <class... A> constexpr int emu_count(void (*)(A...)) { return (int)sizeof...(A); }
#define EMU_KERNEL(name, limit)                                                                                      \
  static void emu_call_##name(void **arguments) { emu_apply(name, arguments); }                                      \
  extern "C" __attribute__((visibility("default"))) const emu_kernel name##_emulated = {emu_call_##name,             \
                                                                                        emu_count(name), limit};
#endif /* EMU_INSIDE */

#endif /* CUDA_EMULATOR_H_ */
