/* A server's connection to its tracker: Apache TVM's messages (a length and JSON), after a proof of the secret if there
 * is one. */
#include "rpc.h"

#if SYSTEM_HAS_FORK
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRACKER_MAGIC = 0x2F271, TRACKER_SECRET_MAGIC = 0x2F272, CODE_PUT = 3, CODE_UPDATE_INFO = 5, CODE_PENDING = 7 };
enum { TRACKER_SECONDS = 3, MOST_REPLY = 1 << 20 };

void tracker_close(Tracker *tracker) {
  if (tracker->fd >= 0) close(tracker->fd);
  tracker->fd = -1;
}

void socket_keep_alive(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
#ifdef TCP_USER_TIMEOUT
  int idle = 15, interval = 5, count = 3, most = 30000;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
#endif
}

int socket_connect(const char *host, int port) {
  char number[16];
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
  struct timeval limit = {TRACKER_SECONDS, 0};
  snprintf(number, sizeof number, "%d", port);
  if (getaddrinfo(host, number, &hints, &found)) return -1;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    socket_keep_alive(fd);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also limits connect */
    if (connect(fd, found->ai_addr, found->ai_addrlen)) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  return fd;
}

/* Exchanges proofs of the secret with the tracker, or checks that neither side has a secret. */
static int greet(int fd, const ServerOptions *options) {
  double deadline = tvm_now() + TRACKER_SECONDS;
  int32_t magic = TRACKER_MAGIC, answer;
  unsigned char theirs[NONCE], ours[NONCE + SHA256_BYTES], proof[SHA256_BYTES], wanted[SHA256_BYTES];
  if (socket_write(fd, &magic, 4, deadline) || socket_read(fd, &answer, 4, deadline)) return -1;
  if (answer == TRACKER_MAGIC && !options->secret_size) return 0;
  if (answer != TRACKER_SECRET_MAGIC || !options->secret_size)
    return tvm_error(answer == TRACKER_SECRET_MAGIC ? "the tracker requires a secret, but this server has none"
                                                    : "the tracker does not use a secret, but this server requires one");
  if (socket_read(fd, theirs, NONCE, deadline) || random_bytes(ours, NONCE)) return -1;
  make_proof(options, "tvm tracker client", ours, theirs, "", ours + NONCE);
  if (socket_write(fd, ours, sizeof ours, deadline) || socket_read(fd, proof, sizeof proof, deadline)) return -1;
  make_proof(options, "tvm tracker server", ours, theirs, "", wanted);
  return same_bytes(proof, wanted, sizeof proof) ? 0 : tvm_error("the tracker did not prove that it has the secret");
}

/* Sends a JSON request and reads the JSON reply. */
static int ask(int fd, const char *text, Json **out) {
  double deadline = tvm_now() + TRACKER_SECONDS;
  int32_t length = (int32_t)strlen(text);
  if (socket_write(fd, &length, 4, deadline) || socket_write(fd, text, (size_t)length, deadline)) return -1;
  if (socket_read(fd, &length, 4, deadline)) return -1;
  if (length < 0 || length > MOST_REPLY) return tvm_error("the tracker sent a reply of invalid length (%d bytes)", (int)length);
  char *reply = malloc((size_t)length + 1);
  int status = reply ? socket_read(fd, reply, (size_t)length, deadline) : tvm_error("out of memory");
  if (!status) status = json_parse(reply, (size_t)length, out);
  free(reply);
  return status;
}

/* Sends a request whose reply must be the number 0. */
static int tell_tracker(int fd, const char *text) {
  Json *json = NULL;
  if (ask(fd, text, &json)) return -1;
  bool fine = json->kind == JSON_INT && json->integer == 0;
  json_free(json);
  return fine ? 0 : tvm_error("the tracker rejected the server");
}

