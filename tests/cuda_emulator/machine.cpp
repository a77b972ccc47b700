/* Blocks and threads. Every thread is a coroutine that runs until it waits for others; which one goes on next is drawn,
 * so that what relies on an order comes out wrong. Memory of a block is full of NaN when the block begins, and copies
 * beside the program arrive as late as they may: when their thread waits for them. */
#include "machine.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

#include <vector>

namespace {

enum State { READY, AT_BARRIER, AT_MEETING, AT_ACTIVE_MASK, AT_MEMORY_BARRIER, DONE };
const char *const waits_at[] = {"ready", "__syncthreads", "", "__activemask", "a barrier in shared memory", "done"};

struct Copy { unsigned to; const void *from; int size, count; };

struct Thread {
  emu_place place;
  jmp_buf here;
  ucontext_t first;
  bool started;
  State state;
  int line;
  const char *what;
  unsigned mask;
  bool whole;
  void *operands;
  Act act;
  unsigned barrier;
  int parity;
  std::vector<Copy> copies;
  std::vector<size_t> groups; /* how many copies each committed group had */
  size_t loose;               /* copies of no group yet */
  std::vector<unsigned> hidden; /* words that copies of this thread wrote since its last fence.proxy.async */
};

enum { MAX_THREADS = 1024, STACK = 512 << 10, PAGE = 4096 };
Thread *threads;
char *stacks;
int count;
Thread *current;
const Launch *launch;
/* Where a thread goes when it waits or fails, and where what fails outside of threads goes. */
jmp_buf scheduler, grid_of_blocks;
char failure[1024];
uint64_t dice;

uint64_t roll(uint64_t below) {
  dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
  return dice % below;
}

/* ---- memory of a block: each array ends where memory that cannot be touched begins ---- */

struct Slot { const char *name; size_t bytes; char *place; uint64_t block; };
enum { SLOTS = 128, SLOT = 1 << 20, DYNAMIC = SLOTS - 1 };
Slot slots[SLOTS];
char *arena;
uint64_t block_serial;
struct Bulk { unsigned to; const void *from; int size; unsigned barrier; };
std::vector<Bulk> bulks;

void *slot_memory(int number, const char *name, size_t bytes, size_t alignment) {
  if (number >= SLOTS) emu_fail("more than %d arrays in shared memory", (int)SLOTS - 1);
  Slot &slot = slots[number];
  size_t room = (bytes + alignment - 1) / alignment * alignment;
  if (room > SLOT - PAGE) emu_fail("shared array '%s' of %zu bytes is too large", name, bytes);
  char *begin = arena + (size_t)number * SLOT, *end = begin + SLOT - PAGE;
  if (!slot.place || slot.bytes != bytes) {
    mprotect(begin, SLOT, PROT_NONE);
    slot = Slot{name, bytes, end - room, 0};
    char *page = (char *)((uintptr_t)slot.place / PAGE * PAGE);
    if (end > page) mprotect(page, (size_t)(end - page), PROT_READ | PROT_WRITE);
  }
  slot.name = name;
  if (slot.block != block_serial) {
    memset(slot.place, 0xff, room);
    slot.block = block_serial;
  }
  return slot.place;
}

/* ---- coroutines ---- */

void leave() {
  if (!_setjmp(current->here)) _longjmp(scheduler, 1);
}

void wait_as(State state, int line) {
  current->state = state;
  current->line = line;
  leave();
}

/* Words of shared memory by how many threads have written them without a fence behind; none is beyond the last slot. */
unsigned char hidden_words[(size_t)SLOTS * SLOT / 4];

void forget_hidden(Thread &t) {
  for (unsigned word : t.hidden) --hidden_words[word];
  t.hidden.clear();
}

void finish_copies(Thread &t, size_t wanted) {
  for (size_t i = 0; i < wanted; ++i) {
    const Copy &c = t.copies[i];
    char *to = (char *)emu_shared_place(c.to, c.size, c.size);
    memcpy(to, c.from, (size_t)c.count);
    memset(to + c.count, 0, (size_t)(c.size - c.count));
    for (unsigned word = c.to / 4; word < (c.to + (unsigned)c.size) / 4; ++word)
      if (hidden_words[word] < 255) ++hidden_words[word], t.hidden.push_back(word);
  }
  t.copies.erase(t.copies.begin(), t.copies.begin() + (ptrdiff_t)wanted);
}

void body() {
  for (;;) {
    launch->kernel->call(launch->arguments);
    /* Copies nobody waited for: when they arrive, it is too late for everyone. */
    wait_as(DONE, 0);
  }
}

void make_threads(bool anew) {
  if (!threads) {
    threads = new Thread[MAX_THREADS]();
    size_t size = (size_t)MAX_THREADS * STACK;
    stacks = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = (char *)mmap(nullptr, (size_t)SLOTS * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < MAX_THREADS; ++i) mprotect(stacks + (size_t)i * STACK, PAGE, PROT_NONE);
  }
  /* A launch that failed left its threads in the middle. */
  for (int i = 0; anew && i < MAX_THREADS; ++i) threads[i].started = false;
}

__attribute__((noinline)) void enter(Thread *t) {
  current = t;
  emu_now = &t->place;
  if (_setjmp(scheduler)) {
    current = nullptr;
    return;
  }
  if (t->started) _longjmp(t->here, 1);
  t->started = true;
  getcontext(&t->first);
  t->first.uc_stack.ss_sp = stacks + (t - threads) * (ptrdiff_t)STACK + PAGE;
  t->first.uc_stack.ss_size = STACK - PAGE;
  t->first.uc_link = nullptr;
  makecontext(&t->first, body, 0);
  setcontext(&t->first);
}

/* ---- meetings of lanes ---- */

Thread *warp_of(const Thread *t) { return threads + (t - threads) / 32 * 32; }
int lanes_of(const Thread *warp) {
  int left = count - (int)(warp - threads);
  return left < 32 ? left : 32;
}

/* Acts if all lanes that are still there have come. */
bool try_meeting(Thread *t) {
  Thread *warp = warp_of(t);
  void *operands[32] = {};
  unsigned present = 0;
  for (int i = 0; i < 32; ++i) {
    if (!(t->mask >> i & 1)) continue;
    Thread *other = warp + i;
    if (i >= lanes_of(warp) || other->state == DONE) {
      if (t->whole) emu_fail("line %d: %s wants all lanes of the warp, but lane %d is not there", t->line, t->what, i);
      continue;
    }
    if (other->state != AT_MEETING || other->mask != t->mask) return false;
    if (other->act != t->act || other->line != t->line)
      emu_fail("lanes of a warp meet at different places: %s in line %d, %s in line %d", t->what, t->line, other->what,
               other->line);
    operands[i] = other->operands;
    present |= 1u << i;
  }
  t->act(operands, present);
  for (int i = 0; i < 32; ++i)
    if (present >> i & 1) warp[i].state = READY;
  return true;
}

/* ---- barriers in shared memory ---- */

struct MemoryBarrier { uint64_t phase : 1, expected : 20, pending : 20; int64_t bytes : 23; };
static_assert(sizeof(MemoryBarrier) == 8, "as large as the device's");

MemoryBarrier read_barrier(unsigned at) {
  MemoryBarrier b;
  memcpy(&b, emu_shared_place(at, 8, 8), 8);
  return b;
}

void write_barrier(unsigned at, MemoryBarrier b) {
  if (b.pending == 0 && b.bytes == 0) {
    b.phase ^= 1;
    b.pending = b.expected;
  }
  memcpy(emu_shared_place(at, 8, 8), &b, 8);
}

bool passed(unsigned at, int parity) { return (int)read_barrier(at).phase != parity; }

/* ---- the order of things ---- */

void check_barrier() {
  for (int i = 1; i < count; ++i) {
    Thread &a = threads[i - 1], &b = threads[i];
    if (i % 32 && a.state == AT_BARRIER && b.state == AT_BARRIER && a.line != b.line)
      emu_fail("threads of one warp wait at different barriers: lines %d and %d", a.line, b.line);
  }
}

[[noreturn]] void stuck() {
  char text[700] = "";
  size_t at = 0;
  for (int i = 0; i < count && at < sizeof text - 100; ++i) {
    const Thread &t = threads[i];
    if (i && t.state == threads[i - 1].state && t.line == threads[i - 1].line) continue;
    const char *what = t.state == AT_MEETING ? t.what : waits_at[t.state];
    at += (size_t)snprintf(text + at, sizeof text - at, "%sfrom thread %d on: %s, line %d", at ? "; " : "", i, what, t.line);
  }
  emu_fail("the block is stuck: %s", text);
}

/* Nobody can go on: lets those go on whose turn it is. */
void release() {
  int waiting = 0, done = 0;
  bool any = false;
  for (int i = 0; i < count; ++i) waiting += threads[i].state == AT_BARRIER, done += threads[i].state == DONE;
  if (waiting && waiting + done == count) {
    check_barrier();
    for (int i = 0; i < count; ++i)
      if (threads[i].state == AT_BARRIER) threads[i].state = READY;
    return;
  }
  for (int i = 0; i < count; ++i) {
    Thread &t = threads[i];
    if (t.state == AT_MEETING) any |= try_meeting(&t);
    if (t.state == AT_MEMORY_BARRIER && passed(t.barrier, t.parity)) t.state = READY, any = true;
    if (t.state != AT_ACTIVE_MASK) continue;
    Thread *warp = warp_of(&t);
    unsigned mask = 0;
    int line = t.line;
    for (int j = 0; j < lanes_of(warp); ++j)
      if (warp[j].state == AT_ACTIVE_MASK && warp[j].line == line) mask |= 1u << j;
    for (int j = 0; j < 32; ++j)
      if (mask >> j & 1) warp[j].mask = mask, warp[j].state = READY;
    any = true;
  }
  if (any) return;
  if (bulks.empty()) stuck();
  size_t pick = roll(bulks.size());
  Bulk b = bulks[pick];
  bulks.erase(bulks.begin() + (ptrdiff_t)pick);
  memcpy(emu_shared_place(b.to, b.size, 16), b.from, (size_t)b.size);
  MemoryBarrier barrier = read_barrier(b.barrier);
  barrier.bytes -= b.size;
  write_barrier(b.barrier, barrier);
}

/* One round: every thread that can go on does. Whether all are done. */
bool sweep(std::vector<int> &order) {
  int done = 0;
  bool moved = false;
  for (int i = count - 1; i > 0; --i) std::swap(order[(size_t)i], order[roll((uint64_t)i + 1)]);
  for (int i = 0; i < count; ++i) {
    Thread *t = threads + order[(size_t)i];
    if (t->state == READY) {
      enter(t);
      if (*failure) return true;
      moved = true;
    }
    done += t->state == DONE;
  }
  if (done == count) return true;
  if (!moved) release();
  return false;
}

__attribute__((noinline)) void run_block(emu_size at, std::vector<int> &order) {
  ++block_serial;
  bulks.clear();
  emu_size size = launch->block;
  for (int i = 0; i < count; ++i) {
    Thread &t = threads[i];
    unsigned u = (unsigned)i;
    t.place = emu_place{{u % size.x, u / size.x % size.y, u / size.x / size.y}, at, size, launch->grid};
    t.state = READY;
    t.copies.clear();
    t.groups.clear();
    t.loose = 0;
  }
  /* Of all threads there can be: the block before may have had more. */
  for (int i = 0; i < MAX_THREADS; ++i) forget_hidden(threads[i]);
  emu_begin_warpgroups();
  while (!sweep(order)) {
  }
  if (!*failure) emu_end_warpgroups(count);
}

/* ---- faults ---- */

void describe_address(uintptr_t at, char *out, size_t size) {
  size_t bytes;
  ptrdiff_t offset;
  if (at >= (uintptr_t)arena && at < (uintptr_t)arena + (uintptr_t)SLOTS * SLOT) {
    const Slot &slot = slots[(at - (uintptr_t)arena) / SLOT];
    snprintf(out, size, "outside of shared array '%s' of %zu bytes, at byte %td", slot.name ? slot.name : "?", slot.bytes,
             (char *)at - slot.place);
  } else if (at >= (uintptr_t)stacks && at < (uintptr_t)stacks + (uintptr_t)MAX_THREADS * STACK) {
    snprintf(out, size, "below the stack of a thread");
  } else if (emu_find_allocation(at, &bytes, &offset)) {
    snprintf(out, size, "outside of a device allocation of %zu bytes, at byte %td", bytes, offset);
  } else {
    snprintf(out, size, "of an address that belongs to nothing, %p", (void *)at);
  }
}

void on_fault(int number, siginfo_t *info, void *) {
  char text[300];
  describe_address((uintptr_t)info->si_addr, text, sizeof text);
  emu_fail("%s: access %s", number == SIGFPE ? "division by zero" : "memory", text);
}

struct sigaction old_actions[3];
const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};

