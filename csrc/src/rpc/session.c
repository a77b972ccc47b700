/* Additional services of a session: memory, timing, and files in its folder. Registered in the process that serves. */
#include "rpc.h"

#include <string.h>

/* The functions that clients of a measure-only server may call. */
static const char *const MEASURING[] = {
    "tvm.rpc.server.alloc", "tvm.rpc.server.copy", "tvm.rpc.server.sync", "tvm.rpc.server.time", "tvm.rpc.server.upload",
    "tvm.rpc.server.remove", "tvm.rpc.server.limit", "tvm.rpc.server.share", "tvm.rpc.server.copy_shared", "tvm.rpc.server.load_module", "tvm.rpc.server.ImportModule", "runtime.GetDeviceAttr",
    "runtime.config_threadpool", "cache_flush_cpu_non_first_arg",
};

bool rpc_is_measuring(const char *name) {
  for (size_t i = 0; i < sizeof MEASURING / sizeof *MEASURING; ++i)
    if (!strcmp(MEASURING[i], name)) return true;
  return false;
}

#if SYSTEM_HAS_FORK
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define PACKED(function)                                                                                             \
  static int function(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)

/* Checks arguments against a string of type codes: d device, i integer, a array, f function or null, m module, s text,
 * b bytes. Codes after a dot are optional; a star accepts any remaining arguments. */
static int check_args(const char *name, const char *kinds, const int *codes, int n) {
  int at = 0;
  bool optional = false;
  for (; *kinds; ++kinds) {
    if (*kinds == '*') return 0;
    if (*kinds == '.') {
      optional = true;
      continue;
    }
    if (at == n && optional) return 0;
    int code = at < n ? codes[at] : -1;
    bool fits = (*kinds == 'd' && code == kTVMDevice) || (*kinds == 'i' && code == kTVMArgInt) || (*kinds == 'a' && code == kTVMNDArrayHandle) ||
                (*kinds == 'f' && (code == kTVMPackedFuncHandle || code == kTVMNullptr)) || (*kinds == 'm' && code == kTVMModuleHandle) ||
                (*kinds == 's' && code == kTVMStr) || (*kinds == 'b' && code == kTVMBytes);
    if (!fits) return tvm_error("RPCError: %s: argument %d is missing or has the wrong type", name, at);
    ++at;
  }
  return at == n ? 0 : tvm_error("RPCError: %s takes %d arguments, got %d", name, at, n);
}

/* ---- memory and timing ---- */

PACKED(session_alloc) {
  (void)self;
  TVMArrayHandle array;
  if (check_args("alloc", "di", codes, n)) return -1;
  if (TVMArrayAlloc(&args[1].v_int64, 1, (DLDataType){kDLUInt, 8, 1}, args[0].v_device, &array)) return -1;
  ret->v_handle = array;
  *ret_code = kTVMNDArrayHandle;
  return 0;
}

PACKED(session_copy) {
  (void)self, (void)ret, (void)ret_code;
  return check_args("copy", "aa", codes, n) ? -1 : TVMArrayCopyFromTo(args[0].v_handle, args[1].v_handle, NULL);
}

/* share(process, file, content): returns 1 if this process can map the client's memory with this content. */
PACKED(session_share) {
  (void)self;
  bool found;
  if (check_args("share", "iib", codes, n) || shared_take(args[0].v_int64, args[1].v_int64, args[2].v_handle, &found)) return -1;
  ret->v_int64 = found;
  *ret_code = kTVMArgInt;
  return 0;
}

/* copy_shared(array, back): copies between an array and the shared memory. */
PACKED(session_copy_shared) {
  (void)self, (void)ret, (void)ret_code;
  return check_args("copy_shared", "ai", codes, n) ? -1 : shared_serve(args[0].v_handle, args[1].v_int64 != 0);
}

PACKED(session_sync) {
  (void)self, (void)ret, (void)ret_code;
  if (check_args("sync", "d", codes, n)) return -1;
  return TVMSynchronize(args[0].v_device.device_type, args[0].v_device.device_id, NULL);
}

