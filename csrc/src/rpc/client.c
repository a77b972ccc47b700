/* The client side of a session: the session number, the driver of its devices, and its functions and modules. */
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

/* ---- sessions by number; a number is never reused, because devices contain it ---- */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static Endpoint **sessions;
static int session_count;
enum { MOST_SESSIONS = INT32_MAX / DEVICE_TYPES - 2 };

static int list_session(Endpoint *ep) {
  pthread_mutex_lock(&table_lock);
  Endpoint **grown = session_count < MOST_SESSIONS ? realloc(sessions, ((size_t)session_count + 1) * sizeof *sessions) : NULL;
  if (grown) {
    sessions = grown;
    ep->number = session_count;
    sessions[session_count++] = ep;
  }
  pthread_mutex_unlock(&table_lock);
  return grown ? 0 : tvm_error("out of memory");
}

void tvm_rpc_unlist(int number) {
  if (number < 0) return;
  pthread_mutex_lock(&table_lock);
  sessions[number] = NULL;
  pthread_mutex_unlock(&table_lock);
}

/* Returns the session with an added reference, unless its last reference is being released. */
static Endpoint *session_of(int number) {
  pthread_mutex_lock(&table_lock);
  Endpoint *ep = number >= 0 && number < session_count ? sessions[number] : NULL;
  int refs = ep ? atomic_load(&ep->refs) : 0;
  while (refs && !atomic_compare_exchange_weak(&ep->refs, &refs, refs + 1)) {}
  pthread_mutex_unlock(&table_lock);
  if (refs) return ep;
  tvm_set_error("RPCError: session %d has ended", number);
  return NULL;
}

/* After a fork, the connection belongs to the parent: the child must neither write to it nor close it. */
static void fork_child(void) {
  pthread_mutex_init(&table_lock, NULL);
  for (int i = 0; i < session_count; ++i) {
    Endpoint *ep = sessions[i];
    if (!ep) continue;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&ep->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&ep->free_lock, NULL);
    ep->dead = true;
    strcpy(ep->why, "RPCError: the session belongs to the parent process; connect again after the fork");
    if (ep->fd >= 0) system_socket_close(ep->fd);
    ep->fd = -1;
  }
}

int TVMRPCSessionOpen(int fd, uint64_t max_message, double seconds, int *out) {
  if (sizeof(void *) < 8) return tvm_error("RPCError: RPC clients are supported on 64-bit machines only");
  if (max_message < 4096) return tvm_error("RPCError: the server allows messages of %llu bytes; the minimum is 4096", (unsigned long long)max_message);
  Endpoint *ep = endpoint_new(fd, false, max_message, seconds);
  if (!ep) return -1;
  if (!list_session(ep)) {
    *out = ep->number;
    return 0;
  }
  ep->fd = -1; /* the caller keeps the file descriptor */
  ep->dead = true;
  endpoint_release(ep);
  return -1;
}

int TVMRPCSessionClose(int number) {
  Endpoint *ep = session_of(number);
  if (!ep) return 0;
  pthread_mutex_lock(&ep->lock);
  if (!ep->dead) {
    frame_send(ep, RPC_CLOSE, NULL, NULL, 0);
    endpoint_fail(ep, "RPCError: the session was closed");
  }
  pthread_mutex_unlock(&ep->lock);
  endpoint_release(ep);
  return 0;
}

int TVMRPCSessionFree(int number) {
  Endpoint *ep = session_of(number);
  if (!ep) return 0;
  endpoint_release(ep);
  endpoint_release(ep);
  return 0;
}

/* ---- remote functions and modules ---- */

typedef struct { Endpoint *ep; uint64_t handle; } Remote;

void remote_forget(Endpoint *ep, uint64_t handle) {
  pthread_mutex_lock(&ep->free_lock);
  if (ep->free_count == ep->free_room) {
    size_t room = ep->free_room ? 2 * ep->free_room : 16;
    uint64_t *grown = realloc(ep->frees, room * sizeof *grown);
    if (grown) {
      ep->frees = grown;
      ep->free_room = room;
    }
  }
  if (ep->free_count < ep->free_room && !ep->dead) ep->frees[ep->free_count++] = handle;
  pthread_mutex_unlock(&ep->free_lock);
}

