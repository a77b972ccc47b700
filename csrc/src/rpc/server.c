/* The RPC server: one process for each connection, which supervises a separate process for its session. For the reasons
 * see docs/decisions/043. */
#include "rpc.h"

#if SYSTEM_HAS_FORK
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

enum { MOST_CONNECTIONS = 16, MOST_ADDRESSES = 64, MOST_FAILURES = 8, FAILURE_SECONDS = 60, ABANDONED_SECONDS = 5, UNCLAIMED_SECONDS = 3 };
/* Time that a new connection has for its handshake before another connection may replace it. */
static const double YOUNG_SECONDS = 0.5;
enum { EXIT_SESSION = 0, EXIT_REFUSED = 3, EXIT_BROKEN = 4 };

/* The process of a connection. The process writes one byte to the pipe when the client has completed the handshake; the
   pipe closes when the process ends. */
typedef struct {
  pid_t pid;
  int life;
  struct in_addr address; /* 0: a proxy that has proved the secret */
  bool is_greeted;
  double since;
} Connection;
typedef struct { struct in_addr address; int failures; double since; } Address;
typedef struct {
  const ServerOptions *options;
  int listen_fd, port;
  char root[64]; /* parent folder of the session folders */
  /* Lock file: locked by the process that uses the device (fcntl), and by the server for its lifetime (flock). */
  int slot;
  /* Session counter, shared with the processes of connections. A match key is valid until the counter changes. */
  atomic_uint *sessions;
  unsigned offered;
  char match_key[KEY_ROOM + 64];
  double unclaimed_since;
  bool is_offered;
  Tracker tracker, proxy;
  Connection connections[MOST_CONNECTIONS];
  int count;
  Address addresses[MOST_ADDRESSES];
} Server;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
  (void)info, (void)kind, (void)walk;
  remove(path);
  return 0;
}

static void remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static int make_pipe(int out[2]) {
  if (pipe(out)) return -1;
  return fcntl(out[0], F_SETFD, FD_CLOEXEC) || fcntl(out[1], F_SETFD, FD_CLOEXEC) ? -1 : 0;
}

static pid_t fork_with(const ServerOptions *options) { return options->fork_process ? options->fork_process() : fork(); }

/* PR_SET_PDEATHSIG has no effect if the parent died before the call, so the parent is checked afterwards. */
static void die_with_parent(pid_t parent) {
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_IGN);
  signal(SIGALRM, SIG_DFL);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(EXIT_BROKEN);
}

/* ---- the session process ---- */

static void limit_memory(const ServerOptions *options) {
  if (!options->max_memory) return;
  struct rlimit limit = {options->max_memory, options->max_memory};
  setrlimit(RLIMIT_DATA, &limit);
}

static int serve_session(int fd, const ServerOptions *options, const char *folder, double seconds) {
  SessionFiles files = {folder, options->max_files};
  if (rpc_register_session(&files)) return -1;
  Endpoint *ep = endpoint_new(fd, true, options->max_message, seconds);
  if (!ep) return -1;
  ep->measure_only = options->measure_only;
  int status = endpoint_serve(ep);
  if (status) server_log(options, "%s", TVMGetLastError());
  endpoint_release(ep);
  return status;
}

static ServerOptions with_defaults(const ServerOptions *given) {
  ServerOptions options = *given;
  if (!options.key) options.key = "";
  if (!options.max_message) options.max_message = (uint64_t)1 << 30;
  if (!options.max_files) options.max_files = (uint64_t)4 << 30;
  if (options.max_message < 4096) options.max_message = 4096;
  return options;
}

int TVMRPCServe(int fd, const TVMRPCServerOptions *given) {
  ServerOptions options = with_defaults(given);
  limit_memory(&options);
  return serve_session(fd, &options, ".", options.max_seconds);
}

