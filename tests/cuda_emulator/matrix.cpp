/* Matrix units. Fragments of mma and ldmatrix lie as the PTX manual's tables say; those of wmma are nobody's business,
 * and lie here in the order of the memory they were loaded from, so that a wrong layout in a product shows. */
#include <cmath>
#include <cstring>

#include "machine.h"

namespace {

template <class To, class From> To bits_as(From value) {
  To out;
  static_assert(sizeof out == sizeof value, "");
  memcpy(&out, &value, sizeof out);
  return out;
}

/* Rounds to a format of `exponent` and `mantissa` bits, ties to even. */
unsigned round_to(double value, int exponent, int mantissa) {
  unsigned sign = std::signbit(value) ? 1u << (exponent + mantissa) : 0, infinite = ((1u << exponent) - 1) << mantissa;
  if (std::isnan(value)) return infinite | 1u << (mantissa - 1);
  double magnitude = std::fabs(value);
  int bias = (1 << (exponent - 1)) - 1, power = 0;
  std::frexp(magnitude, &power);
  power = magnitude ? power - 1 : -bias;
  if (power < 1 - bias) power = 1 - bias;
  if (std::isinf(magnitude)) return sign | infinite;
  double steps = std::nearbyint(std::ldexp(magnitude, mantissa - power));
  if (power > bias + 1) return sign | infinite;
  /* A mantissa that rounds up to the next power carries into the exponent by itself. */
  uint64_t scaled = (uint64_t)steps + ((uint64_t)(power + bias - 1) << mantissa);
  return sign | (scaled >= infinite ? infinite : (unsigned)scaled);
}

double read_float(unsigned bits, int exponent, int mantissa) {
  int field = (int)(bits >> mantissa & ((1u << exponent) - 1)), bias = (1 << (exponent - 1)) - 1;
  double fraction = bits & ((1u << mantissa) - 1), sign = bits >> (exponent + mantissa) & 1 ? -1 : 1;
  if (field == (1 << exponent) - 1) return fraction ? NAN : sign * INFINITY;
  if (!field) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (double)(1u << mantissa), field - bias - mantissa);
}

struct Kind { const char *name; int bits; };
const Kind kinds_known[] = {{"f16", 16}, {"bf16", 16}, {"tf32", 32}, {"f32", 32}, {"f64", 64}, {"s8", 8}, {"u8", 8},
                            {"s4", 4},   {"u4", 4},    {"b1", 1},    {"s32", 32}};

const Kind *kind_of(const char *name, size_t length) {
  for (const Kind &kind : kinds_known)
    if (strlen(kind.name) == length && !memcmp(kind.name, name, length)) return &kind;
  emu_fail("the emulator has no matrices of type %.*s", (int)length, name);
}
bool is(const Kind *kind, const char *name) { return !strcmp(kind->name, name); }
int in_register(const Kind *kind) { return kind->bits >= 32 ? 1 : 32 / kind->bits; }

double decode(const Kind *kind, emu_word bits) {
  if (kind->bits < 64) bits &= ((emu_word)1 << kind->bits) - 1;
  if (is(kind, "f16")) return read_float((unsigned)bits, 5, 10);
  if (is(kind, "bf16")) return read_float((unsigned)bits, 8, 7);
  /* The unit does not look at the last digits. */
  if (is(kind, "tf32")) return (double)bits_as<float>((unsigned)bits & 0xffffe000u);
  if (is(kind, "f32")) return (double)bits_as<float>((unsigned)bits);
  if (is(kind, "f64")) return bits_as<double>(bits);
  if (is(kind, "s32")) return (double)(int32_t)bits;
  double top = kind->name[0] == 's' && bits >> (kind->bits - 1) ? -std::ldexp(1.0, kind->bits) : 0;
  return (double)bits + top;
}

emu_word encode(const Kind *kind, double value, bool saturate) {
  if (is(kind, "f16")) return round_to(value, 5, 10);
  if (is(kind, "f32")) return bits_as<unsigned>((float)value);
  if (is(kind, "f64")) return bits_as<emu_word>(value);
  if (!is(kind, "s32")) emu_fail("no product gives %s", kind->name);
  if (saturate) value = value > 2147483647.0 ? 2147483647.0 : value < -2147483648.0 ? -2147483648.0 : value;
  return (uint32_t)(int64_t)value;
}

double get(const Kind *kind, const emu_word *registers, int i) {
  int per = in_register(kind);
  return decode(kind, registers[i / per] >> (i % per * kind->bits % 64));
}
void put(const Kind *kind, emu_word *registers, int i, emu_word bits) {
  int per = in_register(kind), shift = i % per * kind->bits;
  if (per == 1) {
    registers[i] = bits;
    return;
  }
  emu_word mask = (((emu_word)1 << kind->bits) - 1) << shift;
  registers[i / per] = (registers[i / per] & ~mask) | bits << shift;
}