static void remote_free(void *self) {
  Remote *remote = self;
  remote_forget(remote->ep, remote->handle);
  endpoint_release(remote->ep);
  free(remote);
}

static Remote *remote_new(Endpoint *ep, uint64_t handle) {
  Remote *remote = malloc(sizeof *remote);
  if (!remote) {
    remote_forget(ep, handle);
    return tvm_set_error("out of memory"), NULL;
  }
  *remote = (Remote){ep, handle};
  endpoint_retain(ep);
  return remote;
}

/* Reads the value of a reply. Text and bytes are copied to the thread's memory for function results. */
static int take_result(Endpoint *ep, Message *answer, TVMValue *ret, int *ret_code) {
  Values got;
  Cursor cursor = {answer->body, answer->body + answer->length};
  pthread_mutex_lock(&ep->lock);
  int status = values_take(ep, &cursor, &got);
  pthread_mutex_unlock(&ep->lock);
  if (!status && got.count != 1) status = tvm_error("RPCError: received a reply with %d values; expected 1", got.count);
  if (!status) {
    *ret = got.values[0];
    *ret_code = got.codes[0];
    got.count = 0; /* the caller now owns the references of the value */
    const TVMByteArray *bytes = ret->v_handle;
    if (*ret_code == kTVMStr) status = TVMReturnBytes(ret->v_str, strlen(ret->v_str), kTVMStr, ret, ret_code);
    else if (*ret_code == kTVMBytes) status = TVMReturnBytes(bytes->data, bytes->size, kTVMBytes, ret, ret_code);
  }
  values_free(&got);
  free(answer->body);
  return status;
}

static int call_handle(Endpoint *ep, uint64_t handle, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code) {
  Bytes body = {NULL, 0, 0, false};
  Lent lent = {.count = 0};
  Message answer;
  pthread_mutex_lock(&ep->lock);
  bytes_u64(&body, handle);
  int status = values_put(ep, &body, args, codes, n, &lent);
  if (!status) status = endpoint_ask(ep, RPC_CALL, &body, NULL, 0, &answer);
  lent_drop(ep, &lent);
  pthread_mutex_unlock(&ep->lock);
  free(body.data);
  return status ? -1 : take_result(ep, &answer, ret, ret_code);
}

static int call_remote(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  const Remote *remote = self;
  return call_handle(remote->ep, remote->handle, args, codes, n, ret, ret_code);
}

int remote_function(Endpoint *ep, uint64_t handle, TVMFunctionHandle *out) {
  Remote *remote = remote_new(ep, handle);
  if (!remote) return -1;
  if (!TVMFuncCreateFromCFunc(call_remote, remote, remote_free, out)) return 0;
  remote_free(remote);
  return -1;
}

static Remote *function_remote(TVMFunctionHandle func) { return func->code == call_remote ? func->resource : NULL; }

uint64_t remote_function_handle(const Endpoint *ep, TVMFunctionHandle func) {
  const Remote *remote = function_remote(func);
  return remote && remote->ep == ep ? remote->handle : 0;
}

static int ask_function(Endpoint *ep, uint64_t module, const char *name, TVMFunctionHandle *out) {
  Bytes body = {NULL, 0, 0, false};
  Message answer;
  TVMValue value;
  int code;
  *out = NULL;
  bytes_u64(&body, module);
  bytes_text(&body, name, strlen(name));
  int status = endpoint_ask(ep, RPC_FUNCTION, &body, NULL, 0, &answer);
  free(body.data);
  if (status || take_result(ep, &answer, &value, &code)) return -1;
  if (code == kTVMPackedFuncHandle) *out = value.v_handle;
  else if (code != kTVMNullptr) tvm_release_value(value, code);
  return 0;
}

