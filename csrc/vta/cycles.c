/* The cycle-level simulator: the three modules execute concurrently and share the bus to DRAM.
 *
 * It models the core of tvm/contrib/vta/rtl (docs/vta_isa.md, "Timing"). Time advances from event to event: an event is
 * the start or the end of an instruction, the dispatch of one, or a transfer of one element. An instruction changes
 * memory when it starts; programs in which this is visible have a missing dependence, which the checker finds. */
#include "core.h"

static const uint64_t NEVER = UINT64_MAX;

/* One module. It is idle, or executes the first instruction of its queue since `start`. */
typedef struct {
  bool runs;
  uint64_t start, retire; /* `retire` is NEVER while elements remain to be transferred */
  /* Transfers: the next element, their number, the cycle in which the next one can be issued, the cycle in which the
   * last issued one is in its memory. */
  uint64_t element, elements, at, written;
  uint64_t waits_since; /* first cycle in which the next instruction waits for a token, or NEVER */
} Unit;

typedef struct {
  Pipeline *pipe;
  Unit units[MODULES];
  uint64_t now, bus_free;
  int last; /* the module that used the bus last */
} Machine;

static bool is_transfer(const Insn *i) { return i->opcode == VTA_LOAD || i->opcode == VTA_STORE; }

/* Returns how many elements from the next one on are padding, up to the end of their row; 0 if the next is data. */
static uint64_t padding(const Insn *i, uint64_t element) {
  uint64_t width = (uint64_t)i->x_size + i->x_pad_0 + i->x_pad_1, y = element / width, x = element % width;
  if (y < i->y_pad_0 || y >= (uint64_t)i->y_pad_0 + i->y_size) return width - x;
  if (x < i->x_pad_0) return i->x_pad_0 - x;
  return x >= (uint64_t)i->x_pad_0 + i->x_size ? width - x : 0;
}

static void end_transfer(Unit *u) {
  if (u->element == u->elements) u->retire = u->written + 1;
}

static int start(Machine *machine, Module m, uint64_t limit) {
  Pipeline *p = machine->pipe;
  Unit *u = &machine->units[m];
  const Insn *i = vta_first(p, m);
  uint64_t steps = vta_steps(i), now = machine->now;
  int status = vta_check(p->core, i);
  if (!status && steps > limit - now) status = vta_error("the limit of %llu cycles is exceeded", (unsigned long long)limit);
  if (status) return vta_error_at(p, p->queue[m][p->head[m]]);
  if (u->waits_since != NEVER) (&p->core->stats.load_stall)[m] += now - u->waits_since;
  vta_take_tokens(p, m);
  vta_execute(p->core, i);
  *u = (Unit){.runs = true, .start = now, .retire = NEVER, .elements = is_transfer(i) ? steps : 0, .written = now, .waits_since = NEVER};
  if (!is_transfer(i)) u->retire = now + (steps ? steps + 3 : 1);
  else if (!steps) u->retire = now + 1;
  else u->at = now + (m == MODULE_STORE ? 2 : 1);
  return 0;
}

static int start_idle(Machine *machine, uint64_t limit) {
  for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m) {
    Unit *u = &machine->units[m];
    if (u->runs || !vta_first(machine->pipe, m)) continue;
    if (vta_has_tokens(machine->pipe, m)) {
      if (start(machine, m, limit)) return -1;
    } else if (u->waits_since == NEVER) {
      u->waits_since = machine->now;
    }
  }
  return 0;
}

/* Returns how many instructions ended, or -1. */
static int retire_ended(Machine *machine) {
  int ended = 0;
  for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m) {
    Unit *u = &machine->units[m];
    if (!u->runs || u->retire != machine->now) continue;
    (&machine->pipe->core->stats.load_busy)[m] += u->retire - u->start + 1;
    u->runs = false;
    if (vta_retire(machine->pipe, m)) return -1;
    ++ended;
  }
  return ended;
}

static bool transfers_now(const Machine *machine, int m) {
  const Unit *u = &machine->units[m];
  return u->runs && u->element < u->elements && u->at <= machine->now;
}

static void issue_padding(Machine *machine) {
  for (Module m = MODULE_LOAD; m <= MODULE_STORE; ++m) {
    Unit *u = &machine->units[m];
    if (!transfers_now(machine, m)) continue;
    uint64_t count = padding(vta_first(machine->pipe, m), u->element), first = machine->now + 1;
    if (!count) continue;
    u->element += count;
    u->at = machine->now + count;
    u->written = (u->written + 1 > first ? u->written + 1 : first) + count - 1;
    end_transfer(u);
  }
}

/* Gives the bus to the modules in turn, for one element each. */
static void grant_bus(Machine *machine) {
  const Layout *l = &machine->pipe->core->layout;
  if (machine->bus_free > machine->now) return;
  for (int k = 1; k <= MODULES; ++k) {
    int m = (machine->last + k) % MODULES;
    if (!transfers_now(machine, m)) continue;
    Unit *u = &machine->units[m];
    const Insn *i = vta_first(machine->pipe, (Module)m);
    uint64_t beats = l->beats[i->memory], latency = m == MODULE_STORE ? 0 : l->config.dram_latency;
    uint64_t first = machine->now + latency;
    u->written = (m != MODULE_STORE && u->written + 1 > first ? u->written + 1 : first) + beats - 1;
    ++u->element;
    u->at = machine->bus_free = machine->now + beats;
    machine->pipe->core->stats.dram_busy += beats;
    machine->last = m;
    end_transfer(u);
    return;
  }
}

static void earlier(uint64_t *next, uint64_t time) {
  if (time < *next) *next = time;
}

/* Returns the next cycle with an event, or NEVER. Dispatches, and instructions that can start after an instruction
 * ended, make it the next cycle. */
static uint64_t next_event(const Machine *machine, bool changed) {
  uint64_t next = changed ? machine->now + 1 : NEVER;
  for (int m = 0; m < MODULES; ++m) {
    const Unit *u = &machine->units[m];
    if (!u->runs) continue;
    if (u->element == u->elements || u->retire != NEVER) {
      earlier(&next, u->retire);
    } else if (padding(vta_first(machine->pipe, (Module)m), u->element)) {
      earlier(&next, u->at);
    } else {
      earlier(&next, u->at > machine->bus_free ? u->at : machine->bus_free);
    }
  }
  return next;
}

int vta_run_cycles(Pipeline *p, uint64_t limit) {
  Machine machine = {.pipe = p, .last = MODULE_STORE};
  for (int m = 0; m < MODULES; ++m) machine.units[m] = (Unit){.waits_since = NEVER};
  while (machine.now < limit) {
    if (start_idle(&machine, limit)) return -1;
    int ended = retire_ended(&machine);
    if (ended < 0) return -1;
    bool dispatched = vta_dispatch(p);
    issue_padding(&machine);
    grant_bus(&machine);
    if (vta_is_done(p)) {
      p->core->stats.cycles += machine.now + 1;
      return 0;
    }
    uint64_t next = next_event(&machine, dispatched || ended);
    if (next == NEVER) return vta_deadlock(p);
    machine.now = next;
  }
  return vta_error("the limit of %llu cycles is exceeded", (unsigned long long)limit);
}
