/* The driver's interface over the emulator: memory of the host with pages behind it that cannot be touched, kernels in
 * shared libraries, captures as lists. An error in a kernel is told when somebody waits for the device. */
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "machine.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef int Status;
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500,
       OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719 };
typedef unsigned long long Address;
struct Function { const emu_kernel *kernel; std::string name; int dynamic; };
struct Library { void *handle; std::map<std::string, Function> functions; };
typedef std::vector<std::function<void()>> Graph;
struct Stream { Graph *capture; };
struct Event { double time; };
struct Allocation { size_t size, mapped; char *map; };
struct Context { int device; };

namespace {

std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;
std::map<uintptr_t, Allocation> allocations;
size_t taken;
std::string pending_failure, told_failure;
Context contexts[8];
enum { PAGE = 4096 };

long number(const char *variable, long otherwise) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : otherwise;
}
size_t memory() { return (size_t)number("TVM_EMULATED_MEMORY", 4l << 30); }
long arch() { return number("TVM_EMULATED_ARCH", 90); }
int devices() { return (int)number("TVM_EMULATED_DEVICES", 2); }

Status give(Stream *stream, std::function<void()> work) {
  Guard guard(lock);
  if (stream && stream->capture) stream->capture->push_back(std::move(work));
  else work();
  return OK;
}

Status wait_for_work() {
  Guard guard(lock);
  if (pending_failure.empty()) return OK;
  told_failure = pending_failure;
  /* A real device refuses everything from now on; tests of kernels go on with the next. */
  if (!number("TVM_EMULATED_STICKY", 0)) pending_failure.clear();
  return LAUNCH_FAILED;
}

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* "emulated", then a shared library. */
Status open_image(const char *image, Library *out, char *log, size_t log_size) {
  static const char magic[] = "emulated";
  if (memcmp(image, magic, 8)) {
    if (log) snprintf(log, log_size, "the emulator runs only what its own compiler made");
    return INVALID_IMAGE;
  }
  const char *code = image + 8;
  Elf64_Ehdr head;
  memcpy(&head, code, sizeof head);
  size_t size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
  char path[] = "/tmp/cuda-emulator-XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return OUT_OF_MEMORY;
  bool written = write(file, code, size) == (ssize_t)size;
  close(file);
  out->handle = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  if (!out->handle && log) snprintf(log, log_size, "%s", dlerror());
  return out->handle ? OK : INVALID_IMAGE;
}

} // namespace

bool emu_find_allocation(uintptr_t address, size_t *size, ptrdiff_t *offset) {
  for (const auto &[at, a] : allocations) {
    if (address < (uintptr_t)a.map || address >= (uintptr_t)a.map + a.mapped) continue;
    *size = a.size;
    *offset = (ptrdiff_t)(address - at);
    return true;
  }
  return false;
}

