/* Implements system.h for Windows. Paths are UTF-8; the functions of Windows take UTF-16. */
#include "system.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <winsock2.h>
#include <windows.h>
/* after windows.h */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { PATH_ROOM = 1024 };

static bool widen(const char *text, wchar_t out[PATH_ROOM]) {
  return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, out, PATH_ROOM) > 0;
}

/* The text of an error number of Windows, without the line break at its end. */
static const char *error_text(DWORD code) {
  static _Thread_local char text[512];
  wchar_t wide[256];
  DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, wide, 256, NULL);
  while (length && wcschr(L"\r\n .", wide[length - 1])) --length;
  int size = length ? WideCharToMultiByte(CP_UTF8, 0, wide, (int)length, text, sizeof text - 1, NULL, NULL) : 0;
  text[size] = '\0';
  if (!size) snprintf(text, sizeof text, "error %lu of Windows", (unsigned long)code);
  return text;
}

/* ---- files ---- */

FILE *system_file_open(const char *path, const char *mode) {
  wchar_t wide[PATH_ROOM], how[16];
  return widen(path, wide) && widen(mode, how) ? _wfopen(wide, how) : NULL;
}

static const char *read_whole(HANDLE file, unsigned char **out, size_t *out_size) {
  LARGE_INTEGER length;
  if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &length)) return "not a regular file";
  size_t size = (size_t)length.QuadPart, done = 0;
  unsigned char *bytes = malloc(size ? size : 1);
  if (!bytes) return "out of memory";
  while (done < size) {
    DWORD wanted = size - done < 1u << 30 ? (DWORD)(size - done) : 1u << 30, got;
    if (!ReadFile(file, bytes + done, wanted, &got, NULL) || !got) {
      free(bytes);
      return "cannot read the file";
    }
    done += got;
  }
  *out = bytes;
  *out_size = size;
  return NULL;
}

const char *system_file_read(const char *path, unsigned char **out, size_t *out_size) {
  wchar_t wide[PATH_ROOM];
  if (!widen(path, wide)) return "the path is too long or not UTF-8";
  DWORD kind = GetFileAttributesW(wide);
  if (kind != INVALID_FILE_ATTRIBUTES && kind & FILE_ATTRIBUTE_DIRECTORY) return "not a regular file";
  HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, FILE_FLAG_SEQUENTIAL_SCAN, NULL);
  if (file == INVALID_HANDLE_VALUE) return error_text(GetLastError());
  const char *why = read_whole(file, out, out_size);
  CloseHandle(file);
  return why;
}

/* ---- shared libraries ---- */

static _Thread_local DWORD loader_error;

static void *loaded(HMODULE library) {
  loader_error = library ? 0 : GetLastError();
  return library;
}

void *system_library_open(const char *path) {
  wchar_t wide[PATH_ROOM];
  if (widen(path, wide)) return loaded(LoadLibraryW(wide));
  loader_error = ERROR_FILENAME_EXCED_RANGE;
  return NULL;
}

bool system_file_beside(const char *name, char *out, size_t size) { return false; }

void system_library_close(void *library) { FreeLibrary(library); }

void *system_library_symbol(void *library, const char *name) {
  FARPROC found = GetProcAddress(library, name);
  void *address;
  memcpy(&address, &found, sizeof address);
  loader_error = address ? 0 : GetLastError();
  return address;
}

const char *system_library_error(void) { return error_text(loader_error); }

static HMODULE own_module(DWORD flags) {
  HMODULE own = NULL;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | flags, (const wchar_t *)(uintptr_t)&system_own_symbol, &own);
  return own;
}

void *system_own_symbol(const char *name) {
  HMODULE own = own_module(GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
  return own ? system_library_symbol(own, name) : NULL;
}

static const wchar_t COPY_NAMES[] = L"tvm-copy-*.dll";

/* A library that a process uses cannot be deleted, so deleting every copy removes the unused ones. Another process may
 * not have opened a new copy yet. */
void system_copies_clean(void) {
  static atomic_flag cleaned = ATOMIC_FLAG_INIT;
  static const ULONGLONG YOUNG = 60ull * 10000000; /* a minute in units of 100 ns */
  wchar_t folder[PATH_ROOM], path[PATH_ROOM + MAX_PATH];
  WIN32_FIND_DATAW entry;
  FILETIME now;
  if (atomic_flag_test_and_set(&cleaned)) return;
  DWORD length = GetTempPathW(PATH_ROOM - 32, folder);
  if (!length || length >= PATH_ROOM - 32) return;
  swprintf(path, PATH_ROOM, L"%ls%ls", folder, COPY_NAMES);
  HANDLE found = FindFirstFileW(path, &entry);
  if (found == INVALID_HANDLE_VALUE) return;
  GetSystemTimeAsFileTime(&now);
  do {
    ULONGLONG written = (ULONGLONG)entry.ftLastWriteTime.dwHighDateTime << 32 | entry.ftLastWriteTime.dwLowDateTime;
    if (((ULONGLONG)now.dwHighDateTime << 32 | now.dwLowDateTime) < written + YOUNG) continue;
    swprintf(path, sizeof path / sizeof *path, L"%ls%ls", folder, entry.cFileName);
    DeleteFileW(path);
  } while (FindNextFileW(found, &entry));
  FindClose(found);
}

static bool write_copy(const wchar_t *path, const unsigned char *bytes, size_t size) {
  /* CREATE_NEW fails if a file of this name exists, so no other user can prepare one. */
  HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY, NULL);
  if (file == INVALID_HANDLE_VALUE) return false;
  bool fine = true;
  while (size && fine) {
    DWORD wanted = size < 1u << 30 ? (DWORD)size : 1u << 30, done = 0;
    fine = WriteFile(file, bytes, wanted, &done, NULL) && done;
    bytes += done;
    size -= done;
  }
  if (!fine) loader_error = GetLastError();
  CloseHandle(file);
  if (!fine) DeleteFileW(path);
  return fine;
}

