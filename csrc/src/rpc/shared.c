/* Shared memory between the two ends of a session on one machine: large copies use it, in chunks, instead of the
 * socket. The client creates the memory and sends its location; the server returns the content as proof that it mapped
 * the same memory. This detects tunnels, whose remote end only appears to be on the same machine. */

#include "rpc.h"

enum { SHARED_BYTES = 4 << 20, SHARED_LEAST = 64 << 10, TOKEN = 32 };

#ifdef __linux__
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Uses the system call, because memfd_create needs glibc 2.27 and packages are built for older versions. */
static int memory_file(void) { return (int)syscall(SYS_memfd_create, "tvm_rpc", MFD_CLOEXEC | MFD_ALLOW_SEALING); }

static bool is_this_machine(int fd) {
  union { struct sockaddr any; struct sockaddr_in in; } there;
  socklen_t size = sizeof there;
  if (getpeername(fd, &there.any, &size)) return false;
  return there.any.sa_family == AF_UNIX || (there.any.sa_family == AF_INET && (ntohl(there.in.sin_addr.s_addr) >> 24) == 127);
}

static void *map_file(int fd) {
  void *memory = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/* ---- client side ---- */

static int offer(Endpoint *ep, int fd) {
  unsigned char token[TOKEN];
  TVMByteArray bytes = {(const char *)token, TOKEN};
  TVMValue args[] = {{.v_int64 = getpid()}, {.v_int64 = fd}, {.v_handle = &bytes}}, ret;
  int codes[] = {kTVMArgInt, kTVMArgInt, kTVMBytes}, code;
  /* Seal the size: if the server shrank the file, accesses would crash this process. */
  if (ftruncate(fd, SHARED_BYTES) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return -1;
  if (random_bytes(token, TOKEN) || !(ep->shared = map_file(fd))) return -1;
  memcpy(ep->shared, token, TOKEN);
  if (!remote_call(ep, "tvm.rpc.server.share", args, codes, 3, &ret, &code) && code == kTVMArgInt && ret.v_int64 == 1) return 0;
  munmap(ep->shared, SHARED_BYTES);
  ep->shared = NULL;
  return -1;
}

static bool is_shared(Endpoint *ep, size_t nbytes) {
  if (nbytes < SHARED_LEAST) return false;
  if (ep->shared || ep->not_shared) return ep->shared;
  int fd = is_this_machine(ep->fd) ? memory_file() : -1;
  /* Without shared memory, copies use the socket; this is not an error. */
  ep->not_shared = fd < 0 || offer(ep, fd);
  if (fd >= 0) close(fd);
  return ep->shared;
}

static int copy_piece(Endpoint *ep, DLTensor *array, bool is_back) {
  TVMValue args[] = {{.v_handle = array}, {.v_int64 = is_back}}, ret;
  int codes[] = {kTVMNDArrayHandle, kTVMArgInt}, code;
  return remote_call(ep, "tvm.rpc.server.copy_shared", args, codes, 2, &ret, &code);
}

int shared_copy(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, void *bytes, size_t nbytes, bool is_back) {
  pthread_mutex_lock(&ep->lock);
  int status = is_shared(ep, nbytes) && !ep->dead ? 0 : 1;
  for (size_t done = 0; done < nbytes && !status; done += SHARED_BYTES) {
    size_t piece = nbytes - done < SHARED_BYTES ? nbytes - done : SHARED_BYTES;
    int64_t size = (int64_t)piece;
    DLTensor array = {(void *)(uintptr_t)handle, device, 1, {kDLUInt, 8, 1}, &size, NULL, offset + done};
    if (!is_back) memcpy(ep->shared, (char *)bytes + done, piece);
    status = copy_piece(ep, &array, is_back);
    if (is_back && !status) memcpy((char *)bytes + done, ep->shared, piece);
  }
  pthread_mutex_unlock(&ep->lock);
  return status;
}

void shared_close(Endpoint *ep) {
  if (ep->shared) munmap(ep->shared, SHARED_BYTES);
  ep->shared = NULL;
}

/* ---- server side, in the session process ---- */

static unsigned char *segment;

int shared_take(int64_t pid, int64_t file, const TVMByteArray *token, bool *found) {
  char path[64];
  struct stat info;
  *found = false;
  if (segment || token->size != TOKEN || pid < 1 || file < 0) return 0;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)pid, (long long)file);
  bool fits = !stat(path, &info) && S_ISREG(info.st_mode) && info.st_size == SHARED_BYTES;
  int fd = fits ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;
  fits = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size == SHARED_BYTES;
  segment = fits ? map_file(fd) : NULL;
  if (fd >= 0) close(fd);
  *found = segment && same_bytes(segment, (const unsigned char *)token->data, TOKEN);
  if (segment && !*found) {
    munmap(segment, SHARED_BYTES);
    segment = NULL;
  }
  return 0;
}

int shared_serve(DLTensor *array, bool is_back) {
  size_t size;
  if (TVMTensorByteSize(array, &size)) return -1;
  if (!segment || size > SHARED_BYTES) return tvm_error("RPCError: %zu bytes exceed the size of the shared memory", size);
  return is_back ? TVMArrayCopyToBytes(array, segment, size) : TVMArrayCopyFromBytes(array, segment, size);
}
#else
int shared_copy(Endpoint *ep, DLDevice device, uint64_t handle, size_t offset, void *bytes, size_t nbytes, bool is_back) {
  (void)ep, (void)device, (void)handle, (void)offset, (void)bytes, (void)nbytes, (void)is_back;
  return 1;
}

void shared_close(Endpoint *ep) { (void)ep; }

int shared_take(int64_t pid, int64_t file, const TVMByteArray *token, bool *found) {
  (void)pid, (void)file, (void)token;
  *found = false;
  return 0;
}

int shared_serve(DLTensor *array, bool is_back) {
  (void)array, (void)is_back;
  return tvm_error("RPCError: shared memory is not supported on this platform");
}
#endif
