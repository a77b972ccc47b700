/* ADT values and closures of the virtual machine: objects whose fields are values. */
#include <stdlib.h>

#include "vm.h"

static void delete_object(void *object);

VMObject *vm_object_new(int kind, int64_t tag, uint64_t owner, int64_t count) {
  size_t size;
  if (count < 0 || __builtin_mul_overflow((size_t)count, sizeof(VMValue), &size)) return tvm_set_error("out of memory"), NULL;
  VMObject *object = malloc(sizeof *object + size);
  if (!object) return tvm_set_error("out of memory"), NULL;
  atomic_init(&object->head.refs, 1);
  object->head.kind = kind;
  object->head.token = 0;
  object->head.finalize = delete_object;
  object->tag = tag;
  object->owner = owner;
  object->count = count;
  for (int64_t i = 0; i < count; ++i) object->fields[i].kind = VM_EMPTY;
  return object;
}

/* Deletes an object and the objects that only it references. Recursion could be as deep as a list is long, so objects
 * to be deleted are linked through their token fields. */
static void delete_object(void *object) {
  struct TVMObject *dead = object;
  dead->token = 0;
  while (dead) {
    VMObject *data = (VMObject *)dead;
    dead = (struct TVMObject *)(uintptr_t)dead->token;
    for (int64_t i = 0; i < data->count; ++i) {
      VMValue *field = &data->fields[i];
      if (field->kind != VM_OBJECT || field->as.object->kind == kTVMObjectForeign) {
        vm_value_release(field);
        continue;
      }
      struct TVMObject *child = field->as.object;
      if (atomic_fetch_sub_explicit(&child->refs, 1, memory_order_acq_rel) != 1) continue;
      child->token = (uint64_t)(uintptr_t)dead;
      dead = child;
    }
    free(data);
  }
}

int vm_value_from(TVMValue value, int code, VMValue *out) {
  if (code == kTVMNDArrayHandle && value.v_handle) {
    out->kind = VM_TENSOR;
    out->as.tensor = value.v_handle;
  } else if (code == kTVMObjectHandle && value.v_handle && TVMObjectKind(value.v_handle) != kTVMObjectForeign) {
    out->kind = VM_OBJECT;
    out->as.object = value.v_handle;
  } else if (code == kTVMArgInt) {
    out->kind = VM_INT;
    out->as.number = value.v_int64;
  } else {
    return tvm_error("virtual machine: a value must be an array, an ADT value, a closure or an integer");
  }
  vm_value_retain(out);
  return 0;
}

int vm_value_to(const VMValue *value, TVMValue *out, int *out_code) {
  switch (value->kind) {
    case VM_TENSOR:
      out->v_handle = value->as.tensor;
      *out_code = kTVMNDArrayHandle;
      break;
    case VM_OBJECT:
      out->v_handle = value->as.object;
      *out_code = kTVMObjectHandle;
      break;
    case VM_INT:
      out->v_int64 = value->as.number;
      *out_code = kTVMArgInt;
      break;
    default: return tvm_error("virtual machine: the value is empty or a storage and cannot be returned");
  }
  vm_value_retain(value);
  return 0;
}

int TVMObjectKind(TVMObjectHandle object) { return object->kind; }

int TVMADTCreate(int64_t tag, const TVMValue *fields, const int *codes, int count, TVMObjectHandle *out) {
  VMObject *object = vm_object_new(kTVMObjectADT, tag, 0, count);
  if (!object) return -1;
  for (int i = 0; i < count; ++i) {
    if (!vm_value_from(fields[i], codes[i], &object->fields[i])) continue;
    TVMObjectFree(&object->head);
    return -1;
  }
  *out = &object->head;
  return 0;
}

int64_t TVMADTTag(TVMObjectHandle object) { return ((VMObject *)object)->tag; }

int TVMADTSize(TVMObjectHandle object) { return (int)((VMObject *)object)->count; }

int TVMADTField(TVMObjectHandle object, int index, TVMValue *out, int *out_code) {
  if (object->kind != kTVMObjectADT || index < 0 || index >= ((VMObject *)object)->count)
    return tvm_error("virtual machine: the value has no field with index %d", index);
  return vm_value_to(&((VMObject *)object)->fields[index], out, out_code);
}
