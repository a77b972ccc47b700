/* Links object files that LLVM compiled for kernels (position-independent, x86-64 or aarch64). Their sections are
 * placed in one memory block together with an address table and a stub for each external symbol, and then relocated.
 * Tuners use it to run candidates without a linker, also on boards that have none. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
/* jmp *0(%rip), followed by the address. */
static const unsigned char STUB[8] = {0xff, 0x25, 0, 0, 0, 0, 0x66, 0x90};
enum { STUB_ADDRESS = 6 };
#else
enum { MACHINE = EM_AARCH64 };
/* ldr x16, #8; br x16; followed by the address. */
static const unsigned char STUB[8] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6};
enum { STUB_ADDRESS = 8 };
#endif
enum { STUB_SIZE = 16, MOST_SECTIONS = 4096, MOST_SYMBOLS = 1 << 20 };

struct Object {
  unsigned char *memory;
  size_t size, code_size; /* the code comes first, the writable sections follow */
  char *names;
  size_t names_size;
  Elf64_Sym *symbols;
  uint64_t *addresses; /* addresses of the symbols */
  size_t count;
};

typedef struct {
  const unsigned char *bytes;
  size_t size;
  Elf64_Shdr *sections;
  uint64_t *places; /* offsets of the sections in the memory block; UINT64_MAX: not loaded */
  size_t section_count;
  size_t table, stubs; /* offsets of the address table and of the stubs */
  Object *object;
  char *why;
  size_t room;
} Linker;

static int refuse(Linker *linker, const char *format, const char *what) {
  snprintf(linker->why, linker->room, format, what);
  return -1;
}

static bool is_inside(uint64_t offset, uint64_t length, uint64_t size) { return offset <= size && length <= size - offset; }

bool object_is(const unsigned char *bytes, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header || memcmp(bytes, ELFMAG, SELFMAG)) return false;
  memcpy(&header, bytes, sizeof header);
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_type == ET_REL;
}

/* ---- reading the file ---- */

static int read_sections(Linker *linker) {
  static const char damaged[] = "the file is truncated or corrupt%s";
  Elf64_Ehdr header;
  memcpy(&header, linker->bytes, sizeof header);
  if (header.e_machine != MACHINE) return refuse(linker, "it was built for another architecture%s", "");
  size_t count = linker->section_count = header.e_shnum;
  if (!count || count > MOST_SECTIONS || header.e_shentsize != sizeof(Elf64_Shdr) ||
      !is_inside(header.e_shoff, count * sizeof(Elf64_Shdr), linker->size))
    return refuse(linker, damaged, "");
  linker->sections = malloc(count * sizeof *linker->sections);
  linker->places = malloc(count * sizeof *linker->places);
  if (!linker->sections || !linker->places) return refuse(linker, "out of memory%s", "");
  memcpy(linker->sections, linker->bytes + header.e_shoff, count * sizeof *linker->sections);
  for (size_t i = 0; i < count; ++i) {
    const Elf64_Shdr *one = &linker->sections[i];
    if (one->sh_type != SHT_NOBITS && !is_inside(one->sh_offset, one->sh_size, linker->size)) return refuse(linker, damaged, "");
    if (one->sh_addralign & (one->sh_addralign - 1) || one->sh_addralign > 1 << 16 || one->sh_size > (uint64_t)1 << 30)
      return refuse(linker, damaged, "");
    if (one->sh_flags & SHF_ALLOC && (one->sh_flags & SHF_TLS || one->sh_type == SHT_INIT_ARRAY || one->sh_type == SHT_FINI_ARRAY))
      return refuse(linker, "it contains %s, which need a linker", "thread-local variables or constructors");
  }
  return 0;
}

static int read_symbols(Linker *linker) {
  Object *object = linker->object;
  for (size_t i = 0; i < linker->section_count; ++i) {
    const Elf64_Shdr *one = &linker->sections[i];
    if (one->sh_type != SHT_SYMTAB || object->symbols) continue;
    if (one->sh_link >= linker->section_count || one->sh_entsize != sizeof(Elf64_Sym)) break;
    const Elf64_Shdr *names = &linker->sections[one->sh_link];
    object->count = one->sh_size / sizeof(Elf64_Sym);
    object->names_size = names->sh_size;
    if (names->sh_type != SHT_STRTAB || !names->sh_size || linker->bytes[names->sh_offset + names->sh_size - 1] || object->count > MOST_SYMBOLS) break;
    object->symbols = malloc(object->count * sizeof *object->symbols + 1);
    object->addresses = calloc(object->count + 1, sizeof *object->addresses);
    object->names = malloc(names->sh_size);
    if (!object->symbols || !object->addresses || !object->names) return refuse(linker, "out of memory%s", "");
    memcpy(object->symbols, linker->bytes + one->sh_offset, object->count * sizeof *object->symbols);
    memcpy(object->names, linker->bytes + names->sh_offset, names->sh_size);
  }
  for (size_t i = 0; object->symbols && i < object->count; ++i)
    if (object->symbols[i].st_name >= object->names_size) return refuse(linker, "the file is truncated or corrupt%s", "");
  return object->symbols ? 0 : refuse(linker, "it has no symbol table%s", "");
}

