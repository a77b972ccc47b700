/* Products of warpgroups (wgmma), after the PTX manual: matrices in shared memory are told by descriptors, and products
 * arrive as late as they may: when their warp waits for them. Until then the registers of the sums hold NaN. The memory
 * of the operands must be the same from the instruction to its arrival, and made visible by fence.proxy.async before.
 * Each warp has sixteen of the 64 rows, which is what it computes here. */
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "machine.h"

namespace {

enum { ROWS = 64, WARP_ROWS = 16, WARPS = 4, MOST_WARPS = 32, MOST_REGISTERS = 128 };
enum Swizzle { NONE, OF_128, OF_64, OF_32 };

/* Where a matrix lies: fields of its descriptor in bytes, and whether it goes along m (n) rather than k. */
struct Matrix {
  unsigned start, lead, stride;
  Swizzle swizzle;
  bool turned;
};

struct Product {
  int n, k;
  const char *kind;
  float **sums; /* of this lane */
  emu_word a, b;
  int keep, turned_a, turned_b, line;
};

struct Pending {
  int n, k, line;
  const char *kind;
  bool keep;
  Matrix a, b;
  std::vector<float *> sums; /* of lane 0, of lane 1, ... */
  std::vector<unsigned> operands;
};

struct Warp {
  std::vector<Pending> pending;
  std::vector<size_t> groups;
  size_t loose = 0, asked = 0;
  bool fenced = false;
  std::map<float *, float> held; /* what registers of sums on their way have */
};
Warp warps[MOST_WARPS];

int thread_here() {
  return (int)(emu_now->thread.x +
               emu_now->block_size.x * (emu_now->thread.y + emu_now->block_size.y * emu_now->thread.z));
}
Warp &warp_here() { return warps[thread_here() / 32]; }

/* ---- descriptors ---- */

Matrix matrix_of(emu_word bits, int turned, int line) {
  Matrix m = {(unsigned)(bits & 0x3fff) << 4, (unsigned)(bits >> 16 & 0x3fff) << 4, (unsigned)(bits >> 32 & 0x3fff) << 4,
              (Swizzle)(bits >> 62 & 3), turned != 0};
  if (bits >> 49 & 7) emu_fail("line %d: wgmma with a base offset in a descriptor is not emulated", line);
  const unsigned pattern = m.swizzle == OF_128 ? 1024 : m.swizzle == OF_64 ? 512 : m.swizzle == OF_32 ? 256 : 16;
  if (m.swizzle != NONE && m.start % pattern >= 128)
    emu_fail("line %d: a matrix of wgmma at %u: its pattern begins at a multiple of %u", line, m.start, pattern);
  return m;
}

/* The address of a number of `size` bytes: element `i` along m (n), `k` along the sum. */
unsigned address_of(const Matrix &m, int i, int k, int size) {
  const unsigned width = m.swizzle == OF_128 ? 128 : m.swizzle == OF_64 ? 64 : m.swizzle == OF_32 ? 32 : 16;
  const unsigned row = (unsigned)(m.turned ? k : i), column = (unsigned)((m.turned ? i : k) * size);
  unsigned at = m.start + row % 8 * width + column % width;
  if (m.swizzle == NONE) {
    /* Matrices of 8 rows of 16 bytes: the stride is along m (n), the lead along the sum. */
    at += (m.turned ? row / 8 * m.lead + column / 16 * m.stride : row / 8 * m.stride + column / 16 * m.lead);
  } else {
    at += row / 8 * m.stride + column / width * (m.turned ? m.lead : 0);
    if (!m.turned && column >= width) emu_fail("a row of wgmma has %u bytes", width);
  }
  /* The sixteen bytes of a row change places by the number of the row, as addresses have it. */
  const unsigned mask = width / 16 - 1;
  return at ^ (at >> 7 & mask) << 4;
}

/* Descriptors have 18 bits of an address. */
unsigned whole_address(unsigned at) {
  unsigned base = emu_shared_address(emu_dynamic_shared());
  return base + ((at - base) & 0x3ffff);
}

unsigned read_bits(unsigned at, int size) {
  unsigned bits = 0;
  memcpy(&bits, emu_shared_place(whole_address(at), size, size), (size_t)size);
  return bits;
}

int size_of(const char *kind) { return strcmp(kind, "tf32") ? 2 : 4; }

/* A's rows of this warp, then B. */
std::vector<unsigned> read_operands(const Pending &p, int warp, bool check) {
  std::vector<unsigned> out;
  int size = size_of(p.kind);
  out.reserve((size_t)((WARP_ROWS + p.n) * p.k));
  for (int part = 0; part < 2; ++part) {
    const Matrix &m = part ? p.b : p.a;
    int first = part ? 0 : warp % WARPS * WARP_ROWS, count = part ? p.n : WARP_ROWS;
    for (int i = first; i < first + count; ++i)
      for (int k = 0; k < p.k; ++k) {
        unsigned at = address_of(m, i, k, size);
        if (check && emu_is_hidden(whole_address(at)))
          emu_fail("line %d: wgmma reads what was written without fence.proxy.async behind it", p.line);
        out.push_back(read_bits(at, size));
      }
  }
  return out;
}

double number(const char *kind, unsigned bits) {
  if (!strcmp(kind, "f16")) return (double)emu_float_of_half((unsigned short)bits);
  if (!strcmp(kind, "bf16")) return (double)emu_float_of_bfloat((unsigned short)bits);
  float value;
  bits &= 0xffffe000u; /* the unit does not look at the last digits */
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* ---- the instruction ---- */

void act_ask(void **all, unsigned) {
  const Product &first = *(Product *)all[0];
  int index = thread_here() / 32;
  Warp &w = warps[index];
  Pending p = {first.n, first.k, first.line, first.kind, first.keep != 0, matrix_of(first.a, first.turned_a, first.line),
               matrix_of(first.b, first.turned_b, first.line), {}, {}};
  for (int lane = 0; lane < 32; ++lane) {
    const Product &own = *(Product *)all[lane];
    if (own.a != first.a || own.b != first.b || own.keep != first.keep)
      emu_fail("line %d: lanes of a warp give wgmma different descriptors", own.line);
    for (int i = 0; i < first.n / 2; ++i) p.sums.push_back(own.sums[i]);
  }
  for (float *place : p.sums) {
    auto found = w.held.find(place);
    if (found == w.held.end()) {
      if (!w.fenced) emu_fail("line %d: wgmma without wgmma.fence after its sums were used", first.line);
      w.held[place] = *place;
      *place = NAN;
    } else if (!std::isnan(*place)) {
      emu_fail("line %d: the sums of a product on its way were written", first.line);
    }
  }
  p.operands = read_operands(p, index, true);
  w.pending.push_back(std::move(p));
  ++w.loose, ++w.asked;
}

void finish(Warp &w, int index) {
  Pending p = std::move(w.pending.front());
  w.pending.erase(w.pending.begin());
  if (read_operands(p, index, false) != p.operands)
    emu_fail("line %d: memory that wgmma reads was written before its product was waited for", p.line);
  std::vector<double> values;
  for (unsigned bits : p.operands) values.push_back(number(p.kind, bits));
  const double *a = values.data(), *b = a + WARP_ROWS * p.k;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < p.n / 2; ++i) {
      int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      double sum = 0;
      for (int k = 0; k < p.k; ++k) sum += a[row * p.k + k] * b[column * p.k + k];
      float &held = w.held[p.sums[(size_t)(lane * p.n / 2 + i)]];
      held = (float)((p.keep ? (double)held : 0.0) + sum);
    }
  for (const Pending &other : w.pending)
    if (other.sums == p.sums) return;
  for (float *place : p.sums) {
    *place = w.held[place];
    w.held.erase(place);
  }
}

struct Wait { int left; };
void act_wait(void **all, unsigned) {
  int index = thread_here() / 32;
  Warp &w = warps[index];
  for (int left = ((Wait *)all[0])->left; (int)w.groups.size() > left; w.groups.erase(w.groups.begin()))
    for (size_t i = 0; i < w.groups.front(); ++i) finish(w, index);
  w.fenced = false;
}

void act_commit(void **, unsigned) {
  Warp &w = warp_here();
  w.groups.push_back(w.loose);
  w.loose = 0;
}

void act_fence(void **, unsigned) { warp_here().fenced = true; }

} // namespace