PACKED(session_time) {
  enum { OPTIONS = 10, MOST_REPEATS = 1 << 20 };
  (void)self;
  if (check_args("time", "ffdiiiiiii*", codes, n)) return -1;
  if (codes[0] == kTVMNullptr) return tvm_error("RPCError: time: the function is null");
  int count = n - OPTIONS;
  TVMTimeOptions options = {(int32_t)args[3].v_int64, (int32_t)args[4].v_int64, (int32_t)args[5].v_int64, (int32_t)args[6].v_int64,
                            (int32_t)args[7].v_int64, (int32_t)args[8].v_int64, args[9].v_int64,
                            codes[1] == kTVMNullptr ? NULL : args[1].v_handle, args[2].v_device};
  if (options.repeat < 1 || options.repeat > MOST_REPEATS)
    return tvm_error("time_evaluator: repeat must be between 1 and %d, got %d", MOST_REPEATS, (int)options.repeat);
  TVMCallFrame *frame = calloc(1, sizeof *frame + (size_t)count * (sizeof(TVMValue) + sizeof(int)));
  double *seconds = calloc((size_t)options.repeat, sizeof *seconds);
  int status = frame && seconds ? 0 : tvm_error("out of memory");
  if (!status) {
    frame->func = args[0].v_handle;
    frame->num_args = count;
    memcpy(frame->values, args + OPTIONS, (size_t)count * sizeof *args);
    memcpy(frame->values + count, codes + OPTIONS, (size_t)count * sizeof *codes);
    status = TVMFuncTime(frame, &options, seconds);
  }
  if (!status) status = TVMReturnBytes((char *)seconds, (size_t)options.repeat * sizeof *seconds, kTVMBytes, ret, ret_code);
  free(frame);
  free(seconds);
  return status;
}

/* limit(milliseconds): ends the session after this time unless the limit is changed before; 0 removes the limit. */
PACKED(session_limit) {
  (void)self, (void)ret, (void)ret_code;
  if (check_args("limit", "i", codes, n)) return -1;
  int64_t ms = args[0].v_int64;
  if (ms < 0 || ms > INT32_MAX) return tvm_error("ValueError: limit: %lld ms is out of range", (long long)ms);
  struct itimerval timer = {.it_value = {ms / 1000, ms % 1000 * 1000}};
  return setitimer(ITIMER_REAL, &timer, NULL) ? tvm_error("RPCError: cannot set the time limit: %s", strerror(errno)) : 0;
}

PACKED(session_import) {
  (void)self, (void)ret, (void)ret_code;
  return check_args("ImportModule", "mm", codes, n) ? -1 : TVMModImport(args[0].v_handle, args[1].v_handle);
}

/* ---- files ---- */

static struct { char folder[PATH_MAX]; uint64_t limit, used; } files;

/* Returns the path of a file in the session folder; with `make`, missing folders are created. */
static int path_of(const char *name, bool make, char out[PATH_MAX]) {
  if (!files.folder[0]) return tvm_error("RPCError: this process does not serve a session");
  int length = snprintf(out, PATH_MAX, "%s/%s", files.folder, name);
  if (!*name || *name == '/' || length >= PATH_MAX) return tvm_error("ValueError: '%.200s' is outside the folder of the session", name);
  for (const char *part = name; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
    if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/'))
      return tvm_error("ValueError: '%.200s' is outside the folder of the session", name);
  char real[PATH_MAX];
  size_t root = strlen(files.folder);
  for (char *cut = out + root + 1; (cut = strchr(cut, '/')); ++cut) {
    *cut = '\0';
    if (make && mkdir(out, 0700) && errno != EEXIST) return tvm_error("RPCError: cannot create the folder of '%.200s': %s", name, strerror(errno));
    bool inside = realpath(out, real) && !strncmp(real, files.folder, root) && (real[root] == '/' || !real[root]);
    *cut = '/';
    if (!inside) return tvm_error("ValueError: '%.200s' is outside the folder of the session, or its folder does not exist", name);
  }
  struct stat info;
  if (!lstat(out, &info) && S_ISLNK(info.st_mode)) return tvm_error("ValueError: '%.200s' is a symbolic link, which may lead outside the folder of the session", name);
  return 0;
}

/* Subtracts the size of a removed or truncated file from the used size. */
static void uncount(uint64_t size) { files.used -= size < files.used ? size : files.used; }

static int open_file(const char *name, int flags, int *out) {
  char path[PATH_MAX];
  struct stat info;
  if (path_of(name, flags & O_CREAT, path)) return -1;
  if (flags & O_TRUNC && !lstat(path, &info)) uncount((uint64_t)info.st_size);
  int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0700);
  if (fd < 0) return tvm_error("RPCError: cannot open the session file '%.200s': %s", name, strerror(errno));
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
    close(fd);
    return tvm_error("RPCError: '%.200s' is not a regular file", name);
  }
  *out = fd;
  return 0;
}