static void be_the_session(pid_t parent, int fd, const ServerOptions *options, const char *folder) {
  setsid();
  die_with_parent(parent);
  signal(SIGXFSZ, SIG_IGN); /* exceeding the file size limit becomes a write error */
  if (chdir(folder)) _exit(EXIT_BROKEN);
  limit_memory(options);
  /* The connection process enforces the time limit with a signal that kernel code cannot block. */
  serve_session(fd, options, folder, 0);
  _exit(EXIT_SESSION);
}

/* ---- the connection process: handshake, waiting for the device, supervising the session ---- */

static void tell(int fd, const char *text) {
  Endpoint *ep = endpoint_new(fd, true, 1 << 20, 1);
  Bytes body = {NULL, 0, 0, false};
  bytes_text(&body, text, strlen(text));
  if (ep) frame_send(ep, RPC_ERROR, &body, NULL, 0);
}

/* Whether the client disconnected more than ABANDONED_SECONDS ago; the session process is then killed. */
static bool is_abandoned(int fd, double *since) {
  struct pollfd one = {fd, POLLRDHUP, 0};
  if (poll(&one, 1, 0) <= 0 || !(one.revents & (POLLRDHUP | POLLHUP | POLLERR))) return false;
  if (!*since) *since = tvm_now();
  return tvm_now() - *since > ABANDONED_SECONDS;
}

/* Makes this process the parent of orphaned processes of the session, including those outside its process group. */
static void adopt_orphans(void) {
#ifdef __linux__
  prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
}

static void end_orphans(void) {
  char path[64], pid[16];
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  for (int tries = 0; tries < 200 && waitpid(-1, NULL, WNOHANG) >= 0; ++tries) {
    FILE *children = fopen(path, "r");
    while (children && fscanf(children, "%15s", pid) == 1) kill((pid_t)atol(pid), SIGKILL);
    if (children) fclose(children);
    usleep(5000);
  }
}

static void watch(pid_t session, int life, int fd, double seconds) {
  double end = seconds > 0 ? tvm_now() + seconds : 0, gone_since = 0;
  char text[256] = "";
  for (;;) {
    siginfo_t info = {.si_pid = 0};
    if (!waitid(P_PID, (id_t)session, &info, WEXITED | WNOWAIT | WNOHANG) && info.si_pid) {
      if (info.si_code != CLD_EXITED && !text[0] && info.si_status == SIGALRM)
        snprintf(text, sizeof text, "RPCSessionTimeoutError: the session exceeded the time limit that its client set");
      else if (info.si_code != CLD_EXITED && !text[0])
        snprintf(text, sizeof text, "RPCError: the session process was killed: %s", strsignal(info.si_status));
      break;
    }
    if (end && tvm_now() > end && !text[0])
      snprintf(text, sizeof text, "RPCSessionTimeoutError: the session exceeded its time limit of %g s", seconds);
    if (text[0] || is_abandoned(fd, &gone_since)) kill(-session, SIGKILL), kill(session, SIGKILL);
    double left = end ? end - tvm_now() : 1;
    struct pollfd one = {life, POLLIN, 0};
    poll(&one, 1, left < 0.01 ? 10 : left < 0.2 ? (int)(left * 1e3) + 1 : 200);
  }
  kill(-session, SIGKILL);
  waitpid(session, NULL, 0);
  if (text[0]) tell(fd, text);
  end_orphans();
}

static int take_device(const Server *server) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  while (fcntl(server->slot, F_SETLKW, &whole))
    if (errno != EINTR) return -1;
  return 0;
}

/* Whether this client owns the current match key. */
static bool claim(const Server *server) {
  unsigned wanted = server->offered;
  if (server->options->tracker_host) return atomic_compare_exchange_strong(server->sessions, &wanted, wanted + 1);
  atomic_fetch_add(server->sessions, 1);
  return true;
}

static void session_folder(const Server *server, pid_t connection, char out[128]) {
  snprintf(out, 128, "%s/%ld", server->root, (long)connection);
}

