/* Loads shared libraries. A file is validated and copied before it is opened, so that a rebuilt file is read again and
 * a truncated file causes an error message instead of a bus error. */
#include "core.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

int tvm_read_file(const char *path, unsigned char **out, size_t *out_size) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tvm_error("cannot load library '%s': %s", path, strerror(errno));
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    close(fd);
    return tvm_error("cannot load library '%s': not a regular file", path);
  }
  size_t size = (size_t)info.st_size, done = 0;
  unsigned char *bytes = malloc(size ? size : 1);
  while (bytes && done < size) {
    ssize_t got = read(fd, bytes + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += (size_t)got;
  }
  close(fd);
  if (!bytes || done != size) {
    free(bytes);
    return tvm_error("cannot load library '%s': %s", path, bytes ? "cannot read the file" : "out of memory");
  }
  *out = bytes;
  *out_size = size;
  return 0;
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
  (void)bytes;
  return size < 64 ? tvm_error("cannot load library '%s': the file is truncated or corrupt", path) : 0;
}
#endif

struct Library { void *opened; Object *linked; };

/* A library may be mapped at the address of one that was just unmapped; the lock orders the accesses to the two. */
static pthread_mutex_t loader_lock = PTHREAD_MUTEX_INITIALIZER;

void library_close(Library *library) {
  pthread_mutex_lock(&loader_lock);
  if (library->opened) dlclose(library->opened);
  object_close(library->linked);
  pthread_mutex_unlock(&loader_lock);
  free(library);
}

void tvm_library_fork_child(void) { pthread_mutex_init(&loader_lock, NULL); }

static int write_all(int fd, const unsigned char *bytes, size_t size) {
  while (size) {
    ssize_t done = write(fd, bytes, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return -1;
    bytes += done;
    size -= (size_t)done;
  }
  return 0;
}

/* Removes copies of libraries that killed processes left behind. A process holds a lock on its copy as long as it
 * lives, so a copy that can be locked is unused, unless it is so new that its process may not have locked it yet. */
static void remove_leftovers(const char *folder) {
  enum { YOUNG_SECONDS = 60 };
  DIR *entries = opendir(folder);
  const struct dirent *entry;
  while (entries && (entry = readdir(entries))) {
    struct stat info;
    long pid;
    unsigned count;
    char random[7], rest[8];
    if (sscanf(entry->d_name, "tvm-%ld-%u-%6[A-Za-z0-9]%7s", &pid, &count, random, rest) != 4 || strcmp(rest, ".so")) continue;
    int fd = openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        time(NULL) - info.st_mtime > YOUNG_SECONDS && !flock(fd, LOCK_EX | LOCK_NB))
      unlinkat(dirfd(entries), entry->d_name, 0);
    close(fd);
  }
  if (entries) closedir(entries);
}

/* Opens a copy of the library in `folder`. A folder may be mounted noexec, so the caller tries several. The counter
 * makes file names unique in this process, because the loader treats two libraries of the same name as one. */
static void *open_copy_in(const char *folder, const unsigned char *bytes, size_t size) {
  static atomic_uint counter;
  char name[512];
  int length = snprintf(name, sizeof name, "%s/tvm-%ld-%u-XXXXXX.so", folder, (long)getpid(),
                        atomic_fetch_add(&counter, 1));
  if (length < 0 || (size_t)length >= sizeof name) return NULL;
  int fd = mkostemps(name, 3, O_CLOEXEC);
  if (fd < 0) return NULL;
  flock(fd, LOCK_EX);
  pthread_mutex_lock(&loader_lock);
  void *library = write_all(fd, bytes, size) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
  pthread_mutex_unlock(&loader_lock);
  close(fd);
  unlink(name);
  return library;
}

static const char *temporary_folder(size_t number) {
  const char *folders[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
  if (number >= sizeof folders / sizeof *folders) return NULL;
  return folders[number] ? folders[number] : "";
}

void library_clean(void) {
  static atomic_flag cleaned = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&cleaned)) return;
  const char *folder;
  for (size_t i = 0; (folder = temporary_folder(i)); ++i)
    if (*folder) remove_leftovers(folder);
}

static void *own_library(int flags) {
  Dl_info info;
  if (!dladdr((void *)&library_clean, &info) || !info.dli_fname) return NULL;
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | flags);
}

void *library_own_symbol(const char *name) {
  static _Atomic(void *) opened;
  void *own = atomic_load(&opened);
  if (!own) atomic_store(&opened, own = own_library(RTLD_LOCAL));
  return own ? dlsym(own, name) : NULL;
}

/* Makes this runtime's symbols globally visible if the loader's error is about one of them; returns whether it did. */
static bool lend_symbol(const char *why) {
  static const char text[] = "undefined symbol: ";
  const char *found = why ? strstr(why, text) : NULL;
  char name[128];
  if (!found) return false;
  size_t length = strcspn(found += sizeof text - 1, " ,\t\n");
  if (!length || length >= sizeof name) return false;
  memcpy(name, found, length);
  name[length] = 0;
  return library_own_symbol(name) && own_library(RTLD_GLOBAL);
}

static void *open_copy(const unsigned char *bytes, size_t size) {
  void *library = NULL;
  const char *folder;
  dlerror();
  for (size_t i = 0; !library && (folder = temporary_folder(i)); ++i)
    if (*folder) library = open_copy_in(folder, bytes, size);
  return library;
}

static void *open_shared(const char *path, const unsigned char *bytes, size_t size, bool sealed) {
  if (check_image(path, bytes, size) || check_seal(path, bytes, size, sealed) || tvm_check_needs(path, bytes, size))
    return NULL;
  library_clean();
  void *library = open_copy(bytes, size);
  const char *why = library ? NULL : dlerror();
  if (!library && lend_symbol(why) && !(library = open_copy(bytes, size))) why = dlerror();
  if (!library) tvm_set_error("cannot load library '%s': %s", path, why ? why : "found no folder for a temporary copy");
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

/* Looks up a symbol of a shared library, ignoring symbols of its dependencies. */
#ifdef __linux__
static void *shared_symbol(void *library, const char *name) {
  struct link_map *map;
  Dl_info info;
  void *address = dlsym(library, name);
  if (!address || dlinfo(library, RTLD_DI_LINKMAP, &map) || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP))
    return NULL;
  struct link_map *own;
  return dlinfo(library, RTLD_DI_LINKMAP, &own) == 0 && own == map ? address : NULL;
}

static const void *shared_data(void *library, const char *name, size_t *out_size) {
  Dl_info info;
  const ElfW(Sym) *symbol = NULL;
  void *address = shared_symbol(library, name);
  if (!address || !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return NULL;
  *out_size = symbol->st_size;
  return address;
}
#else
static void *shared_symbol(void *library, const char *name) { return dlsym(library, name); }

static const void *shared_data(void *library, const char *name, size_t *out_size) {
  *out_size = SIZE_MAX; /* this platform's loader does not report symbol sizes */
  return dlsym(library, name);
}
#endif

void *library_symbol(Library *library, const char *name) {
  size_t size;
  return library->linked ? object_symbol(library->linked, name, &size) : shared_symbol(library->opened, name);
}

const void *library_data(Library *library, const char *name, size_t *out_size) {
  return library->linked ? object_symbol(library->linked, name, out_size) : shared_data(library->opened, name, out_size);
}