struct Types { const Kind *d, *a, *b, *c; };
Types types_of(const char *names) {
  const Kind *out[4];
  for (int i = 0; i < 4; ++i) {
    size_t length = strcspn(names, ".");
    out[i] = kind_of(names, length);
    names += length + (names[length] != 0);
  }
  return {out[0], out[1], out[2], out[3]};
}

enum { MOST = 32 * 256 };
double matrix_a[MOST], matrix_b[MOST], matrix_c[MOST];

void multiply(int m, int n, int k, bool bits) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int x = 0; x < k; ++x) {
        double a = matrix_a[i * k + x], b = matrix_b[x * n + j];
        sum += bits ? (double)(a != b) : a * b;
      }
      matrix_c[i * n + j] += sum;
    }
}

/* ---- mma ---- */

struct Spot { int row, column; };

/* A register holds `per` neighbours along k; four lanes make up a row of them. Registers go down eight rows first. */
Spot spot_a(int m, int per, int lane, int i) {
  int group = lane >> 2, within = lane % 4, number = i / per, halves = m == 16 ? 2 : 1;
  return {group + number % halves * 8, within * per + i % per + number / halves * 4 * per};
}
Spot spot_b(int per, int lane, int i) { return {lane % 4 * per + i % per + i / per * 4 * per, lane >> 2}; }
Spot spot_c(int lane, int i) { return {(lane >> 2) + i / 2 * 8, lane % 4 * 2 + (i & 1)}; }

struct Product {
  int m, n, k;
  const char *kinds;
  int saturate;
  emu_word *d;
  const emu_word *a, *b, *c;
};

void act_product(void **all, unsigned) {
  const Product &first = *(Product *)all[0];
  int m = first.m, n = first.n, k = first.k;
  Types t = types_of(first.kinds);
  if ((m != 8 && m != 16) || n != 8 || m * k > MOST) emu_fail("no layout is known for mma m%dn%dk%d", m, n, k);
  if (m == 8 && is(t.a, "f16")) emu_fail("mma m8n8k4 of f16 is not emulated");
  int pa = in_register(t.a), pb = in_register(t.b);
  for (int lane = 0; lane < 32; ++lane) {
    const Product &p = *(Product *)all[lane];
    for (int i = 0; i < m * k / 32; ++i) {
      Spot s = spot_a(m, pa, lane, i);
      matrix_a[s.row * k + s.column] = get(t.a, p.a, i);
    }
    for (int i = 0; i < k * n / 32; ++i) {
      Spot s = spot_b(pb, lane, i);
      matrix_b[s.row * n + s.column] = get(t.b, p.b, i);
    }
    for (int i = 0; i < m * n / 32; ++i) {
      Spot s = spot_c(lane, i);
      matrix_c[s.row * n + s.column] = get(t.c, p.c, i);
    }
  }
  multiply(m, n, k, is(t.a, "b1"));
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < m * n / 32; ++i) {
      Spot s = spot_c(lane, i);
      put(t.d, ((Product *)all[lane])->d, i, encode(t.d, matrix_c[s.row * n + s.column], first.saturate));
    }
}

/* ---- ldmatrix ---- */

struct Matrices { emu_word *out; int count, transposed; unsigned address; };

void act_load(void **all, unsigned) {
  const Matrices &first = *(Matrices *)all[0];
  for (int x = 0; x < first.count; ++x) {
    unsigned short rows[8][8];
    for (int r = 0; r < 8; ++r) memcpy(rows[r], emu_shared_place(((Matrices *)all[8 * x + r])->address, 16, 16), 16);
    for (int lane = 0; lane < 32; ++lane) {
      int r = lane / 4, c = lane % 4 * 2;
      unsigned low = first.transposed ? rows[c][r] : rows[r][c], high = first.transposed ? rows[c + 1][r] : rows[r][c + 1];
      ((Matrices *)all[lane])->out[x] = low | high << 16;
    }
  }
}

/* ---- wmma ---- */

struct FragmentProduct {
  int columns[2];
  int m, n, k;
  const char *kinds;
  emu_word *d;
  const emu_word *parts[3];
  int counts[4];
};

int lane_here() {
  unsigned at = emu_now->thread.x + emu_now->block_size.x * (emu_now->thread.y + emu_now->block_size.y * emu_now->thread.z);
  return (int)(at % 32);
}

/* The element of register slot `i` of a lane. A fragment with room for more holds its elements several times. */
int element_of(const Kind *kind, int registers, int elements, int lane, int i) {
  int slots = registers * in_register(kind);
  if (slots * 32 < elements) emu_fail("%d registers are too few for a fragment of %d elements", registers, elements);
  return (lane * slots + i) % elements;
}

void gather(double *out, const Kind *kind, void **all, int part, int rows, int columns, bool by_column) {
  for (int lane = 0; lane < 32; ++lane) {
    const FragmentProduct &p = *(FragmentProduct *)all[lane];
    int slots = p.counts[part + 1] * in_register(kind);
    for (int i = 0; i < slots; ++i) {
      int e = element_of(kind, p.counts[part + 1], rows * columns, lane, i);
      int at = by_column ? e % rows * columns + e / rows : e;
      out[at] = get(kind, p.parts[part], i);
    }
  }
}

