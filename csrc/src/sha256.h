/* SHA-256 (FIPS 180-4), HMAC over it (RFC 2104), and a comparison that takes the same time for all contents. */
#ifndef TVM_SRC_SHA256_H_
#define TVM_SRC_SHA256_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };
typedef struct { uint32_t state[8]; uint64_t length; unsigned char block[SHA256_BLOCK]; size_t used; } Sha256;

void sha256_start(Sha256 *hash);
void sha256_add(Sha256 *hash, const void *data, size_t size);
void sha256_end(Sha256 *hash, unsigned char out[SHA256_BYTES]);

/* `parts` are hashed one after the other, as if they were one text. */
typedef struct { const void *data; size_t size; } HashPart;
void hmac_sha256(const void *key, size_t key_size, const HashPart *parts, int count, unsigned char out[SHA256_BYTES]);
bool same_bytes(const unsigned char *a, const unsigned char *b, size_t size);

#endif /* TVM_SRC_SHA256_H_ */