void catch_faults(bool on) {
  static char *stack = (char *)malloc(1 << 16);
  static stack_t old_stack;
  if (on) {
    stack_t own = {};
    own.ss_sp = stack;
    own.ss_size = 1 << 16;
    sigaltstack(&own, &old_stack);
  }
  for (int i = 0; i < 3; ++i) {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    if (on) sigaction(faults[i], &action, &old_actions[i]);
    else sigaction(faults[i], &old_actions[i], nullptr);
  }
  if (!on) sigaltstack(&old_stack, nullptr);
}

uint64_t first_seed() {
  const char *text = getenv("TVM_EMULATED_SEED");
  return (text ? strtoull(text, nullptr, 10) : 1) * 0x9e3779b97f4a7c15u + 1;
}

} // namespace

emu_place *emu_now;

void emu_fail(const char *format, ...) {
  char text[800];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  char where[120] = "";
  if (current) {
    const emu_place &p = current->place;
    snprintf(where, sizeof where, ", block (%u, %u, %u), thread (%u, %u, %u)", p.block.x, p.block.y, p.block.z, p.thread.x,
             p.thread.y, p.thread.z);
  }
  snprintf(failure, sizeof failure, "kernel %s%s: %s", launch->name, where, text);
  _longjmp(current ? scheduler : grid_of_blocks, 1);
}