static int module_lookup(void *self, const char *name, TVMFunctionHandle *out) {
  const Remote *remote = self;
  return ask_function(remote->ep, remote->handle, name, out);
}

int remote_module(Endpoint *ep, uint64_t handle, TVMModuleHandle *out) {
  Remote *remote = remote_new(ep, handle);
  if (!remote) return -1;
  if (TVMModCreate("rpc", remote_free, remote, out)) {
    remote_free(remote);
    return -1;
  }
  tvm_module_set_lookup(*out, module_lookup);
  return 0;
}

uint64_t remote_module_handle(const Endpoint *ep, TVMModuleHandle mod) {
  const Remote *remote = tvm_module_resource(mod, remote_free);
  return remote && remote->ep == ep ? remote->handle : 0;
}

int TVMRPCSessionFunction(int number, const char *name, TVMFunctionHandle *out) {
  Endpoint *ep = session_of(number);
  if (!ep) return -1;
  int status = ask_function(ep, 0, name, out);
  endpoint_release(ep);
  return status;
}

/* ---- functions that every server provides ---- */

int remote_call(Endpoint *ep, const char *name, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code) {
  pthread_mutex_lock(&ep->lock);
  uint64_t handle = (uint64_t)(uintptr_t)map_get(&ep->functions, name);
  TVMFunctionHandle func = NULL;
  int status = handle ? 0 : ask_function(ep, 0, name, &func);
  if (!handle && !status && !func) status = tvm_error("RPCError: the server has no function '%s'", name);
  if (!handle && !status) {
    /* The remote handle outlives the local function object: it is released with the session. */
    Remote *remote = function_remote(func);
    handle = remote->handle;
    status = map_put(&ep->functions, name, (void *)(uintptr_t)handle, NULL);
    if (!status) {
      func->finalize = NULL;
      endpoint_release(ep);
      free(remote);
    }
  }
  TVMFuncFree(func);
  if (!status) status = call_handle(ep, handle, args, codes, n, ret, ret_code);
  pthread_mutex_unlock(&ep->lock);
  return status;
}

static TVMValue device_value(DLDevice device) { return (TVMValue){.v_device = device}; }

/* ---- the driver of remote devices ---- */

static Endpoint *session_of_device(DLDevice device) { return session_of(device.device_type / DEVICE_TYPES - 1); }

static void *remote_alloc(DLDevice device, size_t nbytes, size_t alignment) {
  (void)alignment;
  Endpoint *ep = session_of_device(device);
  if (!ep) return NULL;
  TVMValue args[] = {device_value(device), {.v_int64 = (int64_t)nbytes}}, ret;
  int codes[] = {kTVMDevice, kTVMArgInt}, code;
  void *data = NULL;
  if (!remote_call(ep, "tvm.rpc.server.alloc", args, codes, 2, &ret, &code)) {
    if (code == kTVMNDArrayHandle) {
      data = ((DLTensor *)ret.v_handle)->data;
      tvm_array_disown(ret.v_handle); /* the new array takes over the reference to the session */
      TVMArrayFree(ret.v_handle);
    } else {
      tvm_release_value(ret, code);
      tvm_set_error("RPCError: the server could not allocate memory");
    }
  }
  endpoint_release(ep);
  return data;
}

static void remote_free_array(DLDevice device, void *data) {
  Endpoint *ep = session_of_device(device);
  if (!ep) return;
  remote_forget(ep, (uint64_t)(uintptr_t)data);
  endpoint_release(ep);
  endpoint_release(ep);
}

static int send_pieces(Endpoint *ep, uint64_t handle, size_t offset, const char *from, size_t nbytes) {
  int status = 0;
  for (size_t done = 0; done < nbytes && !status;) {
    size_t piece = nbytes - done < RPC_COPY_PIECE ? nbytes - done : RPC_COPY_PIECE;
    if (piece > ep->max_message - 16) piece = (size_t)ep->max_message - 16;
    Bytes body = {NULL, 0, 0, false};
    Message answer;
    bytes_u64(&body, handle);
    bytes_u64(&body, offset + done);
    status = endpoint_ask(ep, RPC_COPY_TO, &body, from + done, piece, &answer);
    free(body.data);
    if (!status) free(answer.body);
    done += piece;
  }
  return status;
}

