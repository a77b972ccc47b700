/* Loads shared libraries. A file is validated and copied before it is opened, so that a rebuilt file is read again and
 * a truncated file causes an error message instead of a bus error. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

int tvm_read_file(const char *path, unsigned char **out, size_t *out_size) {
  const char *why = system_file_read(path, out, out_size);
  return why ? tvm_error("cannot load library '%s': %s", path, why) : 0;
}

/* Checks the checksum at the end of a library. If at least half of the magic's bytes match, the magic is damaged and the
 * library is rejected. Otherwise the library has no checksum, which is an error only if `must` is set. */
static int check_seal(const char *path, const unsigned char *bytes, size_t size, bool must) {
  enum { MAGIC = 8, TAIL = 16 };
  uint64_t stored = 0;
  int alike = 0;
  for (int i = 0; size >= TAIL && i < MAGIC; ++i) alike += bytes[size - TAIL + (size_t)i] == (unsigned char)TVM_SEAL_MAGIC[i];
  if (alike < MAGIC / 2)
    return must ? tvm_error("cannot load library '%s': the file is corrupt (it has no checksum)", path) : 0;
  memcpy(&stored, bytes + size - MAGIC, sizeof stored);
  if (alike == MAGIC && stored == TVMChecksum(bytes, size - TAIL)) return 0;
  return tvm_error("cannot load library '%s': the file is corrupt (its checksum does not match)", path);
}

#ifdef __linux__
#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
#elif defined(__arm__)
enum { HOST_MACHINE = EM_ARM };
#elif defined(__riscv)
enum { HOST_MACHINE = EM_RISCV };
#elif defined(__i386__)
enum { HOST_MACHINE = EM_386 };
#else
enum { HOST_MACHINE = EM_NONE };
#endif
enum { HOST_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32 };

/* Returns the name of the architecture that a file was built for, with its word size if the name is ambiguous. */
static const char *machine_name(int machine, int class) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_ARM: return "32-bit Arm";
    case EM_RISCV: return class == ELFCLASS64 ? "64-bit RISC-V" : "32-bit RISC-V";
    case EM_386: return "32-bit x86";
    default: return "an unknown architecture";
  }
}

enum { MAX_PARTS = 64 };

static bool inside(uint64_t offset, uint64_t length, size_t size) { return offset <= size && length <= size - offset; }

/* Returns the file offset of an address, or UINT64_MAX if no loaded segment contains the address. */
static uint64_t file_offset(const ElfW(Phdr) *parts, int count, uint64_t address) {
  for (int i = 0; i < count; ++i)
    if (parts[i].p_type == PT_LOAD && address >= parts[i].p_vaddr && address - parts[i].p_vaddr < parts[i].p_filesz)
      return parts[i].p_offset + (address - parts[i].p_vaddr);
  return UINT64_MAX;
}

/* The dynamic loader does not validate its tables; check that the ones it reads first are inside the file. */
static const char *check_dynamic(const unsigned char *bytes, const ElfW(Phdr) *parts, int count) {
  const char *why = "the file is truncated or corrupt";
  bool has_text = false, has_symbols = false, has_hash = false;
  for (int i = 0; i < count; ++i) {
    if (parts[i].p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at + sizeof(ElfW(Dyn)) <= parts[i].p_filesz; at += sizeof(ElfW(Dyn))) {
      ElfW(Dyn) entry;
      memcpy(&entry, bytes + parts[i].p_offset + at, sizeof entry);
      if (entry.d_tag == DT_NULL) return has_text && has_symbols && has_hash ? NULL : why;
      bool table = entry.d_tag == DT_STRTAB || entry.d_tag == DT_SYMTAB || entry.d_tag == DT_GNU_HASH ||
                   entry.d_tag == DT_HASH || entry.d_tag == DT_RELA || entry.d_tag == DT_REL || entry.d_tag == DT_JMPREL;
      if (table && file_offset(parts, count, entry.d_un.d_ptr) == UINT64_MAX) return why;
      has_text = has_text || entry.d_tag == DT_STRTAB;
      has_symbols = has_symbols || entry.d_tag == DT_SYMTAB;
      has_hash = has_hash || entry.d_tag == DT_GNU_HASH || entry.d_tag == DT_HASH;
    }
  }
  return why;
}

/* Returns why a file is not a library for this machine, or NULL if it is one. The start of the ELF header, which
 * contains the machine, has the same layout in 32-bit and 64-bit files. */