__attribute__((noinline)) static void run_grid() {
  std::vector<int> order((size_t)count);
  for (int i = 0; i < count; ++i) order[(size_t)i] = i;
  uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z, first = roll(blocks);
  for (uint64_t i = 0; i < blocks && !*failure; ++i) {
    /* Blocks come in no order a program could rely on: from any one on, backwards. */
    uint64_t b = (first + blocks - i) % blocks;
    emu_size at = {(unsigned)(b % launch->grid.x), (unsigned)(b / launch->grid.x % launch->grid.y),
                   (unsigned)(b / launch->grid.x / launch->grid.y)};
    if (_setjmp(grid_of_blocks)) return;
    run_block(at, order);
  }
}

const char *emu_run(const Launch &asked) {
  if (!dice) dice = first_seed();
  bool failed_before = *failure != 0;
  *failure = 0;
  current = nullptr;
  launch = &asked;
  count = (int)(asked.block.x * asked.block.y * asked.block.z);
  make_threads(failed_before);
  for (Slot &slot : slots) slot.place = nullptr;
  mprotect(arena, (size_t)SLOTS * SLOT, PROT_NONE);
  catch_faults(true);
  run_grid();
  catch_faults(false);
  launch = nullptr;
  return *failure ? failure : nullptr;
}

