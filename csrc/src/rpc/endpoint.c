/* One end of a session: sends requests to the other side and serves its requests. */
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

Endpoint *endpoint_new(int fd, bool serves, uint64_t max_message, double seconds) {
  Endpoint *ep = calloc(1, sizeof *ep);
  if (!ep) return tvm_set_error("out of memory"), NULL;
  atomic_init(&ep->refs, 1);
  ep->number = -1;
  ep->fd = fd;
  system_socket_adopt(fd);
  ep->serves = serves;
  ep->max_message = max_message;
  ep->seconds = seconds;
  ep->deadline = seconds > 0 ? tvm_now() + seconds : 0;
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&ep->lock, &recursive);
  pthread_mutexattr_destroy(&recursive);
  pthread_mutex_init(&ep->free_lock, NULL);
  return ep;
}

void endpoint_retain(Endpoint *ep) { atomic_fetch_add_explicit(&ep->refs, 1, memory_order_relaxed); }

void endpoint_release(Endpoint *ep) {
  if (atomic_fetch_sub_explicit(&ep->refs, 1, memory_order_acq_rel) != 1) return;
  if (!ep->dead && !ep->serves) frame_send(ep, RPC_CLOSE, NULL, NULL, 0);
  if (ep->fd >= 0) system_socket_close(ep->fd);
  tvm_rpc_unlist(ep->number);
  for (size_t i = 0; i < ep->slot_count; ++i)
    if (ep->slots[i].value) tvm_release_value((TVMValue){.v_handle = ep->slots[i].value}, ep->slots[i].code);
  free(ep->slots);
  free(ep->frees);
  shared_close(ep);
  map_clear(&ep->functions);
  pthread_mutex_destroy(&ep->lock);
  pthread_mutex_destroy(&ep->free_lock);
  free(ep);
}

/* ---- serving requests ---- */

static int send_error(Endpoint *ep) {
  if (ep->dead) return -1;
  Bytes body = {NULL, 0, 0, false};
  const char *text = TVMGetLastError();
  bytes_text(&body, text, strlen(text));
  TVMTakeForeignError();
  int status = frame_send(ep, RPC_ERROR, &body, NULL, 0);
  free(body.data);
  return status;
}

/* Sends a return value and takes over the references that it owns. */
static int send_return(Endpoint *ep, TVMValue value, int code) {
  Bytes body = {NULL, 0, 0, false};
  int status = values_put(ep, &body, &value, &code, 1, NULL);
  tvm_release_value(value, code);
  status = status ? send_error(ep) : frame_send(ep, RPC_RETURN, &body, NULL, 0);
  /* A return value that exceeds the message limit fails before any of it is sent, so the error can be sent instead. */
  if (status && !ep->dead) status = send_error(ep);
  free(body.data);
  return status;
}

static int send_nothing(Endpoint *ep) { return send_return(ep, (TVMValue){.v_handle = NULL}, kTVMNullptr); }

static int serve_call(Endpoint *ep, Cursor *cursor) {
  uint64_t handle;
  Values args;
  TVMFunctionHandle func;
  if (cursor_u64(cursor, &handle) || !(func = slot_get(ep, handle, kTVMPackedFuncHandle))) return send_error(ep);
  if (ep->depth >= RPC_MOST_DEPTH) {
    tvm_set_error("RPCError: nested calls between client and server exceed the maximum depth of %d", RPC_MOST_DEPTH);
    return send_error(ep);
  }
  if (values_take(ep, cursor, &args)) return send_error(ep);
  TVMValue ret = {.v_handle = NULL};
  int code = kTVMNullptr;
  TVMFuncRetain(func); /* the call may free its own handle */
  ++ep->depth;
  int status = tvm_call(func, args.values, args.codes, args.count, &ret, &code);
  --ep->depth;
  status = status ? send_error(ep) : send_return(ep, ret, code);
  TVMFuncFree(func);
  values_free(&args);
  return status;
}