/* upload(name, bytes, offset): a file is sent in parts; the first part creates it or truncates an existing file. */
PACKED(session_upload) {
  (void)self, (void)ret, (void)ret_code;
  if (check_args("upload", "sb.i", codes, n)) return -1;
  const TVMByteArray *bytes = args[1].v_handle;
  int64_t offset = n > 2 ? args[2].v_int64 : 0;
  int fd;
  if (offset < 0) return tvm_error("ValueError: upload: the offset is negative");
  if (open_file(args[0].v_str, O_WRONLY | O_CREAT | (offset ? 0 : O_TRUNC), &fd)) return -1;
  int status = bytes->size <= files.limit - files.used ? 0 : tvm_error("RPCError: the files of a session may have at most %llu bytes in total", (unsigned long long)files.limit);
  size_t done = 0;
  while (done < bytes->size && !status) {
    ssize_t got = pwrite(fd, bytes->data + done, bytes->size - done, offset + (off_t)done);
    if (got > 0) done += (size_t)got;
    else if (got < 0 && errno != EINTR)
      status = tvm_error("RPCError: cannot write the file '%.200s' on the device: %s", args[0].v_str, strerror(errno));
  }
  if (close(fd) && !status) status = tvm_error("RPCError: cannot write the file '%.200s': %s", args[0].v_str, strerror(errno));
  files.used += done;
  return status;
}

