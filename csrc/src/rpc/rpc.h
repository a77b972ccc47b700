/* RPC sessions over a socket: declarations that the files share. docs/rpc.md describes the protocol. */
#ifndef TVM_SRC_RPC_RPC_H_
#define TVM_SRC_RPC_RPC_H_

#include "../core/core.h"

enum { RPC_RETURN = 1, RPC_ERROR, RPC_CALL, RPC_FUNCTION, RPC_FREE, RPC_COPY_TO, RPC_COPY_FROM, RPC_DATA, RPC_CLOSE, RPC_KINDS };
enum { RPC_MAGIC = 0x4D565452, RPC_HEAD = 16, RPC_MOST_VALUES = 1024, RPC_MOST_DIMS = 32, RPC_MOST_DEPTH = 32, RPC_STAGE = 4096 };
#define RPC_COPY_PIECE ((size_t)16 << 20)
/* Set in a handle that belongs to the receiver of the message. */
#define RPC_YOURS ((uint64_t)1 << 63)

/* ---- buffers of outgoing and incoming messages ---- */
typedef struct { unsigned char *data; size_t size, room; bool failed; } Bytes;
void bytes_put(Bytes *bytes, const void *data, size_t size);
void bytes_u32(Bytes *bytes, uint32_t value);
void bytes_u64(Bytes *bytes, uint64_t value);
/* Appends a length, the text and a null character, so that the receiver can use the text in place. */
void bytes_text(Bytes *bytes, const char *text, size_t size);

typedef struct { const unsigned char *at, *end; } Cursor;
int cursor_take(Cursor *cursor, const void **out, size_t size);
int cursor_u32(Cursor *cursor, uint32_t *out);
int cursor_u64(Cursor *cursor, uint64_t *out);
int cursor_text(Cursor *cursor, const char **out, size_t *out_size);
/* Reports an error if the message has unread bytes. */
int cursor_end(const Cursor *cursor);

/* ---- one end of a session ---- */
typedef struct { int code; void *value; uint32_t use; } Slot;
typedef struct Endpoint {
  atomic_int refs;
  int number; /* number of the session in this process; -1 on the server's side */
  int fd;
  bool serves, measure_only, dead;
  char why[256]; /* the error that ended the session */
  uint64_t max_message;
  double deadline, seconds; /* 0: no limit */
  pthread_mutex_t lock;     /* recursive, because a callback may call a remote function */
  int depth;
  Slot *slots; /* the values for which the other side has handles */
  size_t slot_count, slot_hint; /* no slot before the hint is free */
  pthread_mutex_t free_lock;
  uint64_t *frees; /* handles of the other side that will be released with the next message */
  size_t free_count, free_room;
  StringMap functions; /* handles of server functions by name */
  unsigned char stage[RPC_STAGE];
  size_t stage_at, stage_end;
  unsigned char *shared; /* memory shared with the other side */
  bool not_shared;       /* shared memory was tried and is not available */
} Endpoint;

