/* tvm_rpc_server: gives clients of tvm.rpc access to this machine's devices. docs/rpc.md documents the protocol. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tvm_runtime.h"

static const char USAGE[] =
    "usage: tvm_rpc_server [options]\n"
    "  --host ADDRESS          address to listen on (127.0.0.1); other addresses require a secret\n"
    "  --port PORT             first port to try (9090); 0: any free port\n"
    "  --port-end PORT         end of the port range, exclusive (9199)\n"
    "  --tracker HOST:PORT     register the device with a tracker\n"
    "  --proxy HOST:PORT       connect to a proxy instead of listening\n"
    "  --key KEY               device key by which clients request this server\n"
    "  --custom-addr ADDRESS   address that the tracker gives to clients\n"
    "  --custom-port PORT      port that the tracker gives to clients, for example of a tunnel\n"
    "  --load-library FILES    shared libraries of custom devices, separated by colons\n"
    "  --max-message BYTES     maximum message size (1073741824)\n"
    "  --max-memory BYTES      memory limit of a session (no limit)\n"
    "  --max-files BYTES       limit for the total size of a session's files (4294967296)\n"
    "  --max-seconds SECONDS   time limit of a session (no limit)\n"
    "  --measure-only          restrict clients to the functions needed for measuring\n"
    "  --stdio                 serve one session on standard input, for a client that started this program\n"
    "  --silent                do not print messages\n"
    "The secret is read from the file named by TVM_RPC_SECRET_FILE, or else from TVM_RPC_SECRET itself.\n";

typedef struct { TVMRPCServerOptions server; const char *host, *libraries; char *tracker, *proxy; int port, port_end, stdio; } Arguments;

static int fail(const char *format, const char *what) {
  fprintf(stderr, "tvm_rpc_server: ");
  fprintf(stderr, format, what);
  fprintf(stderr, "\n");
  return 2;
}

static int number(const char *text, double most, double *out) {
  char *end;
  *out = strtod(text, &end);
  return *text && !*end && *out >= 0 && *out <= most ? 0 : fail("'%s' is not a number in the allowed range", text);
}

static int take_option(Arguments *a, const char *name, char *value) {
  double n = 0;
  static const char *const numbers[] = {"--port", "--port-end", "--custom-port", "--max-message", "--max-memory", "--max-files", "--max-seconds"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    if (!strcmp(name, numbers[i]) && number(value, i < 3 ? 65536 : 1e18, &n)) return 2;
  if (!strcmp(name, "--host")) a->host = value;
  else if (!strcmp(name, "--port")) a->port = (int)n;
  else if (!strcmp(name, "--port-end")) a->port_end = (int)n;
  else if (!strcmp(name, "--tracker")) a->tracker = value;
  else if (!strcmp(name, "--proxy")) a->proxy = value;
  else if (!strcmp(name, "--key")) a->server.key = value;
  else if (!strcmp(name, "--custom-addr")) a->server.custom_addr = value;
  else if (!strcmp(name, "--custom-port")) a->server.told_port = (int)n;
  else if (!strcmp(name, "--load-library")) a->libraries = value;
  else if (!strcmp(name, "--max-message")) a->server.max_message = (uint64_t)n;
  else if (!strcmp(name, "--max-memory")) a->server.max_memory = (uint64_t)n;
  else if (!strcmp(name, "--max-files")) a->server.max_files = (uint64_t)n;
  else if (!strcmp(name, "--max-seconds")) a->server.max_seconds = n;
  else return fail("unknown option '%s'; --help lists the options", name);
  return 0;
}

/* HOST:PORT */
static int split(char *text, const char *what, const char **host, int *port) {
  char *colon = strrchr(text, ':');
  double n;
  if (!colon || number(colon + 1, 65535, &n)) {
    fprintf(stderr, "tvm_rpc_server: the address of the %s must have the form HOST:PORT, got '%s'\n", what, text);
    return 2;
  }
  *colon = '\0';
  *host = text;
  *port = (int)n;
  return 0;
}