bool emu_is_hidden(unsigned address) { return hidden_words[address / 4] != 0; }

void emu_meet(const char *what, unsigned mask, bool whole, void *operands, Act act, int line) {
  Thread *t = current;
  if (!(mask >> (t - warp_of(t)) & 1)) emu_fail("line %d: %s: the mask 0x%x does not have the lane itself", line, what, mask);
  t->what = what, t->mask = mask, t->whole = whole, t->operands = operands, t->act = act, t->line = line;
  t->state = AT_MEETING;
  if (!try_meeting(t)) leave();
}

extern "C" {

void *emu_shared(int slot, const char *name, emu_word bytes) { return slot_memory(slot, name, bytes, 16); }
void *emu_dynamic_shared_at(emu_word alignment) { return slot_memory(DYNAMIC, "dynamic", launch->shared, alignment); }
void *emu_dynamic_shared(void) { return slots[DYNAMIC].place ? slots[DYNAMIC].place : emu_dynamic_shared_at(16); }

unsigned emu_shared_address(const void *place) {
  ptrdiff_t at = (const char *)place - arena;
  if (at < 0 || at > (ptrdiff_t)SLOTS * SLOT) emu_fail("__cvta_generic_to_shared of memory that is not shared");
  return (unsigned)at;
}

void *emu_shared_place(unsigned address, int bytes, int alignment) {
  const Slot &slot = slots[address / SLOT % SLOTS];
  char *place = arena + address;
  if (!slot.place || place < slot.place || place + bytes > slot.place + slot.bytes)
    emu_fail("%d bytes outside of shared array '%s' of %zu bytes, at byte %td", bytes, slot.name ? slot.name : "?",
             slot.bytes, place - slot.place);
  if (address % (unsigned)alignment)
    emu_fail("%d bytes of shared array '%s' at byte %td, which is no multiple of %d", bytes, slot.name, place - slot.place,
             alignment);
  return place;
}

void emu_barrier(int line) { wait_as(AT_BARRIER, line); }
unsigned emu_active_mask(int line) {
  wait_as(AT_ACTIVE_MASK, line);
  return current->mask;
}

void emu_copy_async(unsigned shared, const void *global, int size, int wanted) {
  if ((uintptr_t)global % (uintptr_t)size && wanted)
    emu_fail("cp.async of %d bytes from an address that is no multiple of them", size);
  if (wanted < 0 || wanted > size) emu_fail("cp.async of %d bytes out of %d", wanted, size);
  /* Nobody may look at it from now on. */
  memset(emu_shared_place(shared, size, size), 0xff, (size_t)size);
  current->copies.push_back(Copy{shared, global, size, wanted});
  ++current->loose;
}

void emu_proxy_fence(void) { forget_hidden(*current); }

void emu_copy_commit(void) {
  current->groups.push_back(current->loose);
  current->loose = 0;
}

void emu_copy_wait(int left) {
  Thread &t = *current;
  size_t wanted = 0;
  while ((int)t.groups.size() > left) {
    wanted += t.groups.front();
    t.groups.erase(t.groups.begin());
  }
  finish_copies(t, wanted);
}

void emu_copy_bulk(unsigned shared, const void *global, int size, unsigned barrier) {
  if (size % 16 || (uintptr_t)global % 16) emu_fail("cp.async.bulk of %d bytes wants multiples of 16", size);
  memset(emu_shared_place(shared, size, 16), 0xff, (size_t)size);
  bulks.push_back(Bulk{shared, global, size, barrier});
}

void emu_mbarrier_init(unsigned at, int threads_of_it) {
  MemoryBarrier b = {};
  b.expected = b.pending = (uint64_t)threads_of_it;
  memcpy(emu_shared_place(at, 8, 8), &b, 8);
}

void emu_mbarrier_arrive(unsigned at, int bytes) {
  MemoryBarrier b = read_barrier(at);
  if (!b.pending) emu_fail("more arrivals than the barrier in shared memory was made for");
  b.bytes += bytes;
  b.pending -= 1;
  write_barrier(at, b);
}

void emu_mbarrier_copies(unsigned at, int counted) {
  finish_copies(*current, current->copies.size());
  current->groups.clear();
  current->loose = 0;
  if (counted) emu_mbarrier_arrive(at, 0);
}

bool emu_mbarrier_wait(unsigned at, int parity) {
  if (!passed(at, parity)) {
    current->barrier = at;
    current->parity = parity;
    wait_as(AT_MEMORY_BARRIER, 0);
  }
  return true;
}

/* ---- lanes ---- */

void emu_warp_barrier(unsigned mask, int line) {
  emu_meet("__syncwarp", mask, false, nullptr, [](void **, unsigned) {}, line);
}

struct Ballot { unsigned predicate, result; };
unsigned emu_ballot(unsigned mask, int predicate, int line) {
  Ballot own = {(unsigned)predicate, 0};
  auto act = [](void **all, unsigned present) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i)
      if (present >> i & 1) result |= ((Ballot *)all[i])->predicate << i;
    for (int i = 0; i < 32; ++i)
      if (present >> i & 1) ((Ballot *)all[i])->result = result;
  };
  emu_meet("a vote", mask, false, &own, act, line);
  return own.result;
}

