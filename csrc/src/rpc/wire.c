/* Message buffers, frames on a socket, and the table of handles. Received data is checked before it is used. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc.h"

/* ---- writing messages ---- */

void bytes_put(Bytes *bytes, const void *data, size_t size) {
  if (bytes->failed) return;
  if (bytes->room - bytes->size < size) {
    size_t room = 2 * (bytes->size + size) + 256;
    unsigned char *grown = realloc(bytes->data, room);
    if (!grown) {
      bytes->failed = true;
      return;
    }
    bytes->data = grown;
    bytes->room = room;
  }
  if (size) memcpy(bytes->data + bytes->size, data, size);
  bytes->size += size;
}

void bytes_u32(Bytes *bytes, uint32_t value) { bytes_put(bytes, &value, 4); }
void bytes_u64(Bytes *bytes, uint64_t value) { bytes_put(bytes, &value, 8); }

void bytes_text(Bytes *bytes, const char *text, size_t size) {
  bytes_u64(bytes, size);
  bytes_put(bytes, text, size);
  bytes_put(bytes, "", 1);
}

/* ---- reading messages ---- */

int cursor_take(Cursor *cursor, const void **out, size_t size) {
  if ((size_t)(cursor->end - cursor->at) < size) return tvm_error("RPCError: received a message that is shorter than its content requires");
  *out = cursor->at;
  cursor->at += size;
  return 0;
}

int cursor_u32(Cursor *cursor, uint32_t *out) {
  const void *from;
  if (cursor_take(cursor, &from, 4)) return -1;
  memcpy(out, from, 4);
  return 0;
}

int cursor_u64(Cursor *cursor, uint64_t *out) {
  const void *from;
  if (cursor_take(cursor, &from, 8)) return -1;
  memcpy(out, from, 8);
  return 0;
}

int cursor_text(Cursor *cursor, const char **out, size_t *out_size) {
  uint64_t size;
  const void *text;
  if (cursor_u64(cursor, &size)) return -1;
  if (size >= (uint64_t)(cursor->end - cursor->at)) return tvm_error("RPCError: received a message that is shorter than its content requires");
  if (cursor_take(cursor, &text, (size_t)size + 1)) return -1;
  *out = text;
  *out_size = (size_t)size;
  return (*out)[size] ? tvm_error("RPCError: received a text without a terminating null character") : 0;
}

int cursor_end(const Cursor *cursor) {
  return cursor->at == cursor->end ? 0 : tvm_error("RPCError: received a message that is longer than its content");
}

/* ---- the socket ---- */

int endpoint_fail(Endpoint *ep, const char *format, ...) {
  if (!ep->dead) {
    va_list args;
    va_start(args, format);
    vsnprintf(ep->why, sizeof ep->why, format, args);
    va_end(args);
    ep->dead = true;
    /* shutdown wakes readers on the other side; the file descriptor is closed together with the endpoint. */
    if (ep->fd >= 0) system_socket_stop(ep->fd);
  }
  return tvm_error("%s", ep->why);
}

/* Waits until the socket can be read or written. Ctrl-C ends the session, because the reply would still arrive later. */
static int wait_for(Endpoint *ep, bool is_write) {
  for (;;) {
    int ready = system_socket_wait(ep->fd, is_write, 50);
    if (ready > 0) return 0;
    if (ready < 0) return endpoint_fail(ep, "RPCError: waiting for the other side failed: %s", system_socket_error());
    if (!ep->serves && tvm_interrupt_check()) {
      ErrorRecord why;
      tvm_error_save(&why);
      endpoint_fail(ep, "RPCError: the session was closed because a call was interrupted");
      tvm_error_restore(&why);
      return -1;
    }
    if (ep->deadline > 0 && tvm_now() > ep->deadline)
      return endpoint_fail(ep, "RPCSessionTimeoutError: the session exceeded its time limit of %g s", ep->seconds);
  }
}

