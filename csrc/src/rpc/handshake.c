/* The handshake of a session on the server's side. All fields have a fixed or limited length. */
#include "rpc.h"

#if SYSTEM_HAS_FORK
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char HELLO[8] = {'T', 'V', 'M', 'R', 'P', 'C', '1', '\n'};

enum { VERSION_AT = 6 };

static int wait_until(int fd, short events, double deadline) {
  for (;;) {
    double left = deadline - tvm_now();
    struct pollfd one = {fd, events, 0};
    int ready = left > 0 ? poll(&one, 1, (int)(left * 1e3) + 1) : 0;
    if (ready > 0) return 0;
    if (ready == 0) return tvm_error("the other side did not respond in time");
    if (errno != EINTR) return tvm_error("%s", strerror(errno));
  }
}

int socket_read(int fd, void *to, size_t size, double deadline) {
  for (char *at = to; size;) {
    if (wait_until(fd, POLLIN, deadline)) return -1;
    ssize_t got = recv(fd, at, size, MSG_DONTWAIT);
    if (got == 0) return tvm_error("the other side closed the connection");
    if (got < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return tvm_error("%s", strerror(errno));
    if (got > 0) {
      at += got;
      size -= (size_t)got;
    }
  }
  return 0;
}

int socket_write(int fd, const void *from, size_t size, double deadline) {
  for (const char *at = from; size;) {
    if (wait_until(fd, POLLOUT, deadline)) return -1;
    ssize_t done = send(fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (done < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return tvm_error("%s", strerror(errno));
    if (done > 0) {
      at += done;
      size -= (size_t)done;
    }
  }
  return 0;
}

int random_bytes(unsigned char *out, size_t size) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  size_t done = 0;
  while (fd >= 0 && done < size) {
    ssize_t got = read(fd, out + done, size - done);
    if (got <= 0 && errno != EINTR) break;
    if (got > 0) done += (size_t)got;
  }
  if (fd >= 0) close(fd);
  return done == size ? 0 : tvm_error("cannot read random numbers from /dev/urandom: %s", strerror(errno));
}

void server_log(const ServerOptions *options, const char *format, ...) {
  if (options->silent) return;
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "RPCServer: %s\n", text);
}

void make_proof(const ServerOptions *options, const char *role, const unsigned char *client, const unsigned char *server,
                const char *key, unsigned char out[SHA256_BYTES]) {
  HashPart parts[] = {{role, strlen(role)}, {client, NONCE}, {server, NONCE}, {key, strlen(key)}};
  hmac_sha256(options->secret, options->secret_size, parts, 4, out);
}

/* Parses "client:KEY -timeout=SECONDS". */
static int read_key(Handshake *shaken, const char *key) {
  char *blank = strchr(shaken->key, ' ');
  size_t length = blank ? (size_t)(blank - shaken->key) : strlen(shaken->key);
  const char *given = blank ? strstr(blank, "-timeout=") : NULL;
  char *end = NULL;
  shaken->seconds = given ? strtod(given + strlen("-timeout="), &end) : 0;
  if (given && (!isfinite(shaken->seconds) || shaken->seconds < 0 || (*end && *end != ' '))) return REFUSED_KEY;
  bool same = length == strlen("client:") + strlen(key) && !strncmp(shaken->key, "client:", strlen("client:")) &&
              !strncmp(shaken->key + strlen("client:"), key, strlen(key));
  return same ? REFUSED_NOT : REFUSED_KEY;
}

int handshake_read(int fd, const ServerOptions *options, const char *key, Handshake *out) {
  double deadline = tvm_now() + HANDSHAKE_SECONDS;
  unsigned char head[sizeof HELLO + NONCE], proof[SHA256_BYTES], wanted[SHA256_BYTES];
  uint32_t flags = options->secret_size ? 1 : 0, length;
  memset(out, 0, sizeof *out);
  if (socket_read(fd, head, sizeof head, deadline) || memcmp(head, HELLO, VERSION_AT)) return REFUSED_BROKEN;
  memcpy(out->client, head + sizeof HELLO, NONCE);
  if (random_bytes(out->server, NONCE)) return REFUSED_BROKEN;
  unsigned char answer[sizeof HELLO + 4 + NONCE];
  memcpy(answer, HELLO, sizeof HELLO);
  memcpy(answer + sizeof HELLO, &flags, 4);
  memcpy(answer + sizeof HELLO + 4, out->server, NONCE);
  if (socket_write(fd, answer, sizeof answer, deadline)) return REFUSED_BROKEN;
  if (memcmp(head, HELLO, sizeof HELLO)) return REFUSED_BROKEN; /* the client has another version; it has received ours */
  if (socket_read(fd, proof, sizeof proof, deadline) || socket_read(fd, &length, 4, deadline) || length > KEY_ROOM ||
      socket_read(fd, out->key, length, deadline))
    return REFUSED_BROKEN;
  if (options->secret_size) {
    make_proof(options, "tvm rpc client", out->client, out->server, out->key, wanted);
    if (strlen(out->key) != length || !same_bytes(proof, wanted, sizeof proof)) return REFUSED_SECRET;
  }
  return read_key(out, key);
}

/* Checks the proxy's first reply, in which both sides must agree whether a secret is used. */
static int check_answer(const unsigned char *answer, const ServerOptions *options) {
  uint32_t flags;
  memcpy(&flags, answer + sizeof HELLO, 4);
  if (memcmp(answer, HELLO, sizeof HELLO)) return tvm_error("it is not an RPC proxy of this version");
  if (flags == 2) return tvm_error("it rejects this address after too many failed handshakes or connections");
  if (flags == 1 && !options->secret_size) return tvm_error("it requires a secret, but this server has none");
  return flags == (options->secret_size ? 1u : 0u) ? 0 : tvm_error("it does not use a secret, but this server requires one");
}

int handshake_call(int fd, const ServerOptions *options, const char *name) {
  enum { CALL_SECONDS = 3, MOST_TEXT = 4096 };
  double deadline = tvm_now() + CALL_SECONDS;
  unsigned char head[sizeof HELLO + NONCE], answer[sizeof HELLO + 4 + NONCE], proof[SHA256_BYTES] = {0}, last[56];
  unsigned char *ours = head + sizeof HELLO, *theirs = answer + sizeof HELLO + 4;
  char text[MOST_TEXT + 1] = "";
  uint32_t length = (uint32_t)strlen(name), status;
  memcpy(head, HELLO, sizeof HELLO);
  if (random_bytes(ours, NONCE) || socket_write(fd, head, sizeof head, deadline)) return -1;
  if (socket_read(fd, answer, sizeof answer, deadline) || check_answer(answer, options)) return -1;
  if (options->secret_size) make_proof(options, "tvm rpc client", ours, theirs, name, proof);
  if (socket_write(fd, proof, sizeof proof, deadline) || socket_write(fd, &length, 4, deadline) ||
      socket_write(fd, name, length, deadline) || socket_read(fd, last, sizeof last, deadline))
    return -1;
  memcpy(&status, last, 4);
  memcpy(&length, last + 52, 4);
  if (length > MOST_TEXT) return tvm_error("it is not an RPC proxy of this version");
  if (socket_read(fd, text, length, deadline)) return -1;
  if (status) return tvm_error("it rejects this server: %.200s", text);
  if (options->secret_size) make_proof(options, "tvm rpc server", ours, theirs, name, proof);
  return !options->secret_size || same_bytes(proof, last + 4, sizeof proof) ? 0 : tvm_error("it did not prove that it has the secret");
}

int handshake_answer(int fd, const ServerOptions *options, const Handshake *shaken, int refusal, const char *text) {
  unsigned char answer[4 + SHA256_BYTES + 8 + 8 + 4] = {0};
  uint32_t status = (uint32_t)refusal, length = (uint32_t)strlen(text);
  uint64_t max_message = options->max_message;
  memcpy(answer, &status, 4);
  if (!refusal && options->secret_size) make_proof(options, "tvm rpc server", shaken->client, shaken->server, shaken->key, answer + 4);
  memcpy(answer + 36, &shaken->seconds, 8);
  memcpy(answer + 44, &max_message, 8);
  memcpy(answer + 52, &length, 4);
  double deadline = tvm_now() + HANDSHAKE_SECONDS;
  return socket_write(fd, answer, sizeof answer, deadline) || socket_write(fd, text, length, deadline) ? -1 : 0;
}

void handshake_turn_away(int fd) {
  unsigned char answer[sizeof HELLO + 4 + NONCE] = {0};
  uint32_t away = 2;
  memcpy(answer, HELLO, sizeof HELLO);
  memcpy(answer + sizeof HELLO, &away, 4);
  send(fd, answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL);
}
#endif