void emu_begin_warpgroups() {
  for (Warp &w : warps) w = Warp();
}

void emu_end_warpgroups(int threads) {
  for (int i = 0; i < threads / 32; ++i) {
    if (!warps[i].pending.empty()) emu_fail("warp %d ends before its wgmma products do", i);
    if (warps[i].asked != warps[i / WARPS * WARPS].asked) emu_fail("warps of a warpgroup ask for different products");
    if (warps[i].asked && threads % (32 * WARPS)) emu_fail("wgmma in a block whose threads are no whole warpgroups");
  }
}

extern "C" {

void emu_group_product(int m, int n, int k, const char *kind, float **sums, int registers, emu_word a, emu_word b, int keep,
                       int turned_a, int turned_b, int line) {
  if (m != ROWS || n % 8 || n > 256 || registers != n / 2 || k * size_of(kind) != 32)
    emu_fail("line %d: there is no wgmma m%dn%dk%d of %s with %d registers", line, m, n, k, kind, registers);
  if ((turned_a || turned_b) && size_of(kind) != 2) emu_fail("line %d: wgmma turns 16-bit numbers only", line);
  Product own = {n, k, kind, sums, a, b, keep, turned_a, turned_b, line};
  emu_meet("wgmma.mma_async", EMU_ALL_LANES, true, &own, act_ask, line);
}

void emu_group_fence(int line) { emu_meet("wgmma.fence", EMU_ALL_LANES, true, nullptr, act_fence, line); }
void emu_group_commit(int line) { emu_meet("wgmma.commit_group", EMU_ALL_LANES, true, nullptr, act_commit, line); }
void emu_group_wait(int left, int line) {
  Wait own = {left};
  emu_meet("wgmma.wait_group", EMU_ALL_LANES, true, &own, act_wait, line);
}
}
