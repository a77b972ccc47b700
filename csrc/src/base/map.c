/* A map from names to pointers: a hash table with linear probing. */
#include <stdlib.h>
#include <string.h>

#include "base.h"

static size_t hash_text(const char *key) {
  uint64_t hash = 1469598103934665603u;
  for (; *key; ++key) hash = (hash ^ (unsigned char)*key) * 1099511628211u;
  return (size_t)(hash ^ (hash >> 29));
}

static MapEntry *find_slot(MapEntry *entries, size_t capacity, const char *key) {
  size_t at = hash_text(key) & (capacity - 1);
  while (entries[at].key && strcmp(entries[at].key, key) != 0) at = (at + 1) & (capacity - 1);
  return &entries[at];
}

void *map_get(const StringMap *map, const char *key) {
  if (!map->count) return NULL;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  return slot->key ? slot->value : NULL;
}

static int grow(StringMap *map) {
  size_t capacity = map->capacity ? map->capacity * 2 : 16;
  MapEntry *entries = calloc(capacity, sizeof *entries);
  if (!entries) return tvm_error("out of memory");
  for (size_t i = 0; i < map->capacity; ++i)
    if (map->entries[i].key) *find_slot(entries, capacity, map->entries[i].key) = map->entries[i];
  free(map->entries);
  map->entries = entries;
  map->capacity = capacity;
  return 0;
}

int map_put(StringMap *map, const char *key, void *value, void **out_old) {
  if (out_old) *out_old = NULL;
  if ((map->count + 1) * 4 > map->capacity * 3 && grow(map)) return -1;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  if (slot->key) {
    if (out_old) *out_old = slot->value;
    slot->value = value;
    return 0;
  }
  if (!(slot->key = strdup(key))) return tvm_error("out of memory");
  slot->value = value;
  ++map->count;
  return 0;
}

void *map_remove(StringMap *map, const char *key) {
  if (!map->count) return NULL;
  MapEntry *slot = find_slot(map->entries, map->capacity, key);
  if (!slot->key) return NULL;
  void *value = slot->value;
  free(slot->key);
  slot->key = NULL;
  --map->count;
  /* Linear probing: entries after a hole move up so that lookups never stop too early. */
  size_t at = (size_t)(slot - map->entries);
  for (;;) {
    at = (at + 1) & (map->capacity - 1);
    MapEntry moved = map->entries[at];
    if (!moved.key) return value;
    map->entries[at].key = NULL;
    *find_slot(map->entries, map->capacity, moved.key) = moved;
  }
}

void map_clear(StringMap *map) {
  for (size_t i = 0; i < map->capacity; ++i) free(map->entries[i].key);
  free(map->entries);
  memset(map, 0, sizeof *map);
}