static int find_function(const Endpoint *ep, uint64_t module, const char *name, TVMFunctionHandle *out) {
  TVMModuleHandle mod;
  if (module) return (mod = slot_get(ep, module, kTVMModuleHandle)) ? TVMModGetFunction(mod, name, 1, out) : -1;
  if (ep->measure_only && !rpc_is_measuring(name))
    return tvm_error("RPCError: the server allows measuring only; the function '%s' is not available", name);
  return TVMFuncGetGlobal(name, out);
}

static int serve_function(Endpoint *ep, Cursor *cursor) {
  uint64_t module;
  const char *name;
  size_t size;
  TVMFunctionHandle func = NULL;
  if (cursor_u64(cursor, &module) || cursor_text(cursor, &name, &size) || cursor_end(cursor)) return send_error(ep);
  if (find_function(ep, module, name, &func)) return send_error(ep);
  return send_return(ep, (TVMValue){.v_handle = func}, func ? kTVMPackedFuncHandle : kTVMNullptr);
}

static int serve_free(Endpoint *ep, Cursor *cursor) {
  uint64_t handle;
  while (cursor->at != cursor->end) {
    if (cursor_u64(cursor, &handle)) return endpoint_fail(ep, "RPCError: received a truncated message");
    slot_drop(ep, handle);
  }
  return 0;
}

/* Returns the array of a copy request with its driver, if the copied range is inside the array. */
static TVMArrayHandle copy_target(const Endpoint *ep, uint64_t handle, uint64_t offset, uint64_t count, const DeviceApi **api) {
  size_t size;
  TVMArrayHandle array = slot_get(ep, handle, kTVMNDArrayHandle);
  if (!array || TVMTensorByteSize(array, &size) || !(*api = tvm_device(array->device))) return NULL;
  if (!tvm_is_compact(array)) return tvm_set_error("RPCError: cannot copy an array with strides"), NULL;
  if (offset <= size && count <= size - offset) return array;
  tvm_set_error("RPCError: a copy of %llu bytes at offset %llu exceeds an array of %zu bytes", (unsigned long long)count,
                (unsigned long long)offset, size);
  return NULL;
}

static const DLDevice host = {kDLCPU, 0};

static int receive_copy(Endpoint *ep, TVMArrayHandle array, const DeviceApi *api, uint64_t offset, uint64_t count) {
  if (api == &tvm_cpu_api)
    return frame_read(ep, (char *)array->data + array->byte_offset + offset, (size_t)count) ? -1 : send_nothing(ep);
  unsigned char *bytes;
  if (frame_body(ep, count, &bytes)) return -1;
  int status = api->copy(bytes, 0, host, array->data, array->byte_offset + offset, array->device, (size_t)count, NULL);
  free(bytes);
  return status ? send_error(ep) : send_nothing(ep);
}

static int serve_copy_to(Endpoint *ep, uint64_t length) {
  uint64_t head[2];
  const DeviceApi *api;
  if (length < sizeof head) return endpoint_fail(ep, "RPCError: received a copy request without an array");
  if (frame_read(ep, head, sizeof head)) return -1;
  length -= sizeof head;
  TVMArrayHandle array = copy_target(ep, head[0], head[1], length, &api);
  if (array) return receive_copy(ep, array, api, head[1], length);
  ErrorRecord why;
  tvm_error_save(&why);
  if (frame_skip(ep, length)) return -1;
  tvm_error_restore(&why);
  return send_error(ep);
}

static int serve_copy_from(Endpoint *ep, Cursor *cursor) {
  uint64_t handle, offset, count;
  const DeviceApi *api;
  if (cursor_u64(cursor, &handle) || cursor_u64(cursor, &offset) || cursor_u64(cursor, &count) || cursor_end(cursor)) return send_error(ep);
  TVMArrayHandle array = copy_target(ep, handle, offset, count, &api);
  if (!array) return send_error(ep);
  if (count > ep->max_message) {
    tvm_set_error("RPCError: a copy of %llu bytes exceeds the maximum message size", (unsigned long long)count);
    return send_error(ep);
  }
  if (api == &tvm_cpu_api)
    return frame_send(ep, RPC_DATA, NULL, (char *)array->data + array->byte_offset + offset, (size_t)count);
  void *bytes = malloc(count ? (size_t)count : 1);
  int status = bytes ? api->copy(array->data, array->byte_offset + offset, array->device, bytes, 0, host, (size_t)count, NULL)
                     : tvm_error("out of memory for a copy of %llu bytes", (unsigned long long)count);
  if (!status) status = api->sync(array->device, NULL);
  status = status ? send_error(ep) : frame_send(ep, RPC_DATA, NULL, bytes, (size_t)count);
  free(bytes);
  return status;
}

