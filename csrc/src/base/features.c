/* The features of this machine's CPU by their names in LLVM, from the CPU itself (x86) or from the kernel (others).
 * A feature counts only if the operating system saves its registers. */
#include <string.h>

#include "base.h"
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif

typedef struct { const char *name; int word, bit; } Feature;

#if defined(__x86_64__) || defined(__i386__)
/* The words of CPUID results, and the registers that the operating system must save (XCR0 bits). */
enum { LEAF1_C, LEAF1_D, LEAF7_B, LEAF7_C, LEAF7_D, LEAF7_1_A, EXTENDED_C, WORDS };
enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6, SAVES_TILES = 0x60000 };

static const Feature features[] = {
  {"sse3", LEAF1_C, 0}, {"ssse3", LEAF1_C, 9}, {"fma", LEAF1_C, 12}, {"cx16", LEAF1_C, 13}, {"sse4.1", LEAF1_C, 19},
  {"sse4.2", LEAF1_C, 20}, {"movbe", LEAF1_C, 22}, {"popcnt", LEAF1_C, 23}, {"avx", LEAF1_C, 28}, {"f16c", LEAF1_C, 29},
  {"cmov", LEAF1_D, 15}, {"sse", LEAF1_D, 25}, {"sse2", LEAF1_D, 26},
  {"bmi", LEAF7_B, 3}, {"avx2", LEAF7_B, 5}, {"bmi2", LEAF7_B, 8}, {"avx512f", LEAF7_B, 16}, {"avx512dq", LEAF7_B, 17},
  {"avx512ifma", LEAF7_B, 21}, {"avx512pf", LEAF7_B, 26}, {"avx512er", LEAF7_B, 27}, {"avx512cd", LEAF7_B, 28},
  {"avx512bw", LEAF7_B, 30}, {"avx512vl", LEAF7_B, 31},
  {"avx512vbmi", LEAF7_C, 1}, {"avx512vbmi2", LEAF7_C, 6}, {"gfni", LEAF7_C, 8}, {"vaes", LEAF7_C, 9},
  {"vpclmulqdq", LEAF7_C, 10}, {"avx512vnni", LEAF7_C, 11}, {"avx512bitalg", LEAF7_C, 12},
  {"avx512vpopcntdq", LEAF7_C, 14},
  {"amx-bf16", LEAF7_D, 22}, {"avx512fp16", LEAF7_D, 23}, {"amx-tile", LEAF7_D, 24}, {"amx-int8", LEAF7_D, 25},
  {"avxvnni", LEAF7_1_A, 4}, {"avx512bf16", LEAF7_1_A, 5}, {"amx-fp16", LEAF7_1_A, 21},
  {"sahf", EXTENDED_C, 0}, {"lzcnt", EXTENDED_C, 5}, {"sse4a", EXTENDED_C, 6}, {"xop", EXTENDED_C, 11},
  {"fma4", EXTENDED_C, 16}, {"tbm", EXTENDED_C, 21},
};

static uint32_t saved_registers(uint32_t leaf1_c) {
  uint32_t low = 0, high = 0;
  if (leaf1_c >> 27 & 1) __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0)); /* xgetbv */
#ifdef __APPLE__
  low |= low & 4 ? SAVES_AVX512 : 0; /* macOS starts to save the AVX-512 registers at their first use */
#endif
  return low;
}

static void read_words(uint32_t *words) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) words[LEAF1_C] = c, words[LEAF1_D] = d;
  uint32_t most = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) most = a, words[LEAF7_B] = b, words[LEAF7_C] = c, words[LEAF7_D] = d;
  if (most >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words[LEAF7_1_A] = a;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) words[EXTENDED_C] = c;
}

/* Returns the registers that a feature needs: tiles, AVX-512 or AVX registers. */
static uint32_t registers_of(const char *name) {
  static const char *const avx[] = {"avx", "avx2", "avxvnni", "fma", "f16c", "fma4", "xop", "vaes", "vpclmulqdq"};
  if (!strncmp(name, "amx", 3)) return SAVES_TILES;
  if (!strncmp(name, "avx512", 6)) return SAVES_AVX512;
  for (size_t i = 0; i < sizeof avx / sizeof *avx; ++i)
    if (!strcmp(name, avx[i])) return SAVES_AVX;
  return 0;
}

static bool is_usable(const Feature *feature) {
  uint32_t words[WORDS] = {0};
  read_words(words);
  uint32_t needed = registers_of(feature->name);
  return (words[feature->word] >> feature->bit & 1) && (saved_registers(words[LEAF1_C]) & needed) == needed;
}
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__) || defined(__riscv))
static const Feature features[] = {
#if defined(__aarch64__)
  {"fp-armv8", AT_HWCAP, 0}, {"neon", AT_HWCAP, 1}, {"aes", AT_HWCAP, 3}, {"sha2", AT_HWCAP, 6}, {"crc", AT_HWCAP, 7},
  {"lse", AT_HWCAP, 8}, {"fullfp16", AT_HWCAP, 10}, {"rdm", AT_HWCAP, 12}, {"dotprod", AT_HWCAP, 20},
  {"sve", AT_HWCAP, 22}, {"sve2", AT_HWCAP2, 1}, {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14},
#elif defined(__arm__)
  {"neon", AT_HWCAP, 12}, {"vfp4", AT_HWCAP, 16}, {"fullfp16", AT_HWCAP, 23}, {"dotprod", AT_HWCAP, 24},
  {"bf16", AT_HWCAP, 26}, {"i8mm", AT_HWCAP, 27},
#else
  {"f", AT_HWCAP, 'f' - 'a'}, {"d", AT_HWCAP, 'd' - 'a'}, {"v", AT_HWCAP, 'v' - 'a'},
#endif
};

static bool is_usable(const Feature *feature) { return getauxval((unsigned long)feature->word) >> feature->bit & 1; }
#else
static const Feature features[] = {{"", 0, 0}};

static bool is_usable(const Feature *feature) { return feature->bit == 0; }
#endif

TVM_DLL int TVMCpuHas(const char *feature) {
  for (size_t i = 0; i < sizeof features / sizeof *features; ++i)
    if (!strcmp(feature, features[i].name)) return is_usable(&features[i]);
  return -1;
}
