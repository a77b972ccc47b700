/* Functions that depend on the operating system. posix*.c implement them for Linux and macOS, windows.c for Windows; no
 * other source of the runtime tests for Windows. Failures are reported by return values, because this part cannot set
 * the last error. */
#ifndef TVM_SRC_SYSTEM_SYSTEM_H_
#define TVM_SRC_SYSTEM_SYSTEM_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* SYSTEM_HAS_FORK: a process can duplicate itself, which the RPC server does for each session.
 * SYSTEM_JOINS_AT_UNLOAD: threads can be joined while the runtime is unloaded. Windows holds the lock of its loader
 * then, which a thread needs to end.
 * SYSTEM_IMAGE_CHECK: the function of core/image.c for the format of libraries; not defined for ELF.
 * SYSTEM_PATH_SEPARATOR: the character between paths in an environment variable.
 * SYSTEM_CUDA, SYSTEM_OPENCL: the library of the driver, and the names to try. */
#ifdef _WIN32
#define SYSTEM_HAS_FORK 0
#define SYSTEM_PATH_SEPARATOR ';'
#define SYSTEM_JOINS_AT_UNLOAD 0
#define SYSTEM_IMAGE_CHECK image_check_pe
#define SYSTEM_CUDA "nvcuda.dll"
#define SYSTEM_CUDA_NAMES SYSTEM_CUDA
#define SYSTEM_OPENCL "OpenCL.dll"
#define SYSTEM_OPENCL_NAMES SYSTEM_OPENCL
#else
#define SYSTEM_HAS_FORK 1
#define SYSTEM_PATH_SEPARATOR ':'
#define SYSTEM_JOINS_AT_UNLOAD 1
#define SYSTEM_CUDA "libcuda.so.1"
#define SYSTEM_CUDA_NAMES SYSTEM_CUDA " libcuda.so"
#ifdef __APPLE__
#define SYSTEM_IMAGE_CHECK image_check_macho
#define SYSTEM_OPENCL "/System/Library/Frameworks/OpenCL.framework/OpenCL"
#define SYSTEM_OPENCL_NAMES SYSTEM_OPENCL
#else
#define SYSTEM_OPENCL "libOpenCL.so.1"
#define SYSTEM_OPENCL_NAMES SYSTEM_OPENCL " libOpenCL.so"
#endif
#endif

/* ---- files; paths are UTF-8 ---- */
FILE *system_file_open(const char *path, const char *mode);
/* Reads a regular file into memory that the caller frees; returns NULL or the reason for the failure. */
const char *system_file_read(const char *path, unsigned char **out, size_t *out_size);

/* ---- shared libraries ---- */
void *system_library_open(const char *path);
void system_library_close(void *library);
/* Searches the library and the libraries that it depends on. */
void *system_library_symbol(void *library, const char *name);
/* The reason why the last operation on a library failed on this thread. */
const char *system_library_error(void);
/* Writes the path of a file in the folder of this library. Returns false if there is no such file, and on Windows. */
bool system_file_beside(const char *name, char *out, size_t size);
/* Opens a temporary copy of a library; the copy is removed at once, or when the library is closed. The caller holds a
 * lock that excludes other calls of the loader. */
void *system_copy_open(const unsigned char *bytes, size_t size);
void system_copy_close(void *library);
/* Looks up a symbol of the library itself, without its dependencies. out_size may be NULL; it receives an upper bound
 * of the size of the data. */
void *system_copy_symbol(void *library, const char *name, size_t *out_size);
/* Removes copies that processes left behind. */
void system_copies_clean(void);
/* Looks up a symbol of the library or program that contains this runtime. */
void *system_own_symbol(const char *name);

/* ---- memory ---- */
/* Allocates memory at a multiple of `alignment`, a power of two; NULL if memory is exhausted. */
void *system_alloc(size_t alignment, size_t size);
void system_free(void *memory);
/* Requests large pages for memory of system_alloc, where the operating system supports it. */
void system_use_large_pages(void *memory, size_t size);
/* Returns free memory of the allocator to the operating system. */
void system_release_memory(void);

/* ---- threads ---- */
/* The number of CPUs on which this process may run. */
int system_cpu_count(void);
/* Starts a thread that handles no signals; returns 0 or an error number. */
int system_thread_start(pthread_t *out, void *(*run)(void *), void *argument);
/* Returns when *word != seen, when woken, or after `milliseconds` (negative: no limit); may also return earlier. */
void system_word_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds);
void system_word_wake(_Atomic uint32_t *word);
/* Registers functions that are called around fork. */
void system_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* ---- connected stream sockets, which do not block ---- */
typedef struct { const void *data; size_t size; } SystemPart;
enum { SYSTEM_PARTS = 8 };
enum { SYSTEM_SOCKET_BUSY = -1, SYSTEM_SOCKET_GONE = -2, SYSTEM_SOCKET_FAILED = -3 };
/* Prepares a socket of the caller for the functions below. */
void system_socket_adopt(int fd);
/* Sends at most SYSTEM_PARTS buffers; returns the number of bytes or one of the codes above. */
ptrdiff_t system_socket_send(int fd, const SystemPart *parts, int count);
/* Returns the number of bytes, 0 if the other side closed the connection, or one of the codes above. */
ptrdiff_t system_socket_receive(int fd, void *to, size_t size);
/* Waits until the socket can be read or written: 1 if it can, 0 after the time or a signal, -1 after a failure. */
int system_socket_wait(int fd, bool is_write, int milliseconds);
/* Ends the connection in both directions, which wakes waiting readers. */
void system_socket_stop(int fd);
void system_socket_close(int fd);
/* The reason why the last operation on a socket failed on this thread. */
const char *system_socket_error(void);

#endif /* TVM_SRC_SYSTEM_SYSTEM_H_ */