struct Shuffle { int kind, lane, width; emu_word bits, result; };
static int source_lane(const Shuffle &s, int i) {
  int first = i / s.width * s.width, at = i - first, from = 0;
  switch (s.kind) {
    case EMU_IDX: from = (int)((unsigned)s.lane % (unsigned)s.width); break;
    case EMU_UP: from = at - s.lane; break;
    case EMU_DOWN: from = at + s.lane; break;
    default: from = at ^ s.lane; break;
  }
  return from < 0 || from >= s.width ? i : first + from;
}
emu_word emu_shuffle(int kind, unsigned mask, emu_word bits, int lane, int width, int line) {
  if (width <= 0 || width > 32 || (width & (width - 1))) emu_fail("line %d: a shuffle of width %d", line, width);
  Shuffle own = {kind, lane, width, bits, 0};
  auto act = [](void **all, unsigned present) {
    for (int i = 0; i < 32; ++i) {
      if (!(present >> i & 1)) continue;
      Shuffle *s = (Shuffle *)all[i];
      int from = source_lane(*s, i);
      /* What a lane that takes no part would give is not defined. */
      s->result = present >> from & 1 ? ((Shuffle *)all[from])->bits : ~0ull;
    }
  };
  emu_meet("a shuffle", mask, false, &own, act, line);
  return own.result;
}

/* ---- checks the compiler puts into kernels; the first field of their data is the place in the text ---- */

struct Place { const char *file; uint32_t line, column; };

void __ubsan_handle_type_mismatch_v1_abort(Place *at, uintptr_t address) {
  emu_fail("line %u: access to address %p, which is not aligned to its type", at->line, (void *)address);
}
void __ubsan_handle_out_of_bounds_abort(Place *at, uintptr_t index) {
  emu_fail("line %u: index %td is outside of the array", at->line, (ptrdiff_t)index);
}
}
