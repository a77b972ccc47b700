/* Implements files, shared libraries and sockets of system.h for Linux and macOS. */
#include "system.h"

#ifndef _WIN32
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#endif

/* ---- files ---- */

FILE *system_file_open(const char *path, const char *mode) { return fopen(path, mode); }

const char *system_file_read(const char *path, unsigned char **out, size_t *out_size) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return strerror(errno);
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    close(fd);
    return "not a regular file";
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
  if (!bytes) return "out of memory";
  if (done != size) {
    free(bytes);
    return "cannot read the file";
  }
  *out = bytes;
  *out_size = size;
  return NULL;
}

/* ---- shared libraries ---- */

void *system_library_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

void system_library_close(void *library) { dlclose(library); }

void *system_library_symbol(void *library, const char *name) { return dlsym(library, name); }

bool system_file_beside(const char *name, char *out, size_t size) {
  static const char here;
  Dl_info info;
  if (!dladdr((void *)(size_t)&here, &info) || !info.dli_fname) return false;
  const char *end = strrchr(info.dli_fname, '/');
  int length = snprintf(out, size, "%.*s/%s", end ? (int)(end - info.dli_fname) : 1, end ? info.dli_fname : ".", name);
  return length > 0 && (size_t)length < size && !access(out, R_OK);
}

static _Thread_local const char *loader_error;

const char *system_library_error(void) {
  const char *why = dlerror();
  return why ? why : loader_error;
}

static void *own_library(int flags) {
  Dl_info info;
  if (!dladdr((void *)&system_own_symbol, &info) || !info.dli_fname) return NULL;
  return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | flags);
}

void *system_own_symbol(const char *name) {
  static _Atomic(void *) opened;
  void *own = atomic_load(&opened);
  if (!own) atomic_store(&opened, own = own_library(RTLD_LOCAL));
  return own ? dlsym(own, name) : NULL;
}

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
  void *library = write_all(fd, bytes, size) ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
  close(fd);
  unlink(name);
  return library;
}

static const char *temporary_folder(size_t number) {
  const char *folders[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
  if (number >= sizeof folders / sizeof *folders) return NULL;
  return folders[number] ? folders[number] : "";
}

void system_copies_clean(void) {
  static atomic_flag cleaned = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&cleaned)) return;
  const char *folder;
  for (size_t i = 0; (folder = temporary_folder(i)); ++i)
    if (*folder) remove_leftovers(folder);
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
  return system_own_symbol(name) && own_library(RTLD_GLOBAL);
}

static void *open_copy(const unsigned char *bytes, size_t size) {
  void *library = NULL;
  const char *folder;
  dlerror();
  for (size_t i = 0; !library && (folder = temporary_folder(i)); ++i)
    if (*folder) library = open_copy_in(folder, bytes, size);
  return library;
}

void *system_copy_open(const unsigned char *bytes, size_t size) {
  static _Thread_local char text[512];
  void *library = open_copy(bytes, size);
  if (library) return library;
  const char *why = dlerror();
  loader_error = why ? text : "found no folder for a temporary copy";
  if (why) snprintf(text, sizeof text, "%s", why);
  return lend_symbol(why) ? open_copy(bytes, size) : NULL;
}

void system_copy_close(void *library) { dlclose(library); }

#ifdef __linux__
void *system_copy_symbol(void *library, const char *name, size_t *out_size) {
  struct link_map *map, *own;
  const ElfW(Sym) *symbol = NULL;
  Dl_info info;
  void *address = dlsym(library, name);
  if (!address || dlinfo(library, RTLD_DI_LINKMAP, &own) || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || own != map)
    return NULL;
  if (!out_size) return address;
  if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return NULL;
  *out_size = symbol->st_size;
  return address;
}
#else
void *system_copy_symbol(void *library, const char *name, size_t *out_size) {
  if (out_size) *out_size = SIZE_MAX; /* this platform's loader does not report symbol sizes */
  return dlsym(library, name);
}
#endif

/* ---- sockets ---- */

void system_socket_adopt(int fd) {
  /* Linux suppresses SIGPIPE for each message instead. */
#ifdef SO_NOSIGPIPE
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &one, sizeof one);
#else
  (void)fd;
#endif
}

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static ptrdiff_t socket_code(void) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return SYSTEM_SOCKET_BUSY;
  return errno == EPIPE || errno == ECONNRESET ? SYSTEM_SOCKET_GONE : SYSTEM_SOCKET_FAILED;
}

ptrdiff_t system_socket_send(int fd, const SystemPart *parts, int count) {
  struct iovec vectors[SYSTEM_PARTS];
  for (int i = 0; i < count; ++i) vectors[i] = (struct iovec){(void *)(uintptr_t)parts[i].data, parts[i].size};
  struct msghdr message = {.msg_iov = vectors};
  message.msg_iovlen += (unsigned)count; /* the type of the field differs between systems */
  ssize_t done = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return done < 0 ? socket_code() : done;
}

ptrdiff_t system_socket_receive(int fd, void *to, size_t size) {
  ssize_t got = recv(fd, to, size, MSG_DONTWAIT);
  return got < 0 ? socket_code() : got;
}

int system_socket_wait(int fd, bool is_write, int milliseconds) {
  struct pollfd one = {fd, is_write ? POLLOUT : POLLIN, 0};
  int ready = poll(&one, 1, milliseconds);
  return ready >= 0 ? ready : errno == EINTR ? 0 : -1;
}

void system_socket_stop(int fd) { shutdown(fd, SHUT_RDWR); }

void system_socket_close(int fd) { close(fd); }

const char *system_socket_error(void) { return strerror(errno); }
#endif