void *system_copy_open(const unsigned char *bytes, size_t size) {
  static atomic_uint counter;
  wchar_t folder[PATH_ROOM], path[PATH_ROOM];
  LARGE_INTEGER ticks;
  DWORD length = GetTempPathW(PATH_ROOM - 96, folder);
  if (!length || length >= PATH_ROOM - 96) {
    loader_error = ERROR_PATH_NOT_FOUND;
    return NULL;
  }
  QueryPerformanceCounter(&ticks);
  swprintf(path, PATH_ROOM, L"%lstvm-copy-%lu-%u-%llx.dll", folder, (unsigned long)GetCurrentProcessId(), atomic_fetch_add(&counter, 1),
           (unsigned long long)ticks.QuadPart);
  if (!write_copy(path, bytes, size)) {
    if (!loader_error) loader_error = GetLastError();
    return NULL;
  }
  void *library = loaded(LoadLibraryW(path));
  if (!library) DeleteFileW(path);
  return library;
}

void system_copy_close(void *library) {
  wchar_t path[PATH_ROOM];
  DWORD length = GetModuleFileNameW(library, path, PATH_ROOM);
  FreeLibrary(library);
  /* Fails, and leaves the file to a later process, if the library is still in use. */
  if (length && length < PATH_ROOM) DeleteFileW(path);
}

void *system_copy_symbol(void *library, const char *name, size_t *out_size) {
  const unsigned char *base = library, *address = system_library_symbol(library, name);
  if (!address || !out_size) return (void *)(uintptr_t)address;
  /* A symbol ends before the end of the mapped library. */
  const IMAGE_DOS_HEADER *start = library;
  const IMAGE_NT_HEADERS *head = (const void *)(base + start->e_lfanew);
  size_t size = head->OptionalHeader.SizeOfImage, at = (size_t)(address - base);
  if (address < base || at >= size) return NULL; /* forwarded to another library */
  *out_size = size - at;
  return (void *)(uintptr_t)address;
}

/* ---- memory ---- */

void *system_alloc(size_t alignment, size_t size) { return _aligned_malloc(size, alignment); }

void system_free(void *memory) { _aligned_free(memory); }

/* Large pages need a privilege of the user, which programs rarely have. */
void system_use_large_pages(void *memory, size_t size) { (void)memory, (void)size; }

void system_release_memory(void) { _heapmin(); }

/* ---- threads ---- */

int system_cpu_count(void) {
  DWORD_PTR own = 0, all = 0;
  /* The masks are 0 for a process that runs in several groups of processors. */
  if (GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own) return __builtin_popcountll(own);
  DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
  return count ? (int)count : 1;
}

int system_thread_start(pthread_t *out, void *(*run)(void *), void *argument) {
  /* The thread executes code of this library, which must therefore stay loaded until the process ends. */
  own_module(GET_MODULE_HANDLE_EX_FLAG_PIN);
  return pthread_create(out, NULL, run, argument);
}

void system_word_wait(_Atomic uint32_t *word, uint32_t seen, int milliseconds) {
  WaitOnAddress(word, &seen, sizeof seen, milliseconds < 0 ? INFINITE : (DWORD)milliseconds);
}

void system_word_wake(_Atomic uint32_t *word) { WakeByAddressAll((void *)word); }

void system_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) { (void)before, (void)parent, (void)child; }

/* ---- sockets ---- */

/* Handles have 32 significant bits. */
static SOCKET handle_of(int fd) { return (SOCKET)(uint32_t)fd; }

void system_socket_adopt(int fd) {
  u_long on = 1;
  ioctlsocket(handle_of(fd), FIONBIO, &on);
}

static ptrdiff_t socket_code(void) {
  int why = WSAGetLastError();
  if (why == WSAEWOULDBLOCK || why == WSAEINTR) return SYSTEM_SOCKET_BUSY;
  return why == WSAECONNRESET || why == WSAECONNABORTED || why == WSAESHUTDOWN ? SYSTEM_SOCKET_GONE : SYSTEM_SOCKET_FAILED;
}

ptrdiff_t system_socket_send(int fd, const SystemPart *parts, int count) {
  static const size_t MOST = 1u << 30;
  WSABUF buffers[SYSTEM_PARTS];
  DWORD done = 0, used = 0;
  for (int i = 0; i < count; ++i) {
    buffers[used++] = (WSABUF){(ULONG)(parts[i].size < MOST ? parts[i].size : MOST), (char *)(uintptr_t)parts[i].data};
    if (parts[i].size > MOST) break; /* the rest is sent by the next call */
  }
  return WSASend(handle_of(fd), buffers, used, &done, 0, NULL, NULL) ? socket_code() : (ptrdiff_t)done;
}

ptrdiff_t system_socket_receive(int fd, void *to, size_t size) {
  int got = recv(handle_of(fd), to, size < 1u << 30 ? (int)size : 1 << 30, 0);
  return got < 0 ? socket_code() : got;
}

int system_socket_wait(int fd, bool is_write, int milliseconds) {
  WSAPOLLFD one = {handle_of(fd), is_write ? POLLOUT : POLLIN, 0};
  return WSAPoll(&one, 1, milliseconds);
}

void system_socket_stop(int fd) { shutdown(handle_of(fd), SD_BOTH); }

void system_socket_close(int fd) { closesocket(handle_of(fd)); }

const char *system_socket_error(void) { return error_text((DWORD)WSAGetLastError()); }
#endif