EXPORT Status cuInit(unsigned) { return OK; }
EXPORT Status cuDriverGetVersion(int *out) { return *out = 12040, OK; }
EXPORT Status cuGetErrorName(Status code, const char **out) {
  static const std::map<Status, const char *> names = {
      {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
      {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
  auto found = names.find(code);
  return *out = found == names.end() ? "no error" : found->second, OK;
}
EXPORT Status cuGetErrorString(Status code, const char **out) {
  return *out = code == LAUNCH_FAILED ? told_failure.c_str() : "from the emulator", OK;
}
EXPORT Status cuDeviceGetCount(int *out) { return *out = devices(), OK; }
EXPORT Status cuDeviceGet(int *out, int which) { return *out = which, which < devices() ? OK : INVALID_DEVICE; }
EXPORT Status cuDeviceGetName(char *out, int size, int) { return snprintf(out, (size_t)size, "Emulated GPU"), OK; }
EXPORT Status cuDeviceGetAttribute(int *out, int which, int) {
  static const std::map<int, int> known = {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535},
                                           {7, 65535}, {8, 49152}, {10, 32}, {12, 65536}, {13, 1000000}, {16, 132},
                                           {38, 1 << 22}, {97, 232448}};
  auto found = known.find(which);
  *out = which == 75 ? (int)arch() / 10 : which == 76 ? (int)arch() % 10 : found == known.end() ? 0 : found->second;
  return OK;
}
EXPORT Status cuDeviceTotalMem_v2(size_t *out, int) { return *out = memory(), OK; }
EXPORT Status cuDevicePrimaryCtxRetain(Context **out, int device) { return *out = &contexts[device % 8], OK; }
EXPORT Status cuCtxSetCurrent(Context *context) { return context ? OK : INVALID_VALUE; }
EXPORT Status cuCtxSynchronize(void) { return wait_for_work(); }

EXPORT Status cuMemAlloc_v2(Address *out, size_t size) {
  Guard guard(lock);
  if (!size) return INVALID_VALUE;
  size_t room = (size + 255) / 256 * 256, mapped = (room + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
  if (size > memory() - taken) return OUT_OF_MEMORY;
  char *map = (char *)mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return OUT_OF_MEMORY;
  mprotect(map, PAGE, PROT_NONE);
  mprotect(map + mapped - PAGE, PAGE, PROT_NONE);
  char *begin = map + mapped - PAGE - room;
  /* What nobody wrote is nothing. */
  if (size <= (1 << 24)) memset(begin, 0xff, room);
  allocations[(uintptr_t)begin] = Allocation{size, mapped, map};
  taken += size;
  *out = (Address)(uintptr_t)begin;
  return OK;
}
EXPORT Status cuMemFree_v2(Address at) {
  Guard guard(lock);
  auto found = allocations.find((uintptr_t)at);
  if (found == allocations.end()) return INVALID_VALUE;
  taken -= found->second.size;
  munmap(found->second.map, found->second.mapped);
  allocations.erase(found);
  return OK;
}
EXPORT Status cuMemAllocHost_v2(void **out, size_t size) { return (*out = malloc(size)) ? OK : OUT_OF_MEMORY; }
EXPORT Status cuMemGetInfo_v2(size_t *available, size_t *total) {
  return *available = memory() - taken, *total = memory(), OK;
}
EXPORT Status cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t size, Stream *s) {
  return give(s, [=] { memcpy((void *)(uintptr_t)to, from, size); });
}
EXPORT Status cuMemcpyDtoHAsync_v2(void *to, Address from, size_t size, Stream *s) {
  return give(s, [=] { memcpy(to, (void *)(uintptr_t)from, size); });
}
EXPORT Status cuMemcpyDtoDAsync_v2(Address to, Address from, size_t size, Stream *s) {
  return give(s, [=] { memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, size); });
}
EXPORT Status cuMemcpyPeerAsync(Address to, Context *, Address from, Context *, size_t size, Stream *s) {
  return cuMemcpyDtoDAsync_v2(to, from, size, s);
}

EXPORT Status cuStreamCreate(Stream **out, unsigned) { return *out = new Stream(), OK; }
EXPORT Status cuStreamDestroy_v2(Stream *s) { return delete s, OK; }
EXPORT Status cuStreamSynchronize(Stream *s) { return s && s->capture ? INVALID_VALUE : wait_for_work(); }
EXPORT Status cuEventCreate(Event **out, unsigned) { return *out = new Event(), OK; }
EXPORT Status cuEventRecord(Event *e, Stream *) { return e->time = now(), OK; }
EXPORT Status cuEventSynchronize(Event *) { return wait_for_work(); }
EXPORT Status cuEventElapsedTime(float *out, Event *a, Event *b) { return *out = (float)(b->time - a->time), OK; }
EXPORT Status cuEventDestroy_v2(Event *e) { return delete e, OK; }

EXPORT Status cuModuleLoadDataEx(Library **out, const void *image, unsigned count, int *options, void **values) {
  /* 5 and 6: where the log goes, and its size. */
  char *log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) log = (char *)values[i];
    if (options[i] == 6) size = (size_t)(uintptr_t)values[i];
  }
  Library *library = new Library();
  Status code = open_image((const char *)image, library, size ? log : nullptr, size);
  if (code) delete library;
  else *out = library;
  return code;
}
EXPORT Status cuModuleUnload(Library *library) { return dlclose(library->handle), delete library, OK; }
EXPORT Status cuModuleGetFunction(Function **out, Library *library, const char *name) {
  Guard guard(lock);
  auto *kernel = (const emu_kernel *)dlsym(library->handle, (std::string(name) + "_emulated").c_str());
  if (!kernel) return NOT_FOUND;
  *out = &library->functions.try_emplace(name, Function{kernel, name, 48 << 10}).first->second;
  return OK;
}
EXPORT Status cuFuncSetAttribute(Function *f, int which, int value) {
  if (which != 8 || value > 232448) return INVALID_VALUE;
  if (value > f->dynamic) f->dynamic = value;
  return OK;
}
EXPORT Status cuFuncGetAttribute(int *out, int which, Function *f) {
  return *out = which == 0 ? (f->kernel->bounds ? f->kernel->bounds : 1024) : 0, OK;
}

EXPORT Status cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, Stream *s, void **arguments, void **) {
  unsigned threads = bx * by * bz;
  if (!gx || !gy || !gz || !threads || gy > 65535 || gz > 65535 || bz > 64 || (int)shared > f->dynamic) return INVALID_VALUE;
  if (threads > 1024 || (f->kernel->bounds && threads > (unsigned)f->kernel->bounds)) return OUT_OF_RESOURCES;
  std::vector<emu_word> values;
  for (int i = 0; i < f->kernel->arguments; ++i) values.push_back(*(const emu_word *)arguments[i]);
  return give(s, [=]() mutable {
    std::vector<void *> places;
    for (emu_word &value : values) places.push_back(&value);
    Launch launch = {f->kernel, f->name.c_str(), {gx, gy, gz}, {bx, by, bz}, shared, places.data()};
    const char *problem = emu_run(launch);
    if (problem && pending_failure.empty()) pending_failure = problem;
  });
}

EXPORT Status cuStreamBeginCapture_v2(Stream *s, int) { return s->capture = new Graph(), OK; }
EXPORT Status cuStreamEndCapture(Stream *s, Graph **out) { return *out = s->capture, s->capture = nullptr, OK; }
EXPORT Status cuGraphInstantiateWithFlags(Graph **out, Graph *graph, unsigned long long) {
  return *out = new Graph(*graph), OK;
}
EXPORT Status cuGraphLaunch(Graph *graph, Stream *) {
  Guard guard(lock);
  for (auto &work : *graph) work();
  return OK;
}
EXPORT Status cuGraphExecDestroy(Graph *graph) { return delete graph, OK; }
EXPORT Status cuGraphDestroy(Graph *graph) { return delete graph, OK; }
