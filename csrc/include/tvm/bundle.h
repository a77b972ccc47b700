/* Opens shared bundles at run time, and describes linked ones alike. A program needs this header and bundle_types.h, and
 * on older systems -ldl. Valid C11 and C++17.
 *
 *   tvm_bundle_api api;
 *   char error[256];
 *   if (tvm_bundle_open("model.so", NULL, &api, error, sizeof error)) return puts(error), 1;
 *   tvm_bundle *bundle;
 *   if (api.create(&bundle)) ...
 *
 * A bundle contains native code. Open bundles only from sources that you trust to run code.
 */
#ifndef TVM_BUNDLE_OPEN_H_
#define TVM_BUNDLE_OPEN_H_

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle_types.h"
#include "checksum.h"

/* The description and the six functions of a bundle. The header of a bundle documents the functions. */
typedef struct {
  const tvm_bundle_info *info;
  int (*create)(tvm_bundle **out);
  int (*set_input)(tvm_bundle *bundle, int index, const void *data, uint64_t nbytes, const int64_t *shape);
  int (*run)(tvm_bundle *bundle);
  int (*get_output)(tvm_bundle *bundle, int index, const void **data, uint64_t *nbytes, const int64_t **shape);
  const char *(*error)(const tvm_bundle *bundle);
  void (*destroy)(tvm_bundle *bundle);
} tvm_bundle_api;

/* The initializer of a tvm_bundle_api for a bundle that is linked into the program: TVM_BUNDLE_API(tvm_bundle). */
#define TVM_BUNDLE_API(prefix)                                                                                       \
  { &prefix##_description, prefix##_create, prefix##_set_input, prefix##_run, prefix##_get_output, prefix##_error, \
    prefix##_destroy }

/* Stores the message of a failure to open a bundle. It is not inlined: compilers warn if they know that the message may be
 * longer than the room for it. */
__attribute__((noinline, unused)) static int tvm_bundle_fail(char *error, size_t room, const char *path, const char *why) {
  int written = snprintf(error, room, "cannot open bundle '%s': %s", path, why);
  return written < 0 ? written : -1;
}

/* Checks that the bytes of a file end with their checksum; returns the reason if they do not. */
static inline const char *tvm_bundle_damage(const unsigned char *bytes, size_t size) {
  static const char magic[] = "TVMSEAL2"; /* TVM_SEAL_MAGIC of tvm_runtime.h */
  enum { MAGIC = 8, TAIL = 16 };
  uint64_t stored;
  if (size < TAIL || memcmp(bytes + size - TAIL, magic, MAGIC)) return "the file is corrupt: it has no checksum";
  const void *part = bytes;
  size_t covered = size - TAIL;
  memcpy(&stored, bytes + size - MAGIC, sizeof stored);
  return stored == tvm_checksum_of_parts(&part, &covered, 1) ? NULL : "the file is corrupt: its checksum does not match";
}

/* Checks a file before the system loads it, because loading a damaged library could crash the process. */
static inline int tvm_bundle_check_file(const char *path, char *error, size_t room) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info)) {
    const char *why = strerror(errno);
    if (fd >= 0) close(fd);
    return tvm_bundle_fail(error, room, path, why);
  }
  size_t size = S_ISREG(info.st_mode) ? (size_t)info.st_size : 0;
#ifdef MAP_POPULATE
  const int flags = MAP_PRIVATE | MAP_POPULATE;
#else
  const int flags = MAP_PRIVATE;
#endif
  void *bytes = size ? mmap(NULL, size, PROT_READ, flags, fd, 0) : MAP_FAILED;
  const char *why = size ? "the file cannot be mapped" : "the file is corrupt: it is empty or not a regular file";
  if (bytes != MAP_FAILED) {
    why = tvm_bundle_damage((const unsigned char *)bytes, size);
    munmap(bytes, size);
  }
  close(fd);
  return why ? tvm_bundle_fail(error, room, path, why) : 0;
}

/* Copies the address of a public name to `out`. */
static inline int tvm_bundle_symbol(void *library, const char *prefix, const char *name, void *out) {
  char symbol[512];
  int length = snprintf(symbol, sizeof symbol, "%s_%s", prefix, name);
  void *found = length > 0 && (size_t)length < sizeof symbol ? dlsym(library, symbol) : NULL;
  memcpy(out, &found, sizeof found);
  return found ? 0 : -1;
}

static inline int tvm_bundle_symbols(void *library, const char *prefix, tvm_bundle_api *out) {
  return tvm_bundle_symbol(library, prefix, "description", &out->info) ||
                 tvm_bundle_symbol(library, prefix, "create", &out->create) ||
                 tvm_bundle_symbol(library, prefix, "set_input", &out->set_input) ||
                 tvm_bundle_symbol(library, prefix, "run", &out->run) ||
                 tvm_bundle_symbol(library, prefix, "get_output", &out->get_output) ||
                 tvm_bundle_symbol(library, prefix, "error", &out->error) ||
                 tvm_bundle_symbol(library, prefix, "destroy", &out->destroy)
             ? -1
             : 0;
}

/* Opens a shared bundle, which stays loaded until the program ends. `model` is the name of the model (--module-name); NULL
 * is "default". Returns 0, or -1 with a message in `error`, which has room for `room` bytes. */
static inline int tvm_bundle_open(const char *path, const char *model, tvm_bundle_api *out, char *error, size_t room) {
  char file[4096], prefix[256] = "tvm_bundle";
  const char *folder = strchr(path, '/') ? "" : "./"; /* dlopen searches for names without a slash */
  memset(out, 0, sizeof *out);
  if (model && strcmp(model, "default")) snprintf(prefix, sizeof prefix, "tvm_bundle_%s", model);
  if ((size_t)snprintf(file, sizeof file, "%s%s", folder, path) >= sizeof file)
    return tvm_bundle_fail(error, room, "...", "the path is too long");
  if (tvm_bundle_check_file(file, error, room)) return -1;
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  const char *why = library ? NULL : dlerror();
  if (!library) return tvm_bundle_fail(error, room, path, why ? why : "the file is not a shared library");
  if (tvm_bundle_symbols(library, prefix, out))
    return tvm_bundle_fail(error, room, path, "it does not contain a model of this name");
  if (out->info->abi_version != TVM_BUNDLE_ABI_VERSION)
    return tvm_bundle_fail(error, room, path, "its interface has another version than the one of this program");
  return 0;
}

#endif /* TVM_BUNDLE_OPEN_H_ */