/* ---- section layout ---- */

static size_t place_sections(Linker *linker, size_t at, bool code) {
  for (size_t i = 0; i < linker->section_count; ++i) {
    const Elf64_Shdr *one = &linker->sections[i];
    if (!(one->sh_flags & SHF_ALLOC) || ((one->sh_flags & SHF_EXECINSTR) != 0) != code) continue;
    size_t align = one->sh_addralign ? (size_t)one->sh_addralign : 1;
    at = (at + align - 1) & ~(align - 1);
    linker->places[i] = at;
    at += (size_t)one->sh_size;
  }
  return at;
}

static int lay_out(Linker *linker) {
  Object *object = linker->object;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < linker->section_count; ++i) linker->places[i] = UINT64_MAX;
  linker->stubs = (place_sections(linker, 0, true) + 15) & ~(size_t)15;
  object->code_size = (linker->stubs + object->count * STUB_SIZE + page - 1) & ~(page - 1);
  linker->table = (place_sections(linker, object->code_size, false) + 15) & ~(size_t)15;
  object->size = (linker->table + object->count * 8 + page - 1) & ~(page - 1);
  if (object->size > (size_t)64 << 20) return refuse(linker, "it is too large (%s)", "the limit is 64 MiB");
  object->memory = mmap(NULL, object->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (object->memory == MAP_FAILED) {
    object->memory = NULL;
    return refuse(linker, "out of memory%s", "");
  }
  for (size_t i = 0; i < linker->section_count; ++i) {
    const Elf64_Shdr *one = &linker->sections[i];
    if (linker->places[i] != UINT64_MAX && one->sh_type != SHT_NOBITS)
      memcpy(object->memory + linker->places[i], linker->bytes + one->sh_offset, (size_t)one->sh_size);
  }
  return 0;
}

static int resolve_symbols(Linker *linker) {
  Object *object = linker->object;
  for (size_t i = 1; i < object->count; ++i) {
    const Elf64_Sym *symbol = &object->symbols[i];
    const char *name = object->names + symbol->st_name;
    if (symbol->st_shndx == SHN_UNDEF && !strcmp(name, "_GLOBAL_OFFSET_TABLE_")) {
      /* Some compilers reference the address table by name (_GLOBAL_OFFSET_TABLE_). */
      object->addresses[i] = (uint64_t)(uintptr_t)object->memory + linker->table;
    } else if (symbol->st_shndx == SHN_UNDEF) {
      void *address = dlsym(RTLD_DEFAULT, name);
      object->addresses[i] = (uint64_t)(uintptr_t)(address ? address : system_own_symbol(name));
      if (!object->addresses[i] && ELF64_ST_BIND(symbol->st_info) != STB_WEAK && *name)
        return refuse(linker, "it needs the symbol '%.100s', which is not defined", name);
    } else if (symbol->st_shndx == SHN_ABS) {
      object->addresses[i] = symbol->st_value;
    } else {
      if (symbol->st_shndx >= linker->section_count) return refuse(linker, "the section of the symbol '%.100s' does not exist", name);
      /* Symbols of debug and metadata sections, which are not loaded, are ignored. */
      if (linker->places[symbol->st_shndx] == UINT64_MAX) continue;
      if (!is_inside(symbol->st_value, symbol->st_size, linker->sections[symbol->st_shndx].sh_size))
        return refuse(linker, "the symbol '%.100s' is outside its section", name);
      object->addresses[i] = (uint64_t)(uintptr_t)object->memory + linker->places[symbol->st_shndx] + symbol->st_value;
    }
    unsigned char *stub = object->memory + linker->stubs + i * STUB_SIZE;
    memcpy(object->memory + linker->table + 8 * i, &object->addresses[i], 8);
    memcpy(stub, STUB, sizeof STUB);
    memcpy(stub + STUB_ADDRESS, &object->addresses[i], 8);
  }
  return 0;
}