static int fetch_pieces(Endpoint *ep, uint64_t handle, size_t offset, char *to, size_t nbytes) {
  int status = 0;
  for (size_t done = 0; done < nbytes && !status;) {
    size_t piece = nbytes - done < RPC_COPY_PIECE ? nbytes - done : RPC_COPY_PIECE;
    if (piece > ep->max_message) piece = (size_t)ep->max_message;
    Bytes body = {NULL, 0, 0, false};
    bytes_u64(&body, handle);
    bytes_u64(&body, offset + done);
    bytes_u64(&body, piece);
    status = endpoint_fetch(ep, &body, to + done, piece);
    free(body.data);
    done += piece;
  }
  return status;
}

static int copy_to(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, const char *from, size_t nbytes) {
  int status = shared_copy(ep, device, handle, offset, (void *)(uintptr_t)from, nbytes, false);
  return status == 1 ? send_pieces(ep, handle, offset, from, nbytes) : status;
}

static int copy_from(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, char *to, size_t nbytes) {
  int status = shared_copy(ep, device, handle, offset, to, nbytes, true);
  return status == 1 ? fetch_pieces(ep, handle, offset, to, nbytes) : status;
}

/* Copies between two arrays of one session without transferring the data to the client. */
static int copy_there(Endpoint *ep, DLTensor *from, DLTensor *to) {
  TVMValue args[] = {{.v_handle = from}, {.v_handle = to}}, ret;
  int codes[] = {kTVMNDArrayHandle, kTVMNDArrayHandle}, code;
  return remote_call(ep, "tvm.rpc.server.copy", args, codes, 2, &ret, &code);
}

static int remote_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                       DLDevice to_device, size_t nbytes, void *stream);

static int copy_between(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                        DLDevice to_device, size_t nbytes) {
  void *bytes = malloc(nbytes ? nbytes : 1);
  if (!bytes) return tvm_error("copy: cannot allocate %zu bytes on the host", nbytes);
  const DLDevice host = {kDLCPU, 0};
  int status = remote_copy(from, from_offset, from_device, bytes, 0, host, nbytes, NULL);
  if (!status) status = remote_copy(bytes, 0, host, to, to_offset, to_device, nbytes, NULL);
  free(bytes);
  return status;
}

static int remote_copy(const void *from, size_t from_offset, DLDevice from_device, void *to, size_t to_offset,
                       DLDevice to_device, size_t nbytes, void *stream) {
  (void)stream;
  int from_session = from_device.device_type / DEVICE_TYPES, to_session = to_device.device_type / DEVICE_TYPES;
  if (from_session && to_session && from_session != to_session)
    return copy_between(from, from_offset, from_device, to, to_offset, to_device, nbytes);
  Endpoint *ep = session_of((from_session ? from_session : to_session) - 1);
  if (!ep) return -1;
  int status;
  if (!from_session) status = copy_to(ep, to_device, (uint64_t)(uintptr_t)to, to_offset, (const char *)from + from_offset, nbytes);
  else if (!to_session) status = copy_from(ep, from_device, (uint64_t)(uintptr_t)from, from_offset, (char *)to + to_offset, nbytes);
  else {
    int64_t size = (int64_t)nbytes;
    DLDataType byte = {kDLUInt, 8, 1};
    DLTensor source = {(void *)(uintptr_t)from, from_device, 1, byte, &size, NULL, from_offset};
    DLTensor target = {to, to_device, 1, byte, &size, NULL, to_offset};
    status = copy_there(ep, &source, &target);
  }
  endpoint_release(ep);
  return status;
}