static int run_session(const Server *server, int fd, double seconds) {
  char folder[128];
  int life[2];
  session_folder(server, getpid(), folder);
  if (make_pipe(life)) return EXIT_BROKEN;
  adopt_orphans();
  pid_t watching = getpid(), session = fork_with(server->options);
  if (session == 0) {
    close(life[0]);
    be_the_session(watching, fd, server->options, folder);
  }
  close(life[1]);
  if (session < 0) return EXIT_BROKEN;
  watch(session, life[0], fd, seconds);
  return EXIT_SESSION;
}

/* Waits for the device and creates the session folder. The match key is used up even if creating the folder fails. */
static int prepare_session(const Server *server) {
  char folder[128];
  session_folder(server, getpid(), folder);
  if (take_device(server)) return REFUSED_DEVICE;
  if (!claim(server)) return REFUSED_KEY;
  return mkdir(folder, 0700) ? REFUSED_DEVICE : REFUSED_NOT;
}

/* Formats "server:KEY" and the version of the runtime interface: the version of the function table and its entry count. */
static void describe(const ServerOptions *options, char *text, size_t size) {
  const TVMRuntimeTable *table = TVMGetRuntimeTable();
  unsigned entries = (unsigned)((table->size - offsetof(TVMRuntimeTable, set_last_error)) / sizeof(void *));
  snprintf(text, size, "server:%s -runtime=%u.%u", options->key, (unsigned)table->abi_version, entries);
}

static int be_the_connection(const Server *server, int fd, int life) {
  const ServerOptions *options = server->options;
  static const char *const why[] = {"", "the secret is wrong", "the key does not match the key of this server",
                                    "cannot prepare the device for a session", "the handshake is invalid or has another version"};
  Handshake shaken;
  char text[KEY_ROOM + 64];
  int refusal = handshake_read(fd, options, options->tracker_host ? server->match_key : options->key, &shaken);
  if (!refusal) {
    if (write(life, "g", 1) != 1) return EXIT_BROKEN;
    refusal = prepare_session(server);
  }
  if (refusal) {
    snprintf(text, sizeof text, "%s%s%s", why[refusal], refusal == REFUSED_DEVICE ? ": " : "", refusal == REFUSED_DEVICE ? strerror(errno) : "");
    server_log(options, "rejected a client: %s", text);
    if (refusal != REFUSED_BROKEN) handshake_answer(fd, options, &shaken, refusal, text);
    /* Only a wrong secret counts as a guess; a silent connection is replaced when another connection needs its slot. */
    return refusal == REFUSED_SECRET && options->secret_size ? EXIT_REFUSED : EXIT_BROKEN;
  }
  double most = options->max_seconds;
  if (most > 0 && (shaken.seconds <= 0 || shaken.seconds > most)) shaken.seconds = most;
  describe(options, text, sizeof text);
  socket_keep_alive(fd);
  if (handshake_answer(fd, options, &shaken, REFUSED_NOT, text)) return EXIT_BROKEN;
  server_log(options, "session started");
  int status = run_session(server, fd, shaken.seconds);
  server_log(options, "session ended");
  return status;
}

/* ---- the server process ---- */

static volatile sig_atomic_t told_to_stop;
static void stop(int number) {
  (void)number;
  told_to_stop = 1;
}

/* Returns the record of an address, or replaces the least recently used record. */
static Address *address_of(Server *server, struct in_addr address) {
  Address *oldest = &server->addresses[0];
  for (int i = 0; i < MOST_ADDRESSES; ++i) {
    Address *one = &server->addresses[i];
    if (one->failures && one->address.s_addr == address.s_addr) {
      if (tvm_now() - one->since > FAILURE_SECONDS) one->failures = 0;
      return one;
    }
    if (one->since < oldest->since) oldest = one;
  }
  *oldest = (Address){address, 0, oldest->since};
  return oldest;
}

static void note_failure(Server *server, struct in_addr address) {
  Address *one = address_of(server, address);
  if (!one->failures++) *one = (Address){address, 1, tvm_now()};
}