/* ---- relocation, in ELF notation: S symbol, A addend, P place, G the symbol's entry in the address table ---- */

typedef struct { unsigned char *at; uint64_t s, g, p, stub; int64_t a; } Place;

static int put_value(const Place *place, int64_t value, int bytes) {
  if (bytes == 4 && value != (int32_t)value && value != (int64_t)(uint32_t)value) return -1;
  memcpy(place->at, &value, (size_t)bytes); /* little endian */
  return 0;
}

#if defined(__x86_64__)
static int distance(const Place *place, uint64_t to) {
  int64_t value = (int64_t)(to + (uint64_t)place->a - place->p);
  return value == (int32_t)value ? put_value(place, value, 4) : -1;
}

static int relocate_one(const Place *place, uint32_t type) {
  switch (type) {
    case R_X86_64_NONE: return 0;
    case R_X86_64_64: return put_value(place, (int64_t)(place->s + (uint64_t)place->a), 8);
    case R_X86_64_PC64: return put_value(place, (int64_t)(place->s + (uint64_t)place->a - place->p), 8);
    case R_X86_64_PC32: return distance(place, place->s);
    case R_X86_64_PLT32: return distance(place, place->s) ? distance(place, place->stub) : 0;
    case R_X86_64_GOTPCREL: case 41 /* GOTPCRELX */: case 42 /* REX_GOTPCRELX */: return distance(place, place->g);
    default: return 1;
  }
}
#else
/* Replaces the bits `mask` of the instruction by those of `value`. */
static int put_bits(const Place *place, uint32_t mask, uint64_t value) {
  uint32_t word;
  memcpy(&word, place->at, 4);
  word = (word & ~mask) | ((uint32_t)value & mask);
  memcpy(place->at, &word, 4);
  return 0;
}

static int put_branch(const Place *place, uint64_t to, int bits, int shift) {
  int64_t distance = (int64_t)(to - place->p);
  if (distance & 3 || distance < -((int64_t)1 << (bits + 1)) || distance >= (int64_t)1 << (bits + 1)) return -1;
  return put_bits(place, (((uint32_t)1 << bits) - 1) << shift, (uint64_t)(distance >> 2) << shift);
}

static int put_page(const Place *place, uint64_t to) {
  int64_t pages = (int64_t)((to & ~(uint64_t)4095) - (place->p & ~(uint64_t)4095)) >> 12;
  if (pages < -((int64_t)1 << 20) || pages >= (int64_t)1 << 20) return -1;
  return put_bits(place, 0x60ffffe0u, ((uint64_t)pages & 3) << 29 | ((uint64_t)pages >> 2 & 0x7ffff) << 5);
}

/* Stores the low 12 bits of an address into a load or store, in units of the access size. */
static int put_low(const Place *place, uint64_t to, int scale) {
  if (to & (((uint64_t)1 << scale) - 1)) return -1;
  return put_bits(place, 0xfffu << 10, (to & 0xfff) >> scale << 10);
}

