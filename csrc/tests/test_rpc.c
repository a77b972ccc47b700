/* RPC sessions with hostile peers: damaged messages to a server, a client and a handshake, all in this process so that
 * the sanitizers can check them. TVM_FUZZ_CASES is the number of cases of each (2000), TVM_TEST_SEED the random seed. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/rpc/rpc.h"
#include "check.h"

/* ---- random numbers, and message contents ---- */

static uint64_t state;

static uint32_t draw(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % below;
}

static void put(Bytes *out, const void *data, size_t size) {
  bytes_put(out, data, size);
  CHECK(!out->failed);
}

static int64_t number(void) {
  static const int64_t some[] = {0, 1, 2, 7, 8, 64, 4096, -1, -7, INT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
  return draw(3) ? some[draw(8)] : some[draw(sizeof some / sizeof *some)];
}

/* Returns a handle; existing handles have small indices and use count 1. */
static uint64_t handle(void) {
  uint64_t mine = draw(2) ? RPC_YOURS : 0;
  return mine | (uint64_t)(1 + draw(8) / 7) << 32 | (1 + draw(12));
}

static void put_text(Bytes *out, const char *text) { bytes_text(out, text, strlen(text)); }

static void put_value(Bytes *out) {
  static const char *const texts[] = {"", ".", "..", "a", "a/b", "/etc/passwd", "a/../../b", "run", "[[]]", "{\"nodes\":[]}", "x.so", "\n"};
  static const uint32_t codes[] = {0, 1, 2, 4, 5, 6, 9, 10, 11, 11, 12, 13, 13, 15, 3, 7, 8, 14, 99};
  uint32_t code = codes[draw(sizeof codes / sizeof *codes)], ndim = draw(4);
  int64_t value = number();
  DLDevice device = {draw(4) ? kDLCPU : (int32_t)number(), (int32_t)draw(2)};
  DLDataType dtype = {(uint8_t)draw(8), (uint8_t)(8 << draw(4)), 1};
  bytes_u32(out, code);
  if (code == kTVMStr || code == kTVMBytes) put_text(out, texts[draw(sizeof texts / sizeof *texts)]);
  else if (code == kTVMModuleHandle || code == kTVMPackedFuncHandle) bytes_u64(out, handle());
  else if (code == kTVMDevice) put(out, &device, 8);
  else if (code == kTVMNDArrayHandle) {
    bytes_u64(out, handle());
    put(out, &device, 8);
    put(out, &dtype, 4);
    bytes_u32(out, draw(30) ? ndim : (uint32_t)number());
    for (uint32_t i = 0; i < ndim; ++i) bytes_u64(out, (uint64_t)number());
    bytes_u64(out, draw(3) ? 0 : (uint64_t)number());
  } else if (code != kTVMNullptr) put(out, &value, 8);
}

static void put_values(Bytes *out) {
  uint32_t count = draw(5);
  bytes_u32(out, draw(40) ? count : (uint32_t)number());
  for (uint32_t i = 0; i < count; ++i) put_value(out);
}

static void put_function(Bytes *out) {
  static const char *const names[] = {
      "tvm.rpc.server.alloc", "tvm.rpc.server.copy", "tvm.rpc.server.sync", "tvm.rpc.server.upload", "tvm.rpc.server.download",
      "tvm.rpc.server.remove", "tvm.rpc.server.listdir", "tvm.rpc.server.load_module", "tvm.rpc.server.ImportModule",
      "tvm.rpc.server.workpath", "tvm.rpc.server.share", "tvm.rpc.server.copy_shared", "tvm.graph_executor.create", "tvm.graph_executor_factory.create", "runtime.SystemLib",
      "runtime.GetDeviceAttr", "runtime.module.loadbinary_opencl", "cache_flush_cpu_non_first_arg", "__tvm_set_device", "nothing"};
  bytes_u64(out, draw(8) ? 0 : handle());
  put_text(out, names[draw(sizeof names / sizeof *names)]);
}

/* Writes a call of alloc that succeeds, so that later messages can refer to arrays. */
static void put_alloc(Bytes *out) {
  DLDevice cpu = {kDLCPU, 0};
  bytes_u64(out, (uint64_t)1 << 32 | 1);
  bytes_u32(out, 2);
  bytes_u32(out, kTVMDevice);
  put(out, &cpu, 8);
  bytes_u32(out, kTVMArgInt);
  bytes_u64(out, 64);
}

static void put_body(Bytes *out, uint32_t kind) {
  switch (kind) {
    case RPC_CALL:
      bytes_u64(out, handle() & ~RPC_YOURS);
      put_values(out);
      break;
    case RPC_FUNCTION: put_function(out); break;
    case RPC_FREE:
      for (uint32_t i = draw(3); i; --i) bytes_u64(out, handle() & ~RPC_YOURS);
      break;
    case RPC_COPY_TO: case RPC_COPY_FROM:
      bytes_u64(out, handle() & ~RPC_YOURS);
      bytes_u64(out, (uint64_t)number());
      if (kind == RPC_COPY_FROM) bytes_u64(out, (uint64_t)number());
      else put(out, "0123456789abcdef", draw(17));
      break;
    case RPC_RETURN: put_values(out); break;
    case RPC_ERROR: put_text(out, draw(2) ? "ValueError: no" : "no"); break;
    default: put(out, "payload", draw(8)); break;
  }
}

static void put_frame(Bytes *out, uint32_t kind, const Bytes *body) {
  bytes_u32(out, draw(200) ? RPC_MAGIC : draw(1 << 30));
  bytes_u32(out, draw(100) ? kind : (uint32_t)number());
  bytes_u64(out, draw(60) ? body->size : (uint64_t)number());
  put(out, body->data, body->size);
}

static void put_message(Bytes *out, uint32_t kind) {
  Bytes body = {NULL, 0, 0, false};
  put_body(&body, kind);
  for (uint32_t i = draw(6) ? 0 : draw(4); i && body.size; --i) body.data[draw((uint32_t)body.size)] = (unsigned char)draw(256);
  if (!draw(20) && body.size) body.size -= 1 + draw((uint32_t)body.size);
  put_frame(out, kind, &body);
  free(body.data);
}

/* ---- hostile peers ---- */

typedef struct { int fd; Bytes bytes; } Peer;

/* Sends all its data, and reads incoming data until the other side has finished. */
static void *be_the_peer(void *given) {
  Peer *peer = given;
  char waste[4096];
  for (size_t done = 0; done < peer->bytes.size;) {
    ssize_t sent = send(peer->fd, peer->bytes.data + done, peer->bytes.size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) done += (size_t)sent;
    else if (sent < 0 && errno != EAGAIN) break;
    if (recv(peer->fd, waste, sizeof waste, MSG_DONTWAIT) == 0) break;
  }
  shutdown(peer->fd, SHUT_WR);
  while (recv(peer->fd, waste, sizeof waste, 0) > 0) {}
  close(peer->fd);
  return NULL;
}

static int meet(Peer *peer, pthread_t *thread) {
  int fds[2];
  OK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
  peer->fd = fds[1];
  OK(pthread_create(thread, NULL, be_the_peer, peer));
  return fds[0];
}

static void serve_hostile(void) {
  Peer peer = {.bytes = {NULL, 0, 0, false}};
  pthread_t thread;
  TVMRPCServerOptions options = {.silent = 1, .max_message = 65536, .watch_fd = -1, .measure_only = !draw(10)};
  Bytes first = {NULL, 0, 0, false};
  bytes_u64(&first, 0);
  put_text(&first, "tvm.rpc.server.alloc");
  put_frame(&peer.bytes, RPC_FUNCTION, &first);
  for (uint32_t i = draw(4); i; --i) {
    first.size = 0;
    put_alloc(&first);
    put_frame(&peer.bytes, RPC_CALL, &first);
  }
  static const uint32_t kinds[] = {RPC_CALL, RPC_CALL, RPC_CALL, RPC_FUNCTION, RPC_FUNCTION, RPC_FREE, RPC_COPY_TO, RPC_COPY_FROM};
  for (uint32_t i = draw(24); i; --i) put_message(&peer.bytes, draw(50) ? kinds[draw(8)] : 1 + draw(9));
  free(first.data);
  int fd = meet(&peer, &thread);
  TVMRPCServe(fd, &options);
  OK(pthread_join(thread, NULL));
  free(peer.bytes.data);
}

/* Runs a client that sends the usual requests to a server with arbitrary replies. */
static void ask_hostile(void) {
  Peer peer = {.bytes = {NULL, 0, 0, false}};
  pthread_t thread;
  static const uint32_t kinds[] = {RPC_RETURN, RPC_RETURN, RPC_RETURN, RPC_RETURN, RPC_ERROR, RPC_CALL, RPC_FREE, RPC_DATA};
  for (uint32_t i = draw(16); i; --i) put_message(&peer.bytes, kinds[draw(8)]);
  int session, fd = meet(&peer, &thread);
  OK(TVMRPCSessionOpen(fd, 65536, 0, &session));
  TVMFunctionHandle func = NULL;
  int64_t shape = 16;
  TVMArrayHandle array = NULL;
  DLDevice device = {kDLCPU + 128 * (session + 1), 0};
  char bytes[16];
  for (int i = 0; i < 4; ++i) {
    TVMValue args[1] = {{.v_int64 = 3}}, ret = {.v_int64 = 0};
    int codes[1] = {kTVMArgInt}, code = kTVMNullptr;
    if (!TVMRPCSessionFunction(session, "f", &func) && func) {
      if (!TVMFuncCall(func, args, codes, 1, &ret, &code)) {
        if (code == kTVMModuleHandle) {
          TVMFunctionHandle inner = NULL;
          if (!TVMModGetFunction(ret.v_handle, "g", 0, &inner)) TVMFuncFree(inner);
        }
        tvm_release_value(ret, code);
      }
      TVMFuncFree(func);
    }
    if (!TVMArrayAlloc(&shape, 1, (DLDataType){kDLUInt, 8, 1}, device, &array)) {
      TVMArrayCopyFromBytes(array, bytes, 16);
      TVMArrayCopyToBytes(array, bytes, 16);
      TVMArrayFree(array);
    }
  }
  TVMRPCSessionFree(session);
  OK(pthread_join(thread, NULL));
  free(peer.bytes.data);
}

static void greet_hostile(void) {
  Peer peer = {.bytes = {NULL, 0, 0, false}};
  pthread_t thread;
  TVMRPCServerOptions options = {.silent = 1, .secret = "secret", .secret_size = draw(2) ? 6 : 0, .watch_fd = -1};
  unsigned char proof[64] = {0};
  put(&peer.bytes, "TVMRPC1\n", 8);
  put(&peer.bytes, proof, 64);
  bytes_u32(&peer.bytes, draw(4) ? 11 : (uint32_t)number());
  put(&peer.bytes, "client:k -timeout=nan", draw(22));
  for (uint32_t i = draw(3); i; --i) peer.bytes.data[draw((uint32_t)peer.bytes.size)] = (unsigned char)draw(256);
  Handshake shaken;
  int fd = meet(&peer, &thread), refusal = handshake_read(fd, &options, "k", &shaken);
  CHECK(!options.secret_size || refusal); /* a wrong proof is rejected */
  close(fd);
  OK(pthread_join(thread, NULL));
  free(peer.bytes.data);
}

/* Runs a server that connects to a proxy with arbitrary replies. */
static void call_hostile(void) {
  Peer peer = {.bytes = {NULL, 0, 0, false}};
  pthread_t thread;
  TVMRPCServerOptions options = {.silent = 1, .secret = "secret", .secret_size = draw(2) ? 6 : 0, .watch_fd = -1};
  unsigned char nothing[48] = {0};
  put(&peer.bytes, "TVMRPC1\n", 8);
  bytes_u32(&peer.bytes, draw(8) ? options.secret_size != 0 : (uint32_t)number());
  put(&peer.bytes, nothing, NONCE);
  bytes_u32(&peer.bytes, draw(4) ? 0 : (uint32_t)number());
  put(&peer.bytes, nothing, 48);
  bytes_u32(&peer.bytes, draw(4) ? 5 : (uint32_t)number());
  put(&peer.bytes, "proxy and more", draw(15));
  for (uint32_t i = draw(3); i; --i) peer.bytes.data[draw((uint32_t)peer.bytes.size)] = (unsigned char)draw(256);
  int fd = meet(&peer, &thread), status = handshake_call(fd, &options, "server:k");
  CHECK(!options.secret_size || status); /* a wrong proof is rejected */
  close(fd);
  OK(pthread_join(thread, NULL));
  free(peer.bytes.data);
}

/* Runs a server whose tracker sends arbitrary replies. */
static void offer_hostile(void) {
  static const char *const replies[] = {"0", "-1", "[]", "[\"k:1\", \"k\"]", "{}", "[[[[", "\"", "[null, 1e999]", "", "[\"\\u00", "0 0"};
  Peer peer = {.bytes = {NULL, 0, 0, false}};
  pthread_t thread;
  TVMRPCServerOptions options = {.silent = 1, .key = "k", .tracker_host = "127.0.0.1", .watch_fd = -1};
  for (uint32_t i = 1 + draw(4); i; --i) {
    const char *text = replies[draw(3) ? 0 : draw(sizeof replies / sizeof *replies)];
    bytes_u32(&peer.bytes, draw(6) ? (uint32_t)strlen(text) : (uint32_t)number());
    put(&peer.bytes, text, strlen(text));
  }
  if (!draw(3)) peer.bytes.data[draw((uint32_t)peer.bytes.size)] = (unsigned char)draw(256);
  Tracker tracker = {.fd = meet(&peer, &thread), .next_try = tvm_now() + 1e6}; /* no second attempt to connect */
  for (int i = 0; i < 2 && tracker.fd >= 0; ++i) {
    tracker_offer(&tracker, &options, 1, "k:1");
    tracker_waits(&tracker, &options, "k:1");
  }
  tracker_close(&tracker);
  OK(pthread_join(thread, NULL));
  free(peer.bytes.data);
}

static int cases(void) {
  const char *asked = getenv("TVM_FUZZ_CASES");
  return asked && *asked ? atoi(asked) : 2000;
}

#define FUZZ(name, act)                              \
  static void name(void) {                           \
    for (int i = 0; i < cases(); ++i) {              \
      alarm(60); /* a hang is a failure */           \
      act();                                         \
    }                                                \
    alarm(0);                                        \
  }
FUZZ(test_damaged_messages_into_a_server, serve_hostile)
FUZZ(test_damaged_answers_into_a_client, ask_hostile)
FUZZ(test_damaged_handshakes, greet_hostile)
FUZZ(test_damaged_answers_of_a_proxy, call_hostile)
FUZZ(test_damaged_answers_of_a_tracker, offer_hostile)

static void test_nothing_was_written_outside_the_folder(void) {
  CHECK(access("../b", F_OK) && access("../a", F_OK));
}

int main(void) {
  const char *seed = getenv("TVM_TEST_SEED");
  state = 0x9e3779b97f4a7c15u ^ (seed && *seed ? strtoull(seed, NULL, 10) + 1 : 1);
  char folder[] = "/tmp/tvm_fuzz_XXXXXX";
  CHECK(mkdtemp(folder) && !chdir(folder) && !mkdir("inside", 0700) && !chdir("inside"));
  RUN(test_damaged_messages_into_a_server);
  RUN(test_damaged_answers_into_a_client);
  RUN(test_damaged_handshakes);
  RUN(test_damaged_answers_of_a_proxy);
  RUN(test_damaged_answers_of_a_tracker);
  RUN(test_nothing_was_written_outside_the_folder);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) ? 1 : 0;
}