static int write_parts(Endpoint *ep, SystemPart *parts, int count) {
  while (count) {
    ptrdiff_t done = system_socket_send(ep->fd, parts, count);
    if (done == SYSTEM_SOCKET_BUSY) {
      if (wait_for(ep, true)) return -1;
      continue;
    }
    /* The other side's last message, such as the error that ended the session, may still be unread. Otherwise reading
     * fails. */
    if (done == SYSTEM_SOCKET_GONE) return 0;
    if (done < 0) return endpoint_fail(ep, "RPCError: the session has ended: %s", system_socket_error());
    for (; count && (size_t)done >= parts->size; ++parts, --count) done -= (ptrdiff_t)parts->size;
    if (count) {
      parts->data = (const char *)parts->data + done;
      parts->size -= (size_t)done;
    }
  }
  return 0;
}

static int read_some(Endpoint *ep, void *to, size_t size, size_t *out) {
  for (;;) {
    ptrdiff_t got = system_socket_receive(ep->fd, to, size);
    if (got > 0) {
      *out = (size_t)got;
      return 0;
    }
    if (got == 0) return endpoint_fail(ep, "RPCError: the session has ended: the other side closed the connection");
    if (got != SYSTEM_SOCKET_BUSY) return endpoint_fail(ep, "RPCError: the session has ended: %s", system_socket_error());
    if (wait_for(ep, false)) return -1;
  }
}

/* ---- frames ---- */

static void put_head(unsigned char *to, uint32_t kind, uint64_t length) {
  uint32_t magic = RPC_MAGIC;
  memcpy(to, &magic, 4);
  memcpy(to + 4, &kind, 4);
  memcpy(to + 8, &length, 8);
}

int frame_send(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size) {
  if (ep->dead) return tvm_error("%s", ep->why);
  if (body && body->failed) return tvm_error("out of memory for a message");
  size_t size = body ? body->size : 0;
  if (size + more_size > ep->max_message)
    return tvm_error("RPCError: a message of %zu bytes exceeds the session's limit of %llu bytes; send large data as arrays "
                     "or files", size + more_size, (unsigned long long)ep->max_message);
  unsigned char free_head[RPC_HEAD], head[RPC_HEAD];
  pthread_mutex_lock(&ep->free_lock);
  uint64_t *frees = ep->frees;
  size_t count = ep->free_count;
  ep->frees = NULL;
  ep->free_count = ep->free_room = 0;
  pthread_mutex_unlock(&ep->free_lock);
  put_head(free_head, RPC_FREE, 8 * count);
  put_head(head, kind, size + more_size);
  SystemPart parts[5] = {{free_head, RPC_HEAD}, {frees, 8 * count}, {head, RPC_HEAD}, {body ? body->data : NULL, size},
                           {more, more_size}};
  int status = write_parts(ep, count ? parts : parts + 2, count ? 5 : 3);
  free(frees);
  return status;
}

int frame_read(Endpoint *ep, void *to, size_t size) {
  unsigned char *at = to;
  while (size) {
    size_t got = ep->stage_end - ep->stage_at;
    if (!got && size >= RPC_STAGE) {
      if (read_some(ep, at, size, &got)) return -1;
    } else {
      if (!got) {
        ep->stage_at = ep->stage_end = 0;
        if (read_some(ep, ep->stage, RPC_STAGE, &ep->stage_end)) return -1;
        got = ep->stage_end;
      }
      if (got > size) got = size;
      memcpy(at, ep->stage + ep->stage_at, got);
      ep->stage_at += got;
    }
    at += got;
    size -= got;
  }
  return 0;
}

int frame_skip(Endpoint *ep, uint64_t size) {
  unsigned char waste[RPC_STAGE];
  for (; size; size -= size < sizeof waste ? size : sizeof waste)
    if (frame_read(ep, waste, size < sizeof waste ? (size_t)size : sizeof waste)) return -1;
  return 0;
}