static int remote_sync(DLDevice device, void *stream) {
  Endpoint *ep = session_of_device(device);
  if (!ep) return -1;
  TVMValue arg = device_value(device), ret;
  int arg_code = kTVMDevice, code;
  int status = stream ? tvm_error("RPCError: remote devices support the default stream only")
                      : remote_call(ep, "tvm.rpc.server.sync", &arg, &arg_code, 1, &ret, &code);
  endpoint_release(ep);
  return status;
}

static int remote_attribute(DLDevice device, int which, TVMValue *out, int *out_code) {
  Endpoint *ep = session_of_device(device);
  if (!ep) return -1;
  TVMValue args[] = {{.v_int64 = device.device_type % DEVICE_TYPES}, {.v_int64 = device.device_id}, {.v_int64 = which}};
  int codes[] = {kTVMArgInt, kTVMArgInt, kTVMArgInt};
  int status = remote_call(ep, "runtime.GetDeviceAttr", args, codes, 3, out, out_code);
  endpoint_release(ep);
  return status;
}

static int remote_exists(int device_id) {
  (void)device_id;
  return 1;
}

static const DeviceApi remote_api = {.exists = remote_exists, .alloc = remote_alloc, .free = remote_free_array,
                                     .copy = remote_copy, .sync = remote_sync, .attribute = remote_attribute};

/* ---- timing and imports, which the server executes ---- */

static bool is_remote(TVMFunctionHandle func) { return function_remote(func) != NULL; }

static int remote_time(TVMCallFrame *frame, const TVMTimeOptions *options, double *out_seconds) {
  enum { OPTIONS = 10 };
  Endpoint *ep = function_remote(frame->func)->ep;
  int n = (int)frame->num_args, code;
  TVMValue ret, *args = calloc((size_t)n + OPTIONS, sizeof *args);
  int *codes = calloc((size_t)n + OPTIONS, sizeof *codes);
  int status = args && codes ? 0 : tvm_error("out of memory");
  if (!status) {
    TVMValue given[OPTIONS] = {{.v_handle = frame->func}, {.v_handle = options->preprocess}, {.v_device = options->device},
                               {.v_int64 = options->number}, {.v_int64 = options->repeat}, {.v_int64 = options->min_repeat_ms},
                               {.v_int64 = options->limit_zero_time_iterations}, {.v_int64 = options->cooldown_interval_ms},
                               {.v_int64 = options->repeats_to_cooldown}, {.v_int64 = options->cache_flush_bytes}};
    memcpy(args, given, sizeof given); /* type code 0 means integer */
    codes[0] = kTVMPackedFuncHandle;
    codes[1] = options->preprocess ? kTVMPackedFuncHandle : kTVMNullptr;
    codes[2] = kTVMDevice;
    memcpy(args + OPTIONS, frame->values, (size_t)n * sizeof *args);
    memcpy(codes + OPTIONS, frame->values + n, (size_t)n * sizeof *codes);
    status = remote_call(ep, "tvm.rpc.server.time", args, codes, n + OPTIONS, &ret, &code);
  }
  free(args);
  free(codes);
  if (status) return -1;
  const TVMByteArray *bytes = ret.v_handle;
  if (code == kTVMBytes && bytes->size == (size_t)options->repeat * sizeof(double)) {
    memcpy(out_seconds, bytes->data, bytes->size);
    return 0;
  }
  tvm_release_value(ret, code);
  return tvm_error("RPCError: the server returned no measured times");
}

static int remote_import(TVMModuleHandle mod, TVMModuleHandle dep) {
  const Remote *remote = tvm_module_resource(mod, remote_free);
  if (!remote) return 1;
  TVMValue args[] = {{.v_handle = mod}, {.v_handle = dep}}, ret;
  int codes[] = {kTVMModuleHandle, kTVMModuleHandle}, code;
  return remote_call(remote->ep, "tvm.rpc.server.ImportModule", args, codes, 2, &ret, &code);
}

void tvm_rpc_start(void) {
  static const RemoteApi remote = {.device = &remote_api, .is_function = is_remote, .time = remote_time, .import = remote_import};
  tvm_remote_set(&remote);
  tvm_fork_child_add(fork_child);
}
