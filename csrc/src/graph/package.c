/* Packages, the tar archives that `tvmc compile` writes: `mod.so`, `mod.json` and `mod.params` for the graph executor, or
 * `lib.so` for the virtual machine. Like loading an exported library, loading a package returns a factory of graph executors
 * or an executable of the virtual machine.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { BLOCK = 512, NAME_SIZE = 100, SIZE_AT = 124, SIZE_DIGITS = 12, SUM_AT = 148, SUM_DIGITS = 8, TYPE_AT = 156 };

typedef struct { const char *path; unsigned char *bytes; size_t size; } Archive;

static int damaged(const Archive *archive, const char *why) {
  return tvm_error("cannot load package '%s': the archive is corrupt or truncated: %s", archive->path, why);
}

/* Parses an octal number, which ends at a space, a zero byte or the end of the field. */
static bool read_octal(const unsigned char *text, int digits, uint64_t *out) {
  int i = 0;
  while (i < digits && text[i] == ' ') ++i;
  int first = i;
  for (*out = 0; i < digits && text[i] >= '0' && text[i] <= '7'; ++i) *out = *out * 8 + (text[i] - '0');
  return i > first && (i == digits || text[i] == ' ' || !text[i]);
}

/* Checks the checksum of a header: the sum of its bytes, with the checksum field counted as spaces. */
static bool header_is_whole(const unsigned char *header) {
  uint64_t stored, sum = 0;
  for (int i = 0; i < BLOCK; ++i) sum += i >= SUM_AT && i < SUM_AT + SUM_DIGITS ? ' ' : header[i];
  return read_octal(header + SUM_AT, SUM_DIGITS, &stored) && stored == sum;
}

/* Finds a file by name; its data is NULL if the archive does not contain it. */
static int find_file(const Archive *archive, const char *name, TVMByteArray *out) {
  *out = (TVMByteArray){NULL, 0};
  uint64_t size;
  for (size_t at = 0; at + BLOCK <= archive->size && archive->bytes[at]; at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK) {
    const unsigned char *header = archive->bytes + at;
    if (!header_is_whole(header)) return damaged(archive, "the checksum of a header does not match");
    if (!read_octal(header + SIZE_AT, SIZE_DIGITS, &size)) return damaged(archive, "the size of a file is not an octal number");
    if (size > archive->size - at - BLOCK) return damaged(archive, "a file is longer than the archive");
    bool is_file = header[TYPE_AT] == '0' || !header[TYPE_AT];
    if (!is_file || strncmp((const char *)header, name, NAME_SIZE)) continue;
    *out = (TVMByteArray){(const char *)header + BLOCK, (size_t)size};
    return 0;
  }
  return 0;
}

/* The library of a package always has a checksum, so a library without one is corrupt. */
static int load_library(const Archive *archive, TVMByteArray bytes, TVMModuleHandle *out) {
  Library *library = library_open_bytes(archive->path, (const unsigned char *)bytes.data, bytes.size, true);
  return library ? tvm_module_of_library(library, out) : -1;
}

static int load_graph_package(const Archive *archive, TVMByteArray library_file, TVMModuleHandle *out) {
  TVMByteArray graph, blob;
  TVMModuleHandle library;
  TVMParamsHandle params;
  if (find_file(archive, "mod.json", &graph) || find_file(archive, "mod.params", &blob)) return -1;
  if (!graph.data || !blob.data) return damaged(archive, graph.data ? "it has no mod.params" : "it has no mod.json");
  if (load_library(archive, library_file, &library)) return -1;
  int status = TVMParamsLoad(blob.data, blob.size, &params);
  if (!status) status = tvm_factory_create("default", graph, params, library, out);
  TVMModFree(library);
  return status;
}

static int load_archive(const Archive *archive, TVMModuleHandle *out) {
  TVMByteArray graph_library, machine_library;
  if (find_file(archive, "mod.so", &graph_library) || find_file(archive, "lib.so", &machine_library)) return -1;
  if (graph_library.data) return load_graph_package(archive, graph_library, out);
  if (machine_library.data) return load_library(archive, machine_library, out);
  return tvm_error("cannot load package '%s': it contains neither mod.so nor lib.so. An archive of objects needs a linker; "
                   "compile with the output format so, or export a library that ends with .so", archive->path);
}

static int load_package(const char *path, TVMModuleHandle *out) {
  Archive archive = {path, NULL, 0};
  if (tvm_read_file(path, &archive.bytes, &archive.size)) return -1;
  int status = load_archive(&archive, out);
  free(archive.bytes);
  return status;
}

void tvm_package_start(void) { tvm_file_loader_add("tar", load_package); }