/* download(name, offset): returns up to 16 MiB from the offset; less at the end of the file. */
PACKED(session_download) {
  (void)self;
  if (check_args("download", "s.i", codes, n)) return -1;
  int fd;
  if (open_file(args[0].v_str, O_RDONLY, &fd)) return -1;
  char *bytes = malloc(RPC_COPY_PIECE);
  size_t done = 0;
  ssize_t got = 1;
  while (bytes && done < RPC_COPY_PIECE && got) {
    got = pread(fd, bytes + done, RPC_COPY_PIECE - done, (n > 1 ? args[1].v_int64 : 0) + (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    done += (size_t)got;
  }
  int status = !bytes ? tvm_error("out of memory") : got < 0 ? tvm_error("RPCError: cannot read the file '%.200s': %s", args[0].v_str, strerror(errno)) : 0;
  close(fd);
  if (!status) status = TVMReturnBytes(bytes, done, kTVMBytes, ret, ret_code);
  free(bytes);
  return status;
}

PACKED(session_remove) {
  (void)self, (void)ret, (void)ret_code;
  char path[PATH_MAX];
  struct stat info;
  if (check_args("remove", "s", codes, n) || path_of(args[0].v_str, false, path)) return -1;
  if (!lstat(path, &info) && S_ISREG(info.st_mode)) uncount((uint64_t)info.st_size);
  return unlink(path) ? tvm_error("RPCError: cannot remove the session file '%.200s': %s", args[0].v_str, strerror(errno)) : 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* listdir(name): returns the sorted names in a folder, separated by commas. */
PACKED(session_listdir) {
  (void)self;
  char path[PATH_MAX];
  if (check_args("listdir", "s", codes, n)) return -1;
  const char *name = args[0].v_str;
  if (!*name || !strcmp(name, ".")) snprintf(path, sizeof path, "%s", files.folder);
  else if (path_of(name, false, path)) return -1;
  struct dirent **found;
  int count = scandir(path, &found, NULL, NULL);
  if (count < 0) return tvm_error("RPCError: '%.200s' is not a folder of the session", name);
  char **names = calloc((size_t)count + 1, sizeof *names);
  Bytes text = {NULL, 0, 0, names == NULL};
  int used = 0;
  for (int i = 0; names && i < count; ++i)
    if (strcmp(found[i]->d_name, ".") && strcmp(found[i]->d_name, "..")) names[used++] = found[i]->d_name;
  if (names) qsort(names, (size_t)used, sizeof *names, by_name);
  for (int i = 0; i < used; ++i) {
    if (i) bytes_put(&text, ",", 1);
    bytes_put(&text, names[i], strlen(names[i]));
  }
  int status = text.failed ? tvm_error("out of memory") : TVMReturnBytes((char *)text.data, text.size, kTVMStr, ret, ret_code);
  for (int i = 0; i < count; ++i) free(found[i]);
  free(found);
  free(names);
  free(text.data);
  return status;
}

PACKED(session_workpath) {
  (void)self;
  char path[PATH_MAX];
  if (check_args("workpath", ".s", codes, n)) return -1;
  if (!n || !args[0].v_str[0]) return TVMReturnBytes(files.folder, strlen(files.folder), kTVMStr, ret, ret_code);
  return path_of(args[0].v_str, false, path) ? -1 : TVMReturnBytes(path, strlen(path), kTVMStr, ret, ret_code);
}

PACKED(session_load_module) {
  (void)self;
  char path[PATH_MAX];
  TVMModuleHandle mod;
  if (check_args("load_module", "s", codes, n) || path_of(args[0].v_str, false, path)) return -1;
  const char *dot = strrchr(args[0].v_str, '.');
  if (dot && (!strcmp(dot, ".tar") || !strcmp(dot, ".c")))
    return tvm_error("RPCError: '%.200s': this server has no linker; upload a shared library (.so) or an object file (.o)", args[0].v_str);
  if (TVMModLoadFromFile(path, NULL, &mod)) return -1;
  ret->v_handle = mod;
  *ret_code = kTVMModuleHandle;
  return 0;
}

static const struct { const char *name; TVMBackendPackedCFunc code; } FUNCTIONS[] = {
    {"tvm.rpc.server.alloc", session_alloc},         {"tvm.rpc.server.copy", session_copy},
    {"tvm.rpc.server.sync", session_sync},           {"tvm.rpc.server.time", session_time},
    {"tvm.rpc.server.ImportModule", session_import}, {"tvm.rpc.server.upload", session_upload},
    {"tvm.rpc.server.download", session_download},   {"tvm.rpc.server.remove", session_remove},
    {"tvm.rpc.server.listdir", session_listdir},     {"tvm.rpc.server.workpath", session_workpath},
    {"tvm.rpc.server.load_module", session_load_module}, {"tvm.rpc.server.limit", session_limit},
    {"tvm.rpc.server.share", session_share},         {"tvm.rpc.server.copy_shared", session_copy_shared},
};

/* Registers the functions, except those that the embedding language has already registered under the same names. */
int rpc_register_session(const SessionFiles *given) {
  if (!realpath(given->folder, files.folder)) return tvm_error("cannot use the folder of the session: %s", strerror(errno));
  files.limit = given->max_files;
  files.used = 0;
  for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; ++i) {
    TVMFunctionHandle there;
    if (TVMFuncGetGlobal(FUNCTIONS[i].name, &there)) return -1;
    if (!there) tvm_builtin(FUNCTIONS[i].name, FUNCTIONS[i].code);
    TVMFuncFree(there);
  }
  return 0;
}
#endif