static int relocate_one(const Place *place, uint32_t type) {
  uint64_t to = place->s + (uint64_t)place->a;
  switch (type) {
    case R_AARCH64_NONE: return 0;
    case R_AARCH64_ABS64: return put_value(place, (int64_t)to, 8);
    case R_AARCH64_PREL64: return put_value(place, (int64_t)(to - place->p), 8);
    case R_AARCH64_PREL32: return put_value(place, (int64_t)(to - place->p), 4);
    case R_AARCH64_ADR_PREL_PG_HI21: return put_page(place, to);
    case R_AARCH64_ADD_ABS_LO12_NC: case R_AARCH64_LDST8_ABS_LO12_NC: return put_low(place, to, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_low(place, to, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_low(place, to, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_low(place, to, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_low(place, to, 4);
    case R_AARCH64_ADR_GOT_PAGE: return put_page(place, place->g + (uint64_t)place->a);
    case R_AARCH64_LD64_GOT_LO12_NC: return put_low(place, place->g + (uint64_t)place->a, 3);
    case R_AARCH64_CALL26: case R_AARCH64_JUMP26:
      return put_branch(place, to, 26, 0) ? put_branch(place, place->stub + (uint64_t)place->a, 26, 0) : 0;
    case R_AARCH64_CONDBR19: return put_branch(place, to, 19, 5);
    case R_AARCH64_TSTBR14: return put_branch(place, to, 14, 5);
    default: return 1;
  }
}
#endif

static int relocate_section(Linker *linker, const Elf64_Shdr *table) {
  Object *object = linker->object;
  size_t target = table->sh_info;
  if (target >= linker->section_count || table->sh_entsize != sizeof(Elf64_Rela)) return refuse(linker, "the file is truncated or corrupt%s", "");
  if (linker->places[target] == UINT64_MAX) return 0;
  for (size_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); ++i) {
    Elf64_Rela one;
    memcpy(&one, linker->bytes + table->sh_offset + i * sizeof one, sizeof one);
    size_t symbol = (size_t)ELF64_R_SYM(one.r_info);
    if (symbol >= object->count || !is_inside(one.r_offset, 8, linker->sections[target].sh_size + 4))
      return refuse(linker, "the file is truncated or corrupt%s", "");
    uint64_t base = (uint64_t)(uintptr_t)object->memory;
    Place place = {object->memory + linker->places[target] + one.r_offset, object->addresses[symbol], base + linker->table + 8 * symbol,
                   base + linker->places[target] + one.r_offset, base + linker->stubs + STUB_SIZE * symbol, one.r_addend};
    int status = relocate_one(&place, (uint32_t)ELF64_R_TYPE(one.r_info));
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)ELF64_R_TYPE(one.r_info));
    if (status > 0) return refuse(linker, "it has a relocation (%s) that needs a linker", number);
    if (status < 0) return refuse(linker, "a relocation (%s) does not reach its symbol", number);
  }
  return 0;
}

/* Checks that the symbols the runtime writes are in writable sections. */
static int check_written(Linker *linker) {
  static const char *const written[] = {"__tvm_runtime_table", "__tvm_module_ctx"};
  const Object *object = linker->object;
  size_t size;
  for (size_t i = 0; i < sizeof written / sizeof *written; ++i) {
    const unsigned char *at = object_symbol(object, written[i], &size);
    if (at && (at < object->memory + object->code_size || at > object->memory + object->size - 8 || (uintptr_t)at % 8))
      return refuse(linker, "the symbol '%s' is not in a data section", written[i]);
  }
  return 0;
}

static int link_object(Linker *linker) {
  Object *object = linker->object;
  if (read_sections(linker) || read_symbols(linker) || lay_out(linker) || resolve_symbols(linker) || check_written(linker)) return -1;
  for (size_t i = 0; i < linker->section_count; ++i) {
    if (linker->sections[i].sh_type == SHT_REL) return refuse(linker, "it contains SHT_REL relocations, which need a linker%s", "");
    if (linker->sections[i].sh_type == SHT_RELA && relocate_section(linker, &linker->sections[i])) return -1;
  }
  if (mprotect(object->memory, object->code_size, PROT_READ | PROT_EXEC)) return refuse(linker, "the system does not permit making memory executable%s", "");
  __builtin___clear_cache((char *)object->memory, (char *)object->memory + object->code_size);
  return 0;
}

Object *object_open(const unsigned char *bytes, size_t size, char *why, size_t room) {
  Linker linker = {.bytes = bytes, .size = size, .object = calloc(1, sizeof(Object)), .why = why, .room = room};
  int status = linker.object ? link_object(&linker) : refuse(&linker, "out of memory%s", "");
  free(linker.sections);
  free(linker.places);
  if (!status) return linker.object;
  object_close(linker.object);
  return NULL;
}

void object_close(Object *object) {
  if (!object) return;
  if (object->memory) munmap(object->memory, object->size);
  free(object->names);
  free(object->symbols);
  free(object->addresses);
  free(object);
}

void *object_symbol(const Object *object, const char *name, size_t *out_size) {
  for (size_t i = 1; i < object->count; ++i) {
    const Elf64_Sym *symbol = &object->symbols[i];
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || !object->addresses[i] ||
        strcmp(object->names + symbol->st_name, name))
      continue;
    *out_size = (size_t)symbol->st_size;
    return (void *)(uintptr_t)object->addresses[i];
  }
  return NULL;
}
#else
bool object_is(const unsigned char *bytes, size_t size) {
  (void)bytes, (void)size;
  return false;
}

Object *object_open(const unsigned char *bytes, size_t size, char *why, size_t room) {
  (void)bytes, (void)size;
  snprintf(why, room, "linking object files is not supported on this platform");
  return NULL;
}

void object_close(Object *object) { (void)object; }

void *object_symbol(const Object *object, const char *name, size_t *out_size) {
  (void)object, (void)name, (void)out_size;
  return NULL;
}
#endif