static const char *check_machine(const unsigned char *bytes, size_t size, char *text, size_t room) {
  ElfW(Ehdr) header;
  if (size < sizeof header || memcmp(bytes, ELFMAG, SELFMAG)) return "it is not an ELF file";
  memcpy(&header, bytes, sizeof header);
  if (header.e_type != ET_DYN) return "it is not a shared library";
  bool own = header.e_ident[EI_CLASS] == HOST_CLASS && (HOST_MACHINE == EM_NONE || header.e_machine == HOST_MACHINE);
  if (own) return NULL;
  snprintf(text, room, "it was built for %s, but this runtime is for %s", machine_name(header.e_machine, header.e_ident[EI_CLASS]),
           machine_name(HOST_MACHINE, HOST_CLASS));
  return text;
}

/* Checks that every segment that the dynamic loader maps is inside the file. */
static int check_image(const char *path, const unsigned char *bytes, size_t size) {
  ElfW(Ehdr) header = {0};
  char text[128];
  const char *why = check_machine(bytes, size, text, sizeof text);
  if (!why) {
    memcpy(&header, bytes, sizeof header);
    if (header.e_phentsize != sizeof(ElfW(Phdr)) ||
        !inside(header.e_phoff, (uint64_t)header.e_phnum * sizeof(ElfW(Phdr)), size) ||
        !inside(header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, size))
      why = "the file is truncated or corrupt";
  }
  ElfW(Phdr) parts[MAX_PARTS];
  if (!why && header.e_phnum > MAX_PARTS) why = "it has too many segments";
  if (!why) memcpy(parts, bytes + header.e_phoff, header.e_phnum * sizeof *parts);
  for (int i = 0; !why && i < header.e_phnum; ++i)
    if (parts[i].p_type != PT_NULL && (!inside(parts[i].p_offset, parts[i].p_filesz, size) ||
                                       (parts[i].p_type == PT_LOAD && parts[i].p_memsz < parts[i].p_filesz)))
      why = "the file is truncated or corrupt";
  if (!why) why = check_dynamic(bytes, parts, header.e_phnum);
  return why ? tvm_error("cannot load library '%s': %s", path, why) : 0;
}
#else
static int check_image(const char *path, const unsigned char *bytes, size_t size) {
  char text[128];
  const char *why = SYSTEM_IMAGE_CHECK(bytes, size, text, sizeof text);
  return why ? tvm_error("cannot load library '%s': %s", path, why) : 0;
}
#endif

struct Library { void *opened; Object *linked; };

/* A library may be mapped at the address of one that was just unmapped; the lock orders the accesses to the two. */
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

void library_close(Library *library) {
  pthread_mutex_lock(&loader_lock);
  if (library->opened) system_copy_close(library->opened);
  object_close(library->linked);
  pthread_mutex_unlock(&loader_lock);
  free(library);
}

void tvm_library_fork_child(void) { pthread_mutex_init(&loader_lock, NULL); }

static void *open_shared(const char *path, const unsigned char *bytes, size_t size, bool sealed) {
  if (check_image(path, bytes, size) || check_seal(path, bytes, size, sealed) || tvm_check_needs(path, bytes, size))
    return NULL;
  system_copies_clean();
  pthread_mutex_lock(&loader_lock);
  void *library = system_copy_open(bytes, size);
  if (!library) tvm_set_error("cannot load library '%s': %s", path, system_library_error());
  pthread_mutex_unlock(&loader_lock);
  return library;
}

static Object *open_object(const char *path, const unsigned char *bytes, size_t size) {
  char why[256];
  pthread_mutex_lock(&loader_lock);
  Object *object = object_open(bytes, size, why, sizeof why);
  pthread_mutex_unlock(&loader_lock);
  if (!object) tvm_set_error("cannot load object '%s': %s", path, why);
  return object;
}

Library *library_open_bytes(const char *path, const unsigned char *bytes, size_t size, bool sealed) {
  Library *library = calloc(1, sizeof *library);
  if (!library) tvm_set_error("out of memory");
  else if (!sealed && object_is(bytes, size)) library->linked = open_object(path, bytes, size);
  else library->opened = open_shared(path, bytes, size, sealed);
  if (library && (library->linked || library->opened)) return library;
  free(library);
  return NULL;
}

Library *library_open(const char *path) {
  unsigned char *bytes;
  size_t size;
  if (tvm_read_file(path, &bytes, &size)) return NULL;
  Library *library = library_open_bytes(path, bytes, size, false);
  free(bytes);
  return library;
}

void *library_symbol(Library *library, const char *name) {
  size_t size;
  return library->linked ? object_symbol(library->linked, name, &size) : system_copy_symbol(library->opened, name, NULL);
}

const void *library_data(Library *library, const char *name, size_t *out_size) {
  return library->linked ? object_symbol(library->linked, name, out_size) : system_copy_symbol(library->opened, name, out_size);
}