static int serve_one(Endpoint *ep, uint32_t kind, uint64_t length) {
  if (!ep->serves && kind != RPC_CALL && kind != RPC_FREE)
    return endpoint_fail(ep, "RPCError: the server sent a request that clients do not serve (%u)", (unsigned)kind);
  if (kind == RPC_COPY_TO) return serve_copy_to(ep, length);
  unsigned char *body;
  if (frame_body(ep, length, &body)) return -1;
  Cursor cursor = {body, body + length};
  int status;
  switch (kind) {
    case RPC_CALL: status = serve_call(ep, &cursor); break;
    case RPC_FUNCTION: status = serve_function(ep, &cursor); break;
    case RPC_FREE: status = serve_free(ep, &cursor); break;
    case RPC_COPY_FROM: status = serve_copy_from(ep, &cursor); break;
    default: status = endpoint_fail(ep, "RPCError: received an unexpected reply (%u)", (unsigned)kind);
  }
  free(body);
  return status;
}

int endpoint_serve(Endpoint *ep) {
  uint32_t kind;
  uint64_t length;
  for (;;) {
    if (frame_head(ep, &kind, &length)) return -1;
    if (kind == RPC_CLOSE) return 0;
    if (serve_one(ep, kind, length)) return -1;
  }
}

/* ---- sending requests ---- */

/* Sets the error that the other side sent as the last error; an error without a class name becomes an RPCError. */
static int take_error(Endpoint *ep, uint64_t length) {
  unsigned char *body;
  const char *text;
  size_t size;
  if (frame_body(ep, length, &body)) return -1;
  Cursor cursor = {body, body + length};
  if (cursor_text(&cursor, &text, &size) || cursor_end(&cursor)) {
    free(body);
    return endpoint_fail(ep, "RPCError: received an error without a message");
  }
  size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  bool named = word > 5 && !strncmp(text + word - 5, "Error", 5) && !strncmp(text + word, ": ", 2);
  bool plain = named && !strncmp(text, "TVMError", word);
  tvm_set_error("%s%s", named && !plain ? "" : "RPCError: ", plain ? text + word + 2 : text);
  free(body);
  return -1;
}

/* Serves the other side until a reply arrives; returns its kind and length. The body has not been read yet. */
static int await_answer(Endpoint *ep, uint32_t wanted, uint64_t *length) {
  uint32_t kind;
  for (;;) {
    if (frame_head(ep, &kind, length)) return -1;
    if (kind == wanted) return 0;
    if (kind == RPC_ERROR) return take_error(ep, *length);
    if (kind == RPC_CLOSE) return endpoint_fail(ep, "RPCError: the session has ended: the other side closed it");
    if (serve_one(ep, kind, *length)) return -1;
  }
}

int endpoint_ask(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size, Message *answer) {
  *answer = (Message){RPC_RETURN, NULL, 0};
  pthread_mutex_lock(&ep->lock);
  int status = frame_send(ep, kind, body, more, more_size);
  if (!status) status = await_answer(ep, RPC_RETURN, &answer->length);
  if (!status) status = frame_body(ep, answer->length, &answer->body);
  pthread_mutex_unlock(&ep->lock);
  return status;
}

int endpoint_fetch(Endpoint *ep, const Bytes *body, void *to, size_t size) {
  uint64_t length;
  pthread_mutex_lock(&ep->lock);
  int status = frame_send(ep, RPC_COPY_FROM, body, NULL, 0);
  if (!status) status = await_answer(ep, RPC_DATA, &length);
  if (!status && length != size)
    status = endpoint_fail(ep, "RPCError: received %llu bytes of an array; expected %zu", (unsigned long long)length, size);
  if (!status) status = frame_read(ep, to, size);
  pthread_mutex_unlock(&ep->lock);
  return status;
}
