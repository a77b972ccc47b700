/* Sessions over a socket: what their files share. The protocol is docs/rpc.md. */
#ifndef TVM_SRC_RPC_RPC_H_
#define TVM_SRC_RPC_RPC_H_

#include "../core/core.h"

enum { RPC_RETURN = 1, RPC_ERROR, RPC_CALL, RPC_FUNCTION, RPC_FREE, RPC_COPY_TO, RPC_COPY_FROM, RPC_DATA, RPC_CLOSE, RPC_KINDS };
enum { RPC_MAGIC = 0x4D565452, RPC_HEAD = 16, RPC_MOST_VALUES = 1024, RPC_MOST_DIMS = 32, RPC_MOST_DEPTH = 32, RPC_STAGE = 4096 };
#define RPC_COPY_PIECE ((size_t)16 << 20)
/* Set in a handle of the receiver's. */
#define RPC_YOURS ((uint64_t)1 << 63)

/* ---- bytes going out and coming in ---- */
typedef struct { unsigned char *data; size_t size, room; bool failed; } Bytes;
void bytes_put(Bytes *bytes, const void *data, size_t size);
void bytes_u32(Bytes *bytes, uint32_t value);
void bytes_u64(Bytes *bytes, uint64_t value);
/* A length, the text, and a zero, so that the receiver may use it in place. */
void bytes_text(Bytes *bytes, const char *text, size_t size);

typedef struct { const unsigned char *at, *end; } Cursor;
int cursor_take(Cursor *cursor, const void **out, size_t size);
int cursor_u32(Cursor *cursor, uint32_t *out);
int cursor_u64(Cursor *cursor, uint64_t *out);
int cursor_text(Cursor *cursor, const char **out, size_t *out_size);
/* An error if bytes remain. */
int cursor_end(const Cursor *cursor);

/* ---- one end of a session ---- */
typedef struct { int code; void *value; uint32_t use; } Slot;
typedef struct Endpoint {
  atomic_int refs;
  int number; /* of the session among those of this process; -1 where this end serves */
  int fd;
  bool serves, measure_only, dead;
  char why[256]; /* it is dead */
  uint64_t max_message;
  double deadline, seconds; /* 0: none */
  pthread_mutex_t lock;     /* recursive: a callback may call */
  int depth;
  Slot *slots; /* what the other side has handles of */
  size_t slot_count, slot_hint; /* no place before the hint is free */
  pthread_mutex_t free_lock;
  uint64_t *frees; /* handles of the other side's that are to go */
  size_t free_count, free_room;
  StringMap functions; /* handles of functions of the server by name */
  unsigned char stage[RPC_STAGE];
  size_t stage_at, stage_end;
  unsigned char *shared; /* memory that both sides have */
  bool not_shared;       /* it was tried, and there is none */
} Endpoint;