int frame_head(Endpoint *ep, uint32_t *kind, uint64_t *length) {
  unsigned char head[RPC_HEAD];
  uint32_t magic;
  if (ep->dead) return tvm_error("%s", ep->why);
  if (frame_read(ep, head, sizeof head)) return -1;
  memcpy(&magic, head, 4);
  memcpy(kind, head + 4, 4);
  memcpy(length, head + 8, 8);
  if (magic != RPC_MAGIC) return endpoint_fail(ep, "RPCError: received data that is not a message: it starts with %08x", (unsigned)magic);
  if (!*kind || *kind >= RPC_KINDS) return endpoint_fail(ep, "RPCError: received a message of unknown kind %u", (unsigned)*kind);
  if (*length > ep->max_message)
    return endpoint_fail(ep, "RPCError: received a message of %llu bytes; the session's limit is %llu", (unsigned long long)*length,
                         (unsigned long long)ep->max_message);
  return 0;
}

int frame_body(Endpoint *ep, uint64_t length, unsigned char **out) {
  enum { FIRST = 1 << 20 };
  size_t room = length < FIRST ? (size_t)length : FIRST, done = 0;
  unsigned char *body = malloc(room ? room : 1);
  while (body && done < length) {
    if (done == room) {
      room = 2 * room < length ? 2 * room : (size_t)length;
      unsigned char *grown = realloc(body, room);
      if (!grown) break;
      body = grown;
    }
    if (frame_read(ep, body + done, room - done)) {
      free(body);
      return -1;
    }
    done = room;
  }
  if (!body || done < length) {
    free(body);
    return endpoint_fail(ep, "RPCError: out of memory for a message of %llu bytes", (unsigned long long)length);
  }
  *out = body;
  return 0;
}

/* ---- handles: slot index plus one in the low half, the slot's use counter in the high half ---- */

int slot_add(Endpoint *ep, void *value, int code, uint64_t *out) {
  size_t at = ep->slot_hint;
  while (at < ep->slot_count && ep->slots[at].value) ++at;
  if (at == ep->slot_count) {
    size_t count = ep->slot_count ? 2 * ep->slot_count : 64;
    Slot *grown = count > (1u << 24) ? NULL : realloc(ep->slots, count * sizeof *grown);
    if (!grown) {
      tvm_release_value((TVMValue){.v_handle = value}, code);
      return tvm_error("RPCError: the other side uses too many handles (%zu)", ep->slot_count);
    }
    memset(grown + ep->slot_count, 0, (count - ep->slot_count) * sizeof *grown);
    ep->slots = grown;
    ep->slot_count = count;
  }
  ep->slot_hint = at + 1;
  Slot *slot = &ep->slots[at];
  slot->code = code;
  slot->value = value;
  slot->use = (slot->use + 1) & 0x7fffffff;
  *out = (uint64_t)slot->use << 32 | (at + 1);
  return 0;
}

static Slot *slot_of(const Endpoint *ep, uint64_t handle) {
  uint64_t at = handle & 0xffffffff;
  if (!at || at > ep->slot_count) return NULL;
  Slot *slot = &ep->slots[at - 1];
  return slot->value && slot->use == handle >> 32 ? slot : NULL;
}

void *slot_get(const Endpoint *ep, uint64_t handle, int code) {
  const Slot *slot = slot_of(ep, handle);
  if (slot && slot->code == code) return slot->value;
  const char *what = code == kTVMNDArrayHandle ? "array" : code == kTVMModuleHandle ? "module" : "function";
  tvm_set_error("RPCError: this session has no %s with the handle %llx", what, (unsigned long long)handle);
  return NULL;
}

void slot_drop(Endpoint *ep, uint64_t handle) {
  Slot *slot = slot_of(ep, handle);
  if (!slot) return;
  TVMValue value = {.v_handle = slot->value};
  slot->value = NULL;
  if ((size_t)(slot - ep->slots) < ep->slot_hint) ep->slot_hint = (size_t)(slot - ep->slots);
  tvm_release_value(value, slot->code);
}
