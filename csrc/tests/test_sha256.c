/* Public test vectors: the examples of FIPS 180-4 and RFC 4231. */
#include "../src/base/base.h"

#include "check.h"

static void expect(const unsigned char *got, const char *hex) {
  char text[2 * SHA256_BYTES + 1];
  for (int i = 0; i < SHA256_BYTES; ++i) snprintf(text + 2 * i, 3, "%02x", got[i]);
  CHECK(!strcmp(text, hex));
}

static void hash_is(const char *text, size_t pieces, const char *hex) {
  Sha256 hash;
  unsigned char out[SHA256_BYTES];
  sha256_start(&hash);
  for (size_t i = 0, n = strlen(text); i < n; i += pieces) sha256_add(&hash, text + i, i + pieces < n ? pieces : n - i);
  sha256_end(&hash, out);
  expect(out, hex);
}

static void test_hash(void) {
  static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  hash_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash_is("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  for (size_t pieces = 1; pieces < 60; ++pieces)
    hash_is(two, pieces, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_a_million_letters(void) {
  char *text = malloc(1000001);
  memset(text, 'a', 1000000);
  text[1000000] = 0;
  hash_is(text, 997, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(text);
}

static void hmac_is(const void *key, size_t key_size, const char *data, size_t size, const char *hex) {
  unsigned char out[SHA256_BYTES];
  HashPart whole = {data, size}, cut[] = {{data, size / 3}, {data + size / 3, size - size / 3}};
  hmac_sha256(key, key_size, &whole, 1, out);
  expect(out, hex);
  hmac_sha256(key, key_size, cut, 2, out);
  expect(out, hex);
}

static void test_hmac(void) {
  unsigned char key[131], data[50];
  memset(key, 0x0b, 20);
  hmac_is(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  hmac_is("Jefe", 4, "what do ya want for nothing?", 28, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, sizeof key);
  memset(data, 0xdd, sizeof data);
  hmac_is(key, 20, (char *)data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  static const char large[] = "Test Using Larger Than Block-Size Key - Hash Key First";
  hmac_is(key, 131, large, sizeof large - 1, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_comparison(void) {
  unsigned char a[SHA256_BYTES] = {1, 2, 3}, b[SHA256_BYTES] = {1, 2, 3};
  CHECK(same_bytes(a, b, sizeof a));
  for (int i = 0; i < SHA256_BYTES; ++i) {
    b[i] ^= 0x80;
    CHECK(!same_bytes(a, b, sizeof a));
    b[i] ^= 0x80;
  }
}

int main(void) {
  RUN(test_hash);
  RUN(test_a_million_letters);
  RUN(test_hmac);
  RUN(test_comparison);
  return 0;
}