/* Removes a connection whose process has ended with this status. */
static void forget(Server *server, Connection *c, int status) {
  char folder[128];
  session_folder(server, c->pid, folder);
  remove_folder(folder);
  if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED && c->address.s_addr) note_failure(server, c->address);
  close(c->life);
  *c = server->connections[--server->count];
}

static void reap(Server *server) {
  for (int i = 0; i < server->count;) {
    Connection *c = &server->connections[i];
    int status;
    if (waitpid(c->pid, &status, WNOHANG) == 0) ++i;
    else forget(server, c, status);
  }
}

static void note_greeted(Connection *c) {
  char byte;
  if (!c->is_greeted && read(c->life, &byte, 1) == 1) c->is_greeted = true;
}

/* Whether another connection may replace this one at the time `now`. */
static bool is_replaceable(const Connection *c, double now) {
  return !c->is_greeted && c->address.s_addr && now - c->since > YOUNG_SECONDS;
}

/* Returns the seconds until a connection can be accepted; also 0 if all slots belong to completed handshakes: then the
 * new connection is rejected. */
static double seconds_to_room(const Server *server) {
  double now = tvm_now(), least = 0;
  if (server->count < MOST_CONNECTIONS) return 0;
  for (int i = 0; i < server->count; ++i) {
    const Connection *c = &server->connections[i];
    if (is_replaceable(c, now)) return 0;
    double left = c->since + YOUNG_SECONDS - now;
    if (!c->is_greeted && c->address.s_addr && (!least || left < least)) least = left > 0.001 ? left : 0.001;
  }
  return least;
}

/* Frees a slot if all are in use: ends the oldest connection without a completed handshake, preferably one from the
 * same address. */
static bool make_room(Server *server, struct in_addr from) {
  Connection *chosen = NULL;
  double now = tvm_now();
  for (int i = 0; i < server->count; ++i) {
    Connection *c = &server->connections[i];
    note_greeted(c);
    if (!is_replaceable(c, now)) continue;
    bool is_own = c->address.s_addr == from.s_addr, is_chosen_own = chosen && chosen->address.s_addr == from.s_addr;
    if (!chosen || (is_own == is_chosen_own ? c->since < chosen->since : is_own)) chosen = c;
  }
  if (!chosen) return false;
  int status;
  kill(chosen->pid, SIGKILL);
  waitpid(chosen->pid, &status, 0);
  forget(server, chosen, status);
  return true;
}

static void serve_connection(Server *server, int fd, struct in_addr from) {
  int life[2];
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  bool is_open = address_of(server, from)->failures < MOST_FAILURES;
  if (is_open && server->count == MOST_CONNECTIONS) is_open = make_room(server, from);
  if (!is_open || make_pipe(life)) {
    handshake_turn_away(fd);
    close(fd);
    return;
  }
  pid_t parent = getpid(), pid = fork_with(server->options);
  if (pid == 0) {
    die_with_parent(parent);
    close(life[0]);
    if (server->listen_fd >= 0) close(server->listen_fd);
    tracker_close(&server->tracker);
    server->proxy.fd = -1; /* this process serves the connection, or there is none */
    _exit(be_the_connection(server, fd, life[1]));
  }
  close(life[1]);
  close(fd);
  fcntl(life[0], F_SETFL, O_NONBLOCK);
  if (pid < 0) close(life[0]);
  else server->connections[server->count++] = (Connection){pid, life[0], from, false, tvm_now()};
}

static void take_connection(Server *server) {
  struct sockaddr_in from = {.sin_port = 0};
  socklen_t size = sizeof from;
  int fd = accept(server->listen_fd, (struct sockaddr *)&from, &size);
  if (fd >= 0) serve_connection(server, fd, from.sin_addr);
}