static int open_tracker(Tracker *tracker, const ServerOptions *options, int port) {
  char text[KEY_ROOM + 512], address[300] = "null";
  if (tvm_now() < tracker->next_try) return tvm_error("the last attempt to reach the tracker failed a moment ago");
  tracker->next_try = tvm_now() + RETRY_SECONDS;
  tracker->fd = socket_connect(options->tracker_host, options->tracker_port);
  if (tracker->fd < 0) return tvm_error("cannot connect to the tracker %s:%d", options->tracker_host, options->tracker_port);
  if (options->custom_addr) snprintf(address, sizeof address, "\"%.250s\"", options->custom_addr);
  snprintf(text, sizeof text, "[%d, {\"key\": \"server:%s\", \"addr\": [%s, %d]}]", CODE_UPDATE_INFO, options->key, address, port);
  return greet(tracker->fd, options) || tell_tracker(tracker->fd, text) ? -1 : 0;
}

int tracker_offer(Tracker *tracker, const ServerOptions *options, int port, const char *match_key) {
  char text[2 * KEY_ROOM + 512], address[300] = "null";
  if (options->custom_addr) snprintf(address, sizeof address, "\"%.250s\"", options->custom_addr);
  snprintf(text, sizeof text, "[%d, \"%s\", [%d, \"%s\"], %s]", CODE_PUT, options->key, port, match_key, address);
  bool fresh = tracker->fd < 0;
  if ((fresh && open_tracker(tracker, options, port)) || tell_tracker(tracker->fd, text)) {
    if (fresh && tracker->fd >= 0) server_log(options, "the tracker rejects this server: %s", TVMGetLastError());
    tracker_close(tracker);
    return -1;
  }
  if (fresh) server_log(options, "registered with the tracker %s:%d as '%s'", options->tracker_host, options->tracker_port, options->key);
  return 0;
}

int tracker_waits(Tracker *tracker, const ServerOptions *options, const char *match_key) {
  char text[32];
  (void)options;
  Json *json = NULL;
  snprintf(text, sizeof text, "[%d]", CODE_PENDING);
  if (tracker->fd < 0 || ask(tracker->fd, text, &json)) {
    tracker_close(tracker);
    return -1;
  }
  int found = 0;
  for (const Json *at = json->kind == JSON_ARRAY ? json->child : NULL; at && !found; at = at->next)
    found = at->kind == JSON_STRING && !strcmp(at->text, match_key);
  json_free(json);
  return found;
}

/* ---- proxy ---- */

static int call_proxy(Tracker *proxy, const ServerOptions *options) {
  char name[KEY_ROOM + 64];
  struct sockaddr_in there;
  socklen_t size = sizeof there;
  proxy->fd = socket_connect(options->proxy_host, options->proxy_port);
  if (proxy->fd < 0) return tvm_error("cannot connect");
  if (!options->secret_size && (getpeername(proxy->fd, (struct sockaddr *)&there, &size) || (ntohl(there.sin_addr.s_addr) >> 24) != 127))
    return tvm_error("a proxy on another machine requires a secret: set TVM_RPC_SECRET_FILE or TVM_RPC_SECRET");
  snprintf(name, sizeof name, "server:%s", options->key);
  return handshake_call(proxy->fd, options, name);
}

int proxy_call(Tracker *proxy, const ServerOptions *options) {
  if (tvm_now() < proxy->next_try) return -1;
  if (!call_proxy(proxy, options)) {
    server_log(options, "connected to the proxy %s:%d as '%s'", options->proxy_host, options->proxy_port, options->key);
    proxy->said[0] = '\0';
    return 0;
  }
  tracker_close(proxy);
  proxy->next_try = tvm_now() + RETRY_SECONDS;
  if (strncmp(proxy->said, TVMGetLastError(), sizeof proxy->said - 1)) {
    snprintf(proxy->said, sizeof proxy->said, "%s", TVMGetLastError());
    server_log(options, "the proxy %s:%d: %s", options->proxy_host, options->proxy_port, proxy->said);
  }
  return -1;
}
#endif
