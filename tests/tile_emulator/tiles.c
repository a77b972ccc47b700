/* Tile instructions of x86 in C, for machines that have none. State is a thread's own, as registers are. */
#include <stdint.h>
#include <string.h>

static __thread uint8_t config[64];
static __thread uint8_t tiles[8][16][64];

static int rows(int tile) { return config[48 + tile]; }
static int row_bytes(int tile) { return config[16 + 2 * tile] | config[17 + 2 * tile] << 8; }

static float widened(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

void emulated_ldtilecfg(const void *from) {
  memcpy(config, from, 64);
  memset(tiles, 0, sizeof tiles);
}

void emulated_tilerelease(void) { memset(config, 0, sizeof config); }

void emulated_tilezero(int8_t tile) { memset(tiles[tile], 0, sizeof tiles[tile]); }

void emulated_tileloadd64(int8_t tile, const char *from, int64_t stride) {
  memset(tiles[tile], 0, sizeof tiles[tile]);
  for (int r = 0; r < rows(tile); r++) memcpy(tiles[tile][r], from + r * stride, row_bytes(tile));
}

void emulated_tilestored64(int8_t tile, char *to, int64_t stride) {
  for (int r = 0; r < rows(tile); r++) memcpy(to + r * stride, tiles[tile][r], row_bytes(tile));
}

void emulated_tdpbf16ps(int8_t sums, int8_t lhs, int8_t rhs) {
  for (int m = 0; m < rows(sums); m++)
    for (int k = 0; k < row_bytes(lhs) / 4; k++)
      for (int n = 0; n < row_bytes(sums) / 4; n++) {
        float *sum = (float *)tiles[sums][m] + n;
        const uint16_t *a = (const uint16_t *)tiles[lhs][m] + 2 * k, *b = (const uint16_t *)tiles[rhs][k] + 2 * n;
        *sum += widened(a[0]) * widened(b[0]) + widened(a[1]) * widened(b[1]);
      }
}

#define BYTES(name, left, right)                                                                       \
  void emulated_##name(int8_t sums, int8_t lhs, int8_t rhs) {                                          \
    for (int m = 0; m < rows(sums); m++)                                                               \
      for (int k = 0; k < row_bytes(lhs) / 4; k++)                                                     \
        for (int n = 0; n < row_bytes(sums) / 4; n++)                                                  \
          for (int i = 0; i < 4; i++)                                                                  \
            ((int32_t *)tiles[sums][m])[n] += (int32_t)((left *)tiles[lhs][m])[4 * k + i] *            \
                                              (int32_t)((right *)tiles[rhs][k])[4 * n + i];            \
  }
BYTES(tdpbssd, int8_t, int8_t)
BYTES(tdpbsud, int8_t, uint8_t)
BYTES(tdpbusd, uint8_t, int8_t)
BYTES(tdpbuud, uint8_t, uint8_t)