Endpoint *endpoint_new(int fd, bool serves, uint64_t max_message, double seconds);
void endpoint_retain(Endpoint *ep);
void endpoint_release(Endpoint *ep);
/* Ends the session with an error, which every later use of the session also reports. Always -1. */
int endpoint_fail(Endpoint *ep, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- frames ---- */
int frame_send(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size);
int frame_head(Endpoint *ep, uint32_t *kind, uint64_t *length);
int frame_read(Endpoint *ep, void *to, size_t size);
int frame_skip(Endpoint *ep, uint64_t size);
/* The rest of a message, of which no more is allocated than has come; the caller frees it. */
int frame_body(Endpoint *ep, uint64_t length, unsigned char **out);

/* ---- handles ---- */
int slot_add(Endpoint *ep, void *value, int code, uint64_t *out); /* takes the reference */
void *slot_get(const Endpoint *ep, uint64_t handle, int code);    /* NULL with the last error set */
void slot_drop(Endpoint *ep, uint64_t handle);

/* ---- values ---- */
enum { RPC_MOST_LENT = 64 };
typedef struct { uint64_t handles[RPC_MOST_LENT]; int count; } Lent;
/* Arrays that are lent for the time of a call are noted in `lent`, to be dropped after it. */
int values_put(Endpoint *ep, Bytes *out, const TVMValue *values, const int *codes, int n, Lent *lent);
void lent_drop(Endpoint *ep, const Lent *lent);
typedef struct { TVMValue *values; int *codes; TVMByteArray *bytes; int count; } Values;
/* Owned, but for text and bytes, which lie in the message. */
int values_take(Endpoint *ep, Cursor *cursor, Values *out);
void values_free(Values *values);

/* ---- asking and serving ---- */
typedef struct { uint32_t kind; unsigned char *body; uint64_t length; } Message;
/* Sends a request and serves the other side until its answer is there: a RETURN, whose body the caller frees. */
int endpoint_ask(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size, Message *answer);
/* The same for RPC_COPY_FROM, whose answer goes to `to`. */
int endpoint_fetch(Endpoint *ep, const Bytes *body, void *to, size_t size);
/* Serves until the other side closes; 0, or -1 where it broke the rules. */
int endpoint_serve(Endpoint *ep);

/* ---- things of the other side ---- */
int remote_function(Endpoint *ep, uint64_t handle, TVMFunctionHandle *out);
int remote_module(Endpoint *ep, uint64_t handle, TVMModuleHandle *out);
/* The handle of a function or module of this session's other side, 0 for any other. */
uint64_t remote_function_handle(const Endpoint *ep, TVMFunctionHandle func);
uint64_t remote_module_handle(const Endpoint *ep, TVMModuleHandle mod);
void remote_forget(Endpoint *ep, uint64_t handle);
/* Calls a function that every server has. */
int remote_call(Endpoint *ep, const char *name, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code);

/* ---- memory that both sides have, where they are on one machine ---- */
/* Copies to an array of the other side, or back; 1 where it has to go through the socket. */
int shared_copy(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, void *bytes, size_t nbytes, bool is_back);
void shared_close(Endpoint *ep);
int shared_take(int64_t pid, int64_t file, const TVMByteArray *token, bool *found);
int shared_serve(DLTensor *array, bool is_back);

/* ---- what a session can do beside calling: functions of the serving process ---- */
typedef struct { const char *folder; uint64_t max_files; } SessionFiles;
int rpc_register_session(const SessionFiles *files);
bool rpc_is_measuring(const char *name);
/* Ends the devices of the session of this number. */
void tvm_rpc_unlist(int number);
/* Registers the devices, functions and modules of other machines with core. */
void tvm_rpc_start(void);

/* ==== the server ==== */
enum { KEY_ROOM = 1024, NONCE = 32, HANDSHAKE_SECONDS = 20, RETRY_SECONDS = 1 };
typedef TVMRPCServerOptions ServerOptions;

/* ---- sockets with deadlines: a peer that says nothing costs no more than that ---- */
int socket_read(int fd, void *to, size_t size, double deadline);
int socket_write(int fd, const void *from, size_t size, double deadline);
int random_bytes(unsigned char *out, size_t size);
void server_log(const ServerOptions *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* HMAC(secret, role, both random numbers, the key). */
void make_proof(const ServerOptions *options, const char *role, const unsigned char *client, const unsigned char *server,
                const char *key, unsigned char out[SHA256_BYTES]);

/* ---- handshake: 0, or the kind of refusal ---- */
enum { REFUSED_NOT = 0, REFUSED_SECRET, REFUSED_KEY, REFUSED_DEVICE, REFUSED_BROKEN };
typedef struct { unsigned char client[NONCE], server[NONCE]; char key[KEY_ROOM + 1]; double seconds; } Handshake;
/* The client's part up to its key, which must be `key`. */
int handshake_read(int fd, const ServerOptions *options, const char *key, Handshake *out);
/* The client's part of a handshake, as a server that calls a proxy plays it. */
int handshake_call(int fd, const ServerOptions *options, const char *name);
int handshake_answer(int fd, const ServerOptions *options, const Handshake *shaken, int refusal, const char *text);
void handshake_turn_away(int fd);

/* ---- tracker ---- */
typedef struct { int fd; double next_try; char said[256]; /* why it could not be reached */ } Tracker;
/* Offers the server under a match key; -1 while the tracker cannot be reached, and then it is tried again later. */
int tracker_offer(Tracker *tracker, const ServerOptions *options, int port, const char *match_key);
/* 1 while no client has the match key, 0 when a client has it, -1 when the tracker is gone. */
int tracker_waits(Tracker *tracker, const ServerOptions *options, const char *match_key);
void tracker_close(Tracker *tracker);
/* A connection that was made within some seconds, or -1. */
int socket_connect(const char *host, int port);
/* Messages go at once, and a peer that has vanished without a word is noticed after about half a minute. */
void socket_keep_alive(int fd);

/* ---- proxy ---- */
/* The connection on which a client may come; 0, or -1 while the proxy cannot be reached. */
int proxy_call(Tracker *proxy, const ServerOptions *options);

#endif /* TVM_SRC_RPC_RPC_H_ */
