/* A JSON parser for the complete grammar. Nesting is limited so that malicious input cannot exhaust the stack. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"


enum { MAX_DEPTH = 64 };
typedef struct { const char *begin, *at, *end; } Text;

static int broken(const Text *t, const char *what) {
  return tvm_error("json: %s (at byte %zu)", what, (size_t)(t->at - t->begin));
}

static void blanks(Text *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r')) ++t->at;
}

static bool eat(Text *t, char c) {
  blanks(t);
  if (t->at >= t->end || *t->at != c) return false;
  ++t->at;
  return true;
}

static int hex4(Text *t, unsigned *out) {
  if (t->end - t->at < 4) return broken(t, "truncated character escape");
  *out = 0;
  for (int i = 0; i < 4; ++i) {
    char c = *t->at++;
    unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)((c | 32) - 'a' + 10) : 16;
    if (digit > 15) return broken(t, "invalid digit in a character escape");
    *out = *out * 16 + digit;
  }
  return 0;
}

static char *utf8(char *out, unsigned code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xC0 | code >> 6);
    *out++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *out++ = (char)(0xE0 | code >> 12);
    *out++ = (char)(0x80 | (code >> 6 & 63));
    *out++ = (char)(0x80 | (code & 63));
  } else {
    *out++ = (char)(0xF0 | code >> 18);
    *out++ = (char)(0x80 | (code >> 12 & 63));
    *out++ = (char)(0x80 | (code >> 6 & 63));
    *out++ = (char)(0x80 | (code & 63));
  }
  return out;
}

static int escape(Text *t, char **out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (t->at >= t->end) return broken(t, "unterminated string");
  char c = *t->at++;
  if (c == 'u') {
    unsigned code, low;
    if (hex4(t, &code)) return -1;
    if (code >= 0xD800 && code < 0xDC00) {
      if (t->end - t->at < 6 || t->at[0] != '\\' || t->at[1] != 'u') return broken(t, "unpaired surrogate");
      t->at += 2;
      if (hex4(t, &low)) return -1;
      if (low < 0xDC00 || low > 0xDFFF) return broken(t, "unpaired surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *out = utf8(*out, code);
    return 0;
  }
  const char *found = strchr(from, c);
  if (!found || !c) return broken(t, "unknown escape sequence");
  *(*out)++ = to[found - from];
  return 0;
}

static int string(Text *t, char **out) {
  if (!eat(t, '"')) return broken(t, "expected a string");
  const char *stop = t->at;
  while (stop < t->end && *stop != '"') stop += *stop == '\\' && stop + 1 < t->end ? 2 : 1;
  if (stop >= t->end) return broken(t, "unterminated string");
  char *made = malloc((size_t)(stop - t->at) + 1), *at = made;
  if (!made) return tvm_error("out of memory");
  while (*t->at != '"') {
    if (*t->at == '\\') {
      ++t->at;
      if (escape(t, &at)) {
        free(made);
        return -1;
      }
    } else {
      *at++ = *t->at++;
    }
  }
  ++t->at;
  *at = '\0';
  *out = made;
  return 0;
}

static int number(Text *t, Json *out) {
  char buffer[64];
  size_t n = 0;
  bool real = false;
  while (t->at < t->end && n + 1 < sizeof buffer && *t->at && strchr("+-0123456789.eE", *t->at)) {
    real |= *t->at == '.' || (*t->at | 32) == 'e';
    buffer[n++] = *t->at++;
  }
  buffer[n] = '\0';
  char *end;
  errno = 0;
  if (real) out->real = strtod(buffer, &end);
  else out->integer = strtoll(buffer, &end, 10);
  if (!n || *end || errno) return broken(t, "invalid number");
  if (!real) out->real = (double)out->integer;
  out->kind = real ? JSON_REAL : JSON_INT;
  return 0;
}

static int value(Text *t, Json **out, int depth);

static int children(Text *t, Json *parent, char close, int depth) {
  Json **tail = &parent->child;
  if (eat(t, close)) return 0;
  do {
    char *key = NULL;
    if (parent->kind == JSON_OBJECT) {
      if (string(t, &key)) return -1;
      if (!eat(t, ':')) {
        free(key);
        return broken(t, "expected a colon");
      }
    }
    int status = value(t, tail, depth + 1);
    if (*tail) (*tail)->key = key;
    else free(key);
    if (status) return -1;
    tail = &(*tail)->next;
    if (++parent->count > 1 << 24) return broken(t, "too many values");
  } while (eat(t, ','));
  return eat(t, close) ? 0 : broken(t, "expected a comma, ']' or '}'");
}

static int word(Text *t, const char *text, Json *out, JsonKind kind, int64_t integer) {
  size_t n = strlen(text);
  if ((size_t)(t->end - t->at) < n || memcmp(t->at, text, n)) return broken(t, "expected a value");
  t->at += n;
  out->kind = kind;
  out->integer = integer;
  return 0;
}

static int value(Text *t, Json **out, int depth) {
  if (depth > MAX_DEPTH) return broken(t, "values are nested too deeply");
  blanks(t);
  if (t->at >= t->end) return broken(t, "unexpected end of the text");
  Json *json = *out = calloc(1, sizeof *json);
  if (!json) return tvm_error("out of memory");
  switch (*t->at) {
    case '{': ++t->at; json->kind = JSON_OBJECT; return children(t, json, '}', depth);
    case '[': ++t->at; json->kind = JSON_ARRAY; return children(t, json, ']', depth);
    case '"': json->kind = JSON_STRING; return string(t, &json->text);
    case 't': return word(t, "true", json, JSON_BOOL, 1);
    case 'f': return word(t, "false", json, JSON_BOOL, 0);
    case 'n': return word(t, "null", json, JSON_NULL, 0);
    default: return number(t, json);
  }
}

int json_parse(const char *text, size_t size, Json **out) {
  Text t = {text, text, text + size};
  *out = NULL;
  int status = value(&t, out, 0);
  if (!status) {
    blanks(&t);
    if (t.at != t.end) status = broken(&t, "unexpected text after the value");
  }
  if (status) {
    json_free(*out);
    *out = NULL;
  }
  return status;
}

void json_free(Json *json) {
  while (json) {
    Json *next = json->next;
    json_free(json->child);
    free(json->key);
    free(json->text);
    free(json);
    json = next;
  }
}

const Json *json_member(const Json *object, const char *key) {
  if (!object || object->kind != JSON_OBJECT) return NULL;
  for (const Json *at = object->child; at; at = at->next)
    if (!strcmp(at->key, key)) return at;
  return NULL;
}