static int parse(Arguments *a, int count, char **words) {
  for (int i = 1; i < count; ++i) {
    char *equals = strchr(words[i], '=');
    if (equals) *equals = '\0';
    if (!strcmp(words[i], "--help") || !strcmp(words[i], "-h")) {
      fputs(USAGE, stdout);
      exit(0);
    }
    if (!strcmp(words[i], "--silent")) a->server.silent = 1;
    else if (!strcmp(words[i], "--measure-only")) a->server.measure_only = 1;
    else if (!strcmp(words[i], "--stdio")) a->stdio = 1;
    else if (!equals && i + 1 == count) return fail("'%s' needs a value or is an unknown option; --help lists the options", words[i]);
    else {
      const char *name = words[i];
      int status = take_option(a, name, equals ? equals + 1 : words[++i]);
      if (status) return status;
    }
  }
  if (a->proxy && a->tracker) return fail("%s cannot be combined: the proxy registers the server with its own tracker", "--proxy and --tracker");
  if (a->proxy) return split(a->proxy, "proxy", &a->server.proxy_host, &a->server.proxy_port);
  if (!a->tracker) return 0;
  int status = split(a->tracker, "tracker", &a->server.tracker_host, &a->server.tracker_port);
  return status || a->server.key ? status : fail("%s requires --key, the device key of this server", "--tracker");
}

/* Rejects a secret file that other users can read. */
static int read_secret(TVMRPCServerOptions *options) {
  enum { ROOM = 4096 };
  static char secret[ROOM];
  const char *path = getenv("TVM_RPC_SECRET_FILE"), *text = getenv("TVM_RPC_SECRET");
  options->secret = text;
  options->secret_size = text ? strlen(text) : 0;
  if (!path || !*path) return 0;
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &info)) return fail("cannot read the secret file: %s", path);
  if (info.st_mode & 077) return fail("the secret file must be readable by its owner only (chmod 600): %s", path);
  ssize_t size = read(fd, secret, ROOM);
  close(fd);
  while (size > 0 && strchr("\r\n", secret[size - 1])) --size;
  if (size <= 0 || size == ROOM) return fail("the secret file must contain between 1 and 4095 bytes: %s", path);
  options->secret = secret;
  options->secret_size = (size_t)size;
  return 0;
}

static int listen_on(const Arguments *a, int *out) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
  if (getaddrinfo(a->host, NULL, &hints, &found)) return fail("cannot resolve '%s' to an address of this machine", a->host);
  int one = 1, last = !a->port ? 1 : a->port_end > a->port ? a->port_end : a->port + 1;
  for (int port = a->port; port < last; ++port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ((struct sockaddr_in *)found->ai_addr)->sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, 128)) {
      socklen_t size = found->ai_addrlen;
      getsockname(fd, found->ai_addr, &size);
      if (!a->server.silent)
        fprintf(stderr, "RPCServer: bind to %s:%d\n", a->host, ntohs(((struct sockaddr_in *)found->ai_addr)->sin_port));
      freeaddrinfo(found);
      *out = fd;
      return 0;
    }
    close(fd);
  }
  freeaddrinfo(found);
  return fail("no free port in the given range on %s", a->host);
}

static int load_libraries(const char *names) {
  char *copy = strdup(names ? names : ""), *rest = NULL;
  for (char *name = strtok_r(copy, ":", &rest); name; name = strtok_r(NULL, ":", &rest))
    if (TVMDeviceLibraryLoad(name)) return fail("%s", TVMGetLastError());
  free(copy);
  return 0;
}

int main(int count, char **words) {
  Arguments a = {.server = {.watch_fd = -1}, .host = "127.0.0.1", .port = 9090, .port_end = 9199};
  int fd = -1, status = parse(&a, count, words);
  if (!status) status = load_libraries(a.libraries);
  if (!status && a.stdio) return TVMRPCServe(0, &a.server) ? 1 : 0;
  if (!status) status = read_secret(&a.server);
  if (!status && !a.proxy) status = listen_on(&a, &fd);
  if (status) return status;
  return TVMRPCServerRun(fd, &a.server) ? fail("%s", TVMGetLastError()) : 0;
}
