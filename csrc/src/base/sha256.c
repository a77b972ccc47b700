#include <string.h>

#include "base.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void mix(Sha256 *hash, const unsigned char *block) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; ++i)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  memcpy(s, hash->state, sizeof s);
  for (int i = 0; i < 64; ++i) {
    uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25), choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    uint32_t first = s[7] + e + choice + K[i] + w[i];
    uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
    uint32_t second = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) hash->state[i] += s[i];
}

void sha256_start(Sha256 *hash) {
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, first, sizeof first);
  hash->length = hash->used = 0;
}

void sha256_add(Sha256 *hash, const void *data, size_t size) {
  const unsigned char *at = data;
  hash->length += size;
  while (size) {
    size_t room = SHA256_BLOCK - hash->used, take = size < room ? size : room;
    memcpy(hash->block + hash->used, at, take);
    hash->used += take;
    at += take;
    size -= take;
    if (hash->used == SHA256_BLOCK) {
      mix(hash, hash->block);
      hash->used = 0;
    }
  }
}

void sha256_end(Sha256 *hash, unsigned char out[SHA256_BYTES]) {
  static const unsigned char padding[SHA256_BLOCK] = {0x80};
  uint64_t bits = hash->length * 8;
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = (unsigned char)(bits >> (56 - 8 * i));
  sha256_add(hash, padding, 1 + (SHA256_BLOCK + 55 - hash->used) % SHA256_BLOCK);
  sha256_add(hash, length, 8);
  for (int i = 0; i < SHA256_BYTES; ++i) out[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_sha256(const void *key, size_t key_size, const HashPart *parts, int count, unsigned char out[SHA256_BYTES]) {
  unsigned char padded[SHA256_BLOCK] = {0}, inner[SHA256_BYTES];
  Sha256 hash;
  if (key_size > SHA256_BLOCK) {
    sha256_start(&hash);
    sha256_add(&hash, key, key_size);
    sha256_end(&hash, padded);
  } else if (key_size) {
    memcpy(padded, key, key_size);
  }
  for (int i = 0; i < SHA256_BLOCK; ++i) padded[i] ^= 0x36;
  sha256_start(&hash);
  sha256_add(&hash, padded, sizeof padded);
  for (int i = 0; i < count; ++i)
    if (parts[i].size) sha256_add(&hash, parts[i].data, parts[i].size);
  sha256_end(&hash, inner);
  for (int i = 0; i < SHA256_BLOCK; ++i) padded[i] ^= 0x36 ^ 0x5c;
  sha256_start(&hash);
  sha256_add(&hash, padded, sizeof padded);
  sha256_add(&hash, inner, sizeof inner);
  sha256_end(&hash, out);
}

bool same_bytes(const unsigned char *a, const unsigned char *b, size_t size) {
  unsigned char differ = 0;
  for (size_t i = 0; i < size; ++i) differ |= (unsigned char)(((const volatile unsigned char *)a)[i] ^ b[i]);
  return !differ;
}