void act_fragments(void **all, unsigned) {
  const FragmentProduct &first = *(FragmentProduct *)all[0];
  Types t = types_of(first.kinds);
  gather(matrix_a, t.a, all, 0, first.m, first.k, first.columns[0]);
  gather(matrix_b, t.b, all, 1, first.k, first.n, first.columns[1]);
  gather(matrix_c, t.c, all, 2, first.m, first.n, false);
  multiply(first.m, first.n, first.k, false);
  for (int lane = 0; lane < 32; ++lane) {
    FragmentProduct &p = *(FragmentProduct *)all[lane];
    for (int i = 0; i < p.counts[0] * in_register(t.d); ++i)
      put(t.d, p.d, i, encode(t.d, matrix_c[element_of(t.d, p.counts[0], first.m * first.n, lane, i)], false));
  }
}

void act_nothing(void **, unsigned) {}

/* Where an element lies in memory; elements of sums are in rows whatever the memory. */
size_t memory_at(int e, int rows, int columns, bool by_column, bool sum, int stride) {
  int r = by_column && !sum ? e % rows : e / columns, c = by_column && !sum ? e / rows : e % columns;
  return by_column ? (size_t)c * (size_t)stride + (size_t)r : (size_t)r * (size_t)stride + (size_t)c;
}

void check_fragment_memory(const Kind *kind, const void *memory, int stride, int line) {
  if ((uintptr_t)memory % 16 || stride * kind->bits / 8 % 16)
    emu_fail("line %d: rows of a fragment begin at multiples of 16 bytes, not at %p with %d elements a row", line, memory,
             stride);
}

} // namespace

extern "C" {

float emu_float_of_half(unsigned short bits) { return (float)read_float(bits, 5, 10); }
unsigned short emu_half_of(double value) { return (unsigned short)round_to(value, 5, 10); }
float emu_float_of_bfloat(unsigned short bits) { return (float)read_float(bits, 8, 7); }
unsigned short emu_bfloat_of(double value) { return (unsigned short)round_to(value, 8, 7); }
float emu_tf32_of(float value) {
  /* To the nearest, ties away from zero. */
  unsigned bits = bits_as<unsigned>(value);
  return std::isfinite(value) ? bits_as<float>((bits + 0x1000u) & 0xffffe000u) : value;
}

void emu_load_matrices(emu_word *out, int count, int transposed, unsigned address, int line) {
  Matrices own = {out, count, transposed, address};
  emu_meet("ldmatrix", EMU_ALL_LANES, true, &own, act_load, line);
}

void emu_product(int m, int n, int k, const char *kinds, int saturate, emu_word *d, const emu_word *a, const emu_word *b,
                 const emu_word *c, int line) {
  Product own = {m, n, k, kinds, saturate, d, a, b, c};
  emu_meet("mma", EMU_ALL_LANES, true, &own, act_product, line);
}

void emu_fragment_load(int use, int column, int m, int n, int k, const char *name, emu_word *out, int registers,
                       const void *memory, int stride, int line) {
  const Kind *kind = kind_of(name, strlen(name));
  int rows = use == 1 ? k : m, columns = use == 0 ? k : n;
  check_fragment_memory(kind, memory, stride, line);
  emu_meet("wmma.load", EMU_ALL_LANES, true, nullptr, act_nothing, line);
  for (int i = 0; i < registers * in_register(kind); ++i) {
    int e = element_of(kind, registers, rows * columns, lane_here(), i);
    size_t size = (size_t)kind->bits / 8, at = memory_at(e, rows, columns, column, use == 2, stride);
    emu_word bits = 0;
    memcpy(&bits, (const char *)memory + at * size, size);
    put(kind, out, i, bits);
  }
}

void emu_fragment_store(int column, int m, int n, int k, const char *name, const emu_word *in, int registers, void *memory,
                        int stride, int line) {
  (void)k;
  const Kind *kind = kind_of(name, strlen(name));
  check_fragment_memory(kind, memory, stride, line);
  emu_meet("wmma.store", EMU_ALL_LANES, true, nullptr, act_nothing, line);
  int per = in_register(kind);
  for (int i = 0; i < registers * per; ++i) {
    int e = element_of(kind, registers, m * n, lane_here(), i);
    size_t size = (size_t)kind->bits / 8, at = memory_at(e, m, n, column, true, stride);
    emu_word bits = per == 1 ? in[i] : in[i / per] >> (i % per * kind->bits);
    memcpy((char *)memory + at * size, &bits, size);
  }
}

void emu_fragment_product(int column_a, int column_b, int m, int n, int k, const char *kinds, emu_word *d, int d_registers,
                          const emu_word *a, int a_registers, const emu_word *b, int b_registers, const emu_word *c,
                          int c_registers, int line) {
  FragmentProduct own = {{column_a, column_b}, m, n, k, kinds, d, {a, b, c}, {d_registers, a_registers, b_registers,
                                                                              c_registers}};
  emu_meet("wmma.mma", EMU_ALL_LANES, true, &own, act_fragments, line);
}
}