Endpoint *endpoint_new(int fd, bool serves, uint64_t max_message, double seconds);
void endpoint_retain(Endpoint *ep);
void endpoint_release(Endpoint *ep);
/* Ends the session with an error, which every later use of the session also reports. Always returns -1. */
int endpoint_fail(Endpoint *ep, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- frames ---- */
int frame_send(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size);
int frame_head(Endpoint *ep, uint32_t *kind, uint64_t *length);
int frame_read(Endpoint *ep, void *to, size_t size);
int frame_skip(Endpoint *ep, uint64_t size);
/* Reads the rest of a message; memory is allocated only for data that has arrived. The caller frees it. */
int frame_body(Endpoint *ep, uint64_t length, unsigned char **out);

/* ---- handles ---- */
int slot_add(Endpoint *ep, void *value, int code, uint64_t *out); /* takes ownership of the reference */
void *slot_get(const Endpoint *ep, uint64_t handle, int code);    /* NULL with the last error set */
void slot_drop(Endpoint *ep, uint64_t handle);

/* ---- values ---- */
enum { RPC_MOST_LENT = 64 };
typedef struct { uint64_t handles[RPC_MOST_LENT]; int count; } Lent;
/* Appends values to a message. Arrays that are lent for the duration of a call are recorded in `lent`. */
int values_put(Endpoint *ep, Bytes *out, const TVMValue *values, const int *codes, int n, Lent *lent);
void lent_drop(Endpoint *ep, const Lent *lent);
typedef struct { TVMValue *values; int *codes; TVMByteArray *bytes; int count; } Values;
/* Reads values from a message. The caller owns them, except text and bytes, which point into the message. */
int values_take(Endpoint *ep, Cursor *cursor, Values *out);
void values_free(Values *values);

/* ---- sending and serving requests ---- */
typedef struct { uint32_t kind; unsigned char *body; uint64_t length; } Message;
/* Sends a request and serves the other side until the reply arrives: a RETURN message, whose body the caller frees. */
int endpoint_ask(Endpoint *ep, uint32_t kind, const Bytes *body, const void *more, size_t more_size, Message *answer);
/* Does the same for RPC_COPY_FROM, whose reply is written to `to`. */
int endpoint_fetch(Endpoint *ep, const Bytes *body, void *to, size_t size);
/* Serves requests until the other side closes; returns 0, or -1 if the other side violates the protocol. */
int endpoint_serve(Endpoint *ep);

/* ---- functions and modules of the other side ---- */
int remote_function(Endpoint *ep, uint64_t handle, TVMFunctionHandle *out);
int remote_module(Endpoint *ep, uint64_t handle, TVMModuleHandle *out);
/* Returns the remote handle of a function or module of this session, 0 if it does not belong to the session. */
uint64_t remote_function_handle(const Endpoint *ep, TVMFunctionHandle func);
uint64_t remote_module_handle(const Endpoint *ep, TVMModuleHandle mod);
void remote_forget(Endpoint *ep, uint64_t handle);
/* Calls a function that every server provides. */
int remote_call(Endpoint *ep, const char *name, const TVMValue *args, const int *codes, int n, TVMValue *ret, int *ret_code);

/* ---- shared memory, for two sides on the same machine ---- */
/* Copies to or from a remote array through shared memory; returns 1 if the copy has to use the socket. */
int shared_copy(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, void *bytes, size_t nbytes, bool is_back);
void shared_close(Endpoint *ep);
int shared_take(int64_t pid, int64_t file, const TVMByteArray *token, bool *found);
int shared_serve(DLTensor *array, bool is_back);

/* ---- additional services of a session: functions of the server process ---- */
typedef struct { const char *folder; uint64_t max_files; } SessionFiles;
int rpc_register_session(const SessionFiles *files);
bool rpc_is_measuring(const char *name);
/* Releases the device types of a session number. */
void tvm_rpc_unlist(int number);
/* Registers remote devices, functions and modules with core. */
void tvm_rpc_start(void);

/* ==== the server ==== */
enum { KEY_ROOM = 1024, NONCE = 32, HANDSHAKE_SECONDS = 20, RETRY_SECONDS = 1 };
typedef TVMRPCServerOptions ServerOptions;

/* ---- sockets with deadlines, which limit the time that a silent peer can block ---- */
int socket_read(int fd, void *to, size_t size, double deadline);
int socket_write(int fd, const void *from, size_t size, double deadline);
int random_bytes(unsigned char *out, size_t size);
void server_log(const ServerOptions *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Computes HMAC(secret, role, both nonces, key). */
void make_proof(const ServerOptions *options, const char *role, const unsigned char *client, const unsigned char *server,
                const char *key, unsigned char out[SHA256_BYTES]);

/* ---- handshake: returns 0 or the reason for the rejection ---- */
enum { REFUSED_NOT = 0, REFUSED_SECRET, REFUSED_KEY, REFUSED_DEVICE, REFUSED_BROKEN };
typedef struct { unsigned char client[NONCE], server[NONCE]; char key[KEY_ROOM + 1]; double seconds; } Handshake;
/* Reads the client's part up to its key, which must equal `key`. */
int handshake_read(int fd, const ServerOptions *options, const char *key, Handshake *out);
/* Performs the client's part of a handshake, which a server uses to connect to a proxy. */
int handshake_call(int fd, const ServerOptions *options, const char *name);
int handshake_answer(int fd, const ServerOptions *options, const Handshake *shaken, int refusal, const char *text);
void handshake_turn_away(int fd);

/* ---- tracker ---- */
typedef struct { int fd; double next_try; char said[256]; /* the last reported error */ } Tracker;
/* Registers the server with the tracker under a match key; returns -1 if the tracker cannot be reached (retried later). */
int tracker_offer(Tracker *tracker, const ServerOptions *options, int port, const char *match_key);
/* Returns 1 while no client has the match key, 0 when a client has it, -1 when the connection to the tracker is lost. */
int tracker_waits(Tracker *tracker, const ServerOptions *options, const char *match_key);
void tracker_close(Tracker *tracker);
/* Connects within a few seconds; returns the socket or -1. */
int socket_connect(const char *host, int port);
/* Disables Nagle's algorithm and enables keep-alive, so that a vanished peer is detected after about half a minute. */
void socket_keep_alive(int fd);

/* ---- proxy ---- */
/* Opens the connection on which the proxy passes a client; returns 0, or -1 if the proxy cannot be reached. */
int proxy_call(Tracker *proxy, const ServerOptions *options);

#endif /* TVM_SRC_RPC_RPC_H_ */