/* Registers the server with the tracker with a new match key: after every session, and if no client used the last key. */
static void keep_offered(Server *server) {
  const ServerOptions *options = server->options;
  unsigned sessions = atomic_load(server->sessions);
  bool taken = sessions != server->offered;
  if (!options->tracker_host || (taken && server->count)) return;
  if (server->is_offered && !taken) {
    int waits = tracker_waits(&server->tracker, options, server->match_key);
    if (waits > 0 || !server->unclaimed_since) server->unclaimed_since = tvm_now();
    if (waits < 0) server->is_offered = false;
    else if (tvm_now() - server->unclaimed_since <= UNCLAIMED_SECONDS) return;
  }
  unsigned char random[16];
  if (random_bytes(random, sizeof random)) return;
  int used = snprintf(server->match_key, sizeof server->match_key, "%s:", options->key);
  for (size_t i = 0; i < sizeof random; ++i) used += snprintf(server->match_key + used, 3, "%02x", random[i]);
  server->offered = sessions;
  server->is_offered = !tracker_offer(&server->tracker, options, server->port, server->match_key);
  server->unclaimed_since = tvm_now();
}

/* Keeps a connection to the proxy open while the device is free. */
static void keep_called(Server *server) {
  if (server->options->proxy_host && server->proxy.fd < 0 && !server->count) proxy_call(&server->proxy, server->options);
}

/* Accepts a client that the proxy has passed, or handles a lost connection to the proxy. */
static void take_client_of_proxy(Server *server) {
  char first;
  int fd = server->proxy.fd;
  server->proxy.fd = -1;
  if (recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0) serve_connection(server, fd, (struct in_addr){0});
  else {
    close(fd);
    server->proxy.next_try = tvm_now() + RETRY_SECONDS;
  }
}

static void serve_connections(Server *server) {
  while (!told_to_stop) {
    keep_offered(server);
    keep_called(server);
    int door = server->options->proxy_host ? server->proxy.fd : server->listen_fd;
    /* New connections stay in the socket's queue while all slots belong to connections that may still complete a
     * handshake. */
    double wait = seconds_to_room(server);
    struct pollfd fds[MOST_CONNECTIONS + 2] = {{wait > 0 ? -1 : door, POLLIN, 0}, {server->options->watch_fd, POLLIN, 0}};
    for (int i = 0; i < server->count; ++i) fds[i + 2] = (struct pollfd){server->connections[i].life, POLLIN, 0};
    int ready = poll(fds, (nfds_t)server->count + 2, wait > 0 ? (int)(wait * 1e3) + 1 : 1000);
    if (ready < 0 && errno != EINTR) break;
    if (ready > 0 && fds[1].revents) break;
    for (int i = 0; i < server->count; ++i) note_greeted(&server->connections[i]);
    reap(server);
    if (ready > 0 && fds[0].revents && server->options->proxy_host) take_client_of_proxy(server);
    else if (ready > 0 && fds[0].revents && seconds_to_room(server) <= 0) take_connection(server);
  }
}

static int check_address(const Server *server) {
  struct sockaddr_in bound;
  socklen_t size = sizeof bound;
  if (getsockname(server->listen_fd, (struct sockaddr *)&bound, &size) || bound.sin_family != AF_INET)
    return tvm_error("rpc server: expected a listening IPv4 socket");
  if (!server->options->secret_size && (ntohl(bound.sin_addr.s_addr) >> 24) != 127)
    return tvm_error("rpc server: an address outside loopback requires a secret: set TVM_RPC_SECRET_FILE to a file "
                     "that contains it (or TVM_RPC_SECRET to the secret), on the server and on the clients");
  return ntohs(bound.sin_port);
}

enum { FOLDER_ROOM = 40 };
static const char PREFIX[] = "tvm_rpc_";

static const char *sessions_parent(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder && strlen(folder) < FOLDER_ROOM ? folder : "/tmp";
}

/* Removes the folders of killed servers of this user, whose locks are free. */
static void remove_left_over(void) {
  const char *parent = sessions_parent();
  char path[FOLDER_ROOM + 300], lock[FOLDER_ROOM + 310];
  struct stat info;
  DIR *folder = opendir(parent);
  for (struct dirent *one; folder && (one = readdir(folder));) {
    if (strncmp(one->d_name, PREFIX, strlen(PREFIX))) continue;
    snprintf(path, sizeof path, "%s/%s", parent, one->d_name);
    snprintf(lock, sizeof lock, "%s/slot", path);
    if (lstat(path, &info) || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    int slot = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (slot < 0) continue;
    if (!flock(slot, LOCK_EX | LOCK_NB)) remove_folder(path);
    close(slot);
  }
  if (folder) closedir(folder);
}

/* The folder has a temporary name until it is locked, so that no other server removes it as left over. */
static int make_folder(Server *server) {
  char new[sizeof server->root], path[sizeof server->root + 8];
  const char *parent = sessions_parent();
  snprintf(new, sizeof new, "%s/.%sXXXXXX", parent, PREFIX);
  if (!mkdtemp(new)) return -1;
  snprintf(path, sizeof path, "%s/slot", new);
  snprintf(server->root, sizeof server->root, "%s/%s", parent, new + strlen(parent) + 2);
  server->slot = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (server->slot >= 0 && !flock(server->slot, LOCK_EX) && !rename(new, server->root)) return 0;
  int why = errno;
  remove_folder(new);
  errno = why;
  return -1;
}

static int open_server(Server *server) {
  remove_left_over();
  system_copies_clean(); /* once per server instead of once per session */
  if (make_folder(server)) return tvm_error("rpc server: cannot create a folder for sessions: %s", strerror(errno));
  void *shared = mmap(NULL, sizeof(atomic_uint), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  server->sessions = shared;
  return shared != MAP_FAILED ? 0 : tvm_error("rpc server: %s", strerror(errno));
}

static void close_server(Server *server) {
  for (int i = 0; i < server->count; ++i) kill(server->connections[i].pid, SIGKILL);
  for (int i = 0; i < server->count; ++i) waitpid(server->connections[i].pid, NULL, 0);
  tracker_close(&server->tracker);
  tracker_close(&server->proxy);
  if (server->slot >= 0) close(server->slot);
  if (server->sessions && (void *)server->sessions != MAP_FAILED) munmap(server->sessions, sizeof(atomic_uint));
  if (server->root[0]) remove_folder(server->root);
}

int TVMRPCServerRun(int listen_fd, const TVMRPCServerOptions *given) {
  ServerOptions options = with_defaults(given);
  Server server = {.options = &options, .listen_fd = listen_fd, .slot = -1, .tracker = {.fd = -1}, .proxy = {.fd = -1}};
  if (strlen(options.key) > KEY_ROOM - 64) return tvm_error("rpc server: the key is longer than %d bytes", KEY_ROOM - 64);
  if (strpbrk(options.key, " \t\r\n\"\\")) return tvm_error("rpc server: the key must not contain blanks, quotes or backslashes: '%s'", options.key);
  server.port = options.proxy_host ? 0 : check_address(&server);
  if (server.port < 0) return -1;
  if (options.told_port) server.port = options.told_port;
  int status = open_server(&server);
  if (!status) {
    struct sigaction action = {.sa_handler = stop}, old[2];
    told_to_stop = 0;
    sigaction(SIGTERM, &action, &old[0]);
    sigaction(SIGINT, &action, &old[1]);
    serve_connections(&server);
    sigaction(SIGTERM, &old[0], NULL);
    sigaction(SIGINT, &old[1], NULL);
  }
  close_server(&server);
  return status;
}
#else
static int unsupported(void) {
  return tvm_error("RPCError: the RPC server runs each session in a forked process, which this system does not support; "
                   "run the server on Linux or macOS (this system can be a client)");
}

int TVMRPCServe(int fd, const TVMRPCServerOptions *options) {
  (void)fd, (void)options;
  return unsupported();
}

int TVMRPCServerRun(int listen_fd, const TVMRPCServerOptions *options) {
  (void)listen_fd, (void)options;
  return unsupported();
}
#endif
