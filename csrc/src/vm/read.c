/* Reads executables of the virtual machine from their serialized form and checks them before they run.
 *
 * Serialized form, little endian: VM_MAGIC; eight bytes each for the version, the checksum of all following bytes and
 * the number of words; the words; and the constants in the format of TVMParamsLoad, empty if they are stored elsewhere.
 * The words contain: device types; names of kernels; names and devices of constants; functions (name, parameters with
 * their devices and types, number of registers, instructions). Lists and texts start with their length; a text is
 * padded to a multiple of the word size.
 */
#include <stdlib.h>
#include <string.h>

#include "vm.h"

enum { HEADER = 32, MOST_REGISTERS = 1 << 20, MOST_DEVICES = 16, MOST_SIZES = 64 };

/* The operands of each instruction: d written register, r read register, i integer, u non-negative integer, f function,
 * c constant, p kernel, v device, t data type, j jump relative to the start of the instruction, R list of registers, U
 * list of non-negative integers. */
static const char *const OPERANDS[VM_OPCODES] = {
    [VM_MOVE] = "dr", [VM_RET] = "r", [VM_INVOKE] = "dfR", [VM_INVOKE_CLOSURE] = "drR", [VM_INVOKE_PACKED] = "puR",
    [VM_ALLOC_TENSOR] = "drutU", [VM_ALLOC_TENSOR_REG] = "drurt", [VM_ALLOC_ADT] = "diR", [VM_ALLOC_CLOSURE] = "dfR",
    [VM_GET_FIELD] = "dru", [VM_IF] = "rrjj", [VM_LOAD_CONST] = "dc", [VM_GOTO] = "j", [VM_GET_TAG] = "dr",
    [VM_LOAD_CONSTI] = "di", [VM_FATAL] = "", [VM_ALLOC_STORAGE] = "drutv", [VM_SHAPE_OF] = "dr",
    [VM_RESHAPE_TENSOR] = "drr", [VM_DEVICE_COPY] = "drvv", [VM_KILL_REGISTER] = "R", [VM_SET_FIELD] = "rur"};

typedef struct { const int64_t *at, *end; } Words;

static int damaged(const char *what) { return tvm_error("executable: the file is damaged: %s", what); }

static int read_word(Words *words, int64_t *out) {
  if (words->at == words->end) return damaged("unexpected end of the data");
  *out = *words->at++;
  return 0;
}

/* Reads the length of a list whose entries have at least one word each. */
static int read_count(Words *words, int *out) {
  int64_t count;
  if (read_word(words, &count)) return -1;
  if (count < 0 || count > words->end - words->at || count > INT32_MAX) return damaged("a list is longer than the file");
  *out = (int)count;
  return 0;
}

static int read_text(Words *words, char **out) {
  int64_t size;
  if (read_word(words, &size)) return -1;
  if (size < 0 || size > (words->end - words->at) * 8) return damaged("a name is longer than the file");
  if (memchr(words->at, 0, (size_t)size)) return damaged("a name contains a null character");
  if (!(*out = strndup((const char *)words->at, (size_t)size))) return tvm_error("out of memory");
  words->at += (size + 7) / 8;
  return 0;
}

static int read_device(Words *words, const VMExecutable *exe, int *out) {
  int64_t device;
  if (read_word(words, &device)) return -1;
  if (device < 0 || device >= exe->device_count) return damaged("a device index is out of range");
  *out = (int)device;
  return 0;
}

static int read_devices(VMExecutable *exe, Words *words) {
  if (read_count(words, &exe->device_count)) return -1;
  if (exe->device_count < 1 || exe->device_count > MOST_DEVICES) return damaged("invalid number of devices");
  if (!(exe->devices = calloc((size_t)exe->device_count, sizeof *exe->devices))) return tvm_error("out of memory");
  for (int i = 0; i < exe->device_count; ++i) {
    int64_t type;
    if (read_word(words, &type)) return -1;
    if (type < 1 || type > 127) return damaged("invalid device type");
    exe->devices[i] = (int)type;
  }
  return exe->devices[0] == kDLCPU ? 0 : damaged("the first device is not the host");
}

static int read_kernels(VMExecutable *exe, Words *words) {
  if (read_count(words, &exe->kernel_count)) return -1;
  if (!(exe->kernels = calloc((size_t)exe->kernel_count + 1, sizeof *exe->kernels))) return tvm_error("out of memory");
  for (int i = 0; i < exe->kernel_count; ++i)
    if (read_text(words, &exe->kernels[i])) return -1;
  return 0;
}

static int read_constants(VMExecutable *exe, Words *words) {
  if (read_count(words, &exe->constant_count)) return -1;
  exe->constants = calloc((size_t)exe->constant_count + 1, sizeof *exe->constants);
  if (!exe->constants) return tvm_error("out of memory");
  for (int i = 0; i < exe->constant_count; ++i)
    if (read_text(words, &exe->constants[i].name) || read_device(words, exe, &exe->constants[i].device)) return -1;
  return 0;
}

static bool is_dtype(int64_t word) {
  int64_t code = word & 0xff, bits = word >> 8 & 0xff, lanes = word >> 16;
  bool known = code <= kTVME5M2Float || code >= kCustomBegin;
  return word >= 0 && known && bits >= 1 && bits <= 64 && lanes >= 1 && lanes <= 0xffff;
}

static int read_type(Words *words, const int64_t **out) {
  int count;
  *out = words->at;
  if (read_count(words, &count)) return -1;
  if (count > 1 + MOST_SIZES || (count && !is_dtype(*words->at))) return damaged("invalid type of a parameter");
  words->at += count;
  return 0;
}

static int read_function(VMExecutable *exe, VMFunction *f, Words *words) {
  int64_t registers;
  if (read_text(words, &f->name) || read_count(words, &f->param_count)) return -1;
  f->params = calloc((size_t)f->param_count + 1, sizeof *f->params);
  f->param_devices = calloc((size_t)f->param_count + 1, sizeof *f->param_devices);
  f->param_types = calloc((size_t)f->param_count + 1, sizeof *f->param_types);
  if (!f->params || !f->param_devices || !f->param_types) return tvm_error("out of memory");
  for (int i = 0; i < f->param_count; ++i) {
    if (read_text(words, &f->params[i]) || read_device(words, exe, &f->param_devices[i])) return -1;
    if (read_type(words, &f->param_types[i])) return -1;
  }
  int length;
  if (read_word(words, &registers) || read_count(words, &length)) return -1;
  if (registers < f->param_count || registers > MOST_REGISTERS) return damaged("invalid number of registers");
  f->register_count = (int)registers;
  f->code = words->at;
  f->length = length;
  words->at += length;
  return 0;
}

/* ---- instructions ---- */

static bool is_below(int64_t number, int64_t limit) { return number >= 0 && number < limit; }

static int check_list(const VMFunction *f, char kind, const int64_t *at, const int64_t *end, int64_t *used) {
  int64_t count = *at;
  if (count < 0 || count > end - at - 1) return damaged("truncated instruction");
  for (int64_t i = 1; i <= count; ++i)
    if (kind == 'R' ? !is_below(at[i], f->register_count) : at[i] < 0) return damaged("invalid operand of an instruction");
  *used = count + 1;
  return 0;
}

static bool is_operand(const VMExecutable *exe, const VMFunction *f, char kind, int64_t word) {
  switch (kind) {
    case 'd': case 'r': return is_below(word, f->register_count);
    case 'u': return word >= 0;
    case 'f': return is_below(word, exe->function_count);
    case 'c': return is_below(word, exe->constant_count);
    case 'p': return is_below(word, exe->kernel_count);
    case 'v': return is_below(word, exe->device_count);
    case 't': return is_dtype(word);
    default: return true; /* any integer; jumps are checked after all instructions have been read */
  }
}

static int check_arity(const VMExecutable *exe, const int64_t *in) {
  if (in[0] == VM_INVOKE && in[3] != exe->functions[in[2]].param_count) return damaged("a call has the wrong number of arguments");
  if (in[0] == VM_ALLOC_CLOSURE && in[3] > exe->functions[in[2]].param_count) return damaged("a closure captures too many values");
  if ((in[0] == VM_ALLOC_TENSOR || in[0] == VM_ALLOC_TENSOR_REG) && in[3] % 16) return damaged("the offset of a tensor in its storage is not a multiple of 16");
  if (in[0] == VM_ALLOC_STORAGE && in[3] > 64) return damaged("the alignment of a storage exceeds 64 bytes");
  if (in[0] == VM_INVOKE_PACKED && in[2] > in[3]) return damaged("a kernel call has more outputs than arguments");
  return 0;
}

/* Checks the instruction at `in`; `used` receives its number of words. */
static int check_instruction(const VMExecutable *exe, const VMFunction *f, const int64_t *in, const int64_t *end, int64_t *used) {
  if (!is_below(*in, VM_OPCODES)) return damaged("unknown opcode");
  const int64_t *at = in + 1;
  for (const char *kind = OPERANDS[*in]; *kind; ++kind) {
    int64_t words = 1;
    if (at == end) return damaged("truncated instruction");
    if (*kind == 'R' || *kind == 'U') {
      if (check_list(f, *kind, at, end, &words)) return -1;
    } else if (!is_operand(exe, f, *kind, *at)) {
      return damaged("invalid operand of an instruction");
    }
    at += words;
  }
  *used = at - in;
  return check_arity(exe, in);
}

static int check_jumps(const VMFunction *f, const bool *starts) {
  for (int64_t pc = 0; pc < f->length; ++pc) {
    if (!starts[pc]) continue;
    const int64_t *in = f->code + pc;
    int first = *in == VM_GOTO ? 1 : 3, last = *in == VM_GOTO ? 1 : *in == VM_IF ? 4 : 0;
    for (int i = first; i <= last; ++i)
      if (in[i] < -pc || in[i] >= f->length - pc) return damaged("a jump leaves its function");
      else if (!starts[pc + in[i]]) return damaged("a jump does not lead to the start of an instruction");
  }
  return 0;
}

static int check_function(const VMExecutable *exe, const VMFunction *f) {
  bool *starts = calloc((size_t)f->length + 1, sizeof *starts);
  if (!starts) return tvm_error("out of memory");
  int status = 0;
  int64_t last = VM_MOVE, used;
  for (int64_t pc = 0; pc < f->length && !status; pc += used) {
    starts[pc] = true;
    last = f->code[pc];
    status = check_instruction(exe, f, f->code + pc, f->code + f->length, &used);
  }
  if (!status && last != VM_RET && last != VM_GOTO && last != VM_IF && last != VM_FATAL) status = damaged("a function does not end in a return or jump instruction");
  if (!status) status = check_jumps(f, starts);
  free(starts);
  return status;
}

static int read_functions(VMExecutable *exe, Words *words) {
  if (read_count(words, &exe->function_count)) return -1;
  exe->functions = calloc((size_t)exe->function_count + 1, sizeof *exe->functions);
  if (!exe->functions) return tvm_error("out of memory");
  for (int i = 0; i < exe->function_count; ++i)
    if (read_function(exe, &exe->functions[i], words)) return -1;
  for (int i = 0; i < exe->function_count; ++i)
    if (check_function(exe, &exe->functions[i])) return -1;
  return 0;
}

/* ---- the executable ---- */

/* Keeps a library loaded while arrays use memory inside it. */
typedef struct { DLManagedTensor managed; TVMModuleHandle library; } Keeper;

static void drop_keeper(DLManagedTensor *managed) {
  Keeper *keeper = (Keeper *)managed;
  TVMModFree(keeper->library);
  free(keeper);
}

/* Creates an array over the memory of `from` that keeps the library loaded, because outputs may outlive the executable. */
static int keep_library(TVMArrayHandle from, TVMModuleHandle library, TVMArrayHandle *out) {
  Keeper *keeper = calloc(1, sizeof *keeper);
  if (!keeper) return tvm_error("out of memory");
  keeper->managed.dl_tensor.data = from->data;
  keeper->managed.deleter = drop_keeper;
  keeper->library = library;
  if (tvm_array_within(from->shape, from->ndim, from->dtype, from->device, &keeper->managed, from->byte_offset, out))
    return free(keeper), -1;
  TVMModRetain(library);
  return 0;
}

static int take_params(VMExecutable *exe, const char *data, size_t size, bool in_place) {
  if (!size) return 0;
  if (in_place ? params_borrow(data, size, &exe->params) : TVMParamsLoad(data, size, &exe->params)) return -1;
  StringMap numbers = {0};
  int status = 0;
  for (int i = 0; i < TVMParamsCount(exe->params) && !status; ++i)
    status = map_put(&numbers, TVMParamsName(exe->params, i, NULL), (void *)(intptr_t)(i + 1), NULL);
  for (int i = 0; i < exe->constant_count && !status; ++i) {
    int number = (int)(intptr_t)map_get(&numbers, exe->constants[i].name);
    if (!number) continue;
    TVMArrayHandle array = TVMParamsArray(exe->params, number - 1);
    if (in_place) status = keep_library(array, exe->library, &exe->constants[i].array);
    else TVMArrayRetain(exe->constants[i].array = array);
  }
  map_clear(&numbers);
  return status;
}

/* The checksum covers all bytes after it. In a library it covers the words only: the library file has its own checksum,
 * and the constants may be gigabytes. */
static int check_header(const char *data, size_t size, bool in_place, uint64_t *words) {
  uint64_t version, checksum;
  if (size < HEADER || memcmp(data, VM_MAGIC, 8)) return tvm_error("executable: the data is not an executable of the virtual machine");
  memcpy(&version, data + 8, 8);
  memcpy(&checksum, data + 16, 8);
  memcpy(words, data + 24, 8);
  if (version != VM_VERSION)
    return tvm_error("executable: the file has version %llu, but this runtime reads version %d; compile the model again",
                     (unsigned long long)version, VM_VERSION);
  if (*words > (size - HEADER) / 8) return damaged("unexpected end of the data");
  size_t covered = in_place ? HEADER - 24 + (size_t)*words * 8 : size - 24;
  return checksum == TVMChecksum(data + 24, covered) ? 0 : damaged("the checksum does not match");
}

int vm_read(VMExecutable *exe, const char *data, size_t size, bool in_place) {
  static atomic_ullong ids;
  uint64_t count;
  if (check_header(data, size, in_place, &count)) return -1;
  exe->id = atomic_fetch_add(&ids, 1) + 1;
  exe->word_count = (int64_t)count;
  if (!(exe->words = malloc((size_t)count * 8 + 8))) return tvm_error("out of memory");
  memcpy(exe->words, data + HEADER, (size_t)count * 8);
  Words words = {exe->words, exe->words + count};
  if (read_devices(exe, &words) || read_kernels(exe, &words) || read_constants(exe, &words) || read_functions(exe, &words)) return -1;
  if (words.at != words.end) return damaged("unexpected data after the end");
  size_t start = HEADER + (size_t)count * 8;
  return take_params(exe, data + start, size - start, in_place);
}

void vm_clear(VMExecutable *exe) {
  for (int i = 0; exe->kernels && i < exe->kernel_count; ++i) free(exe->kernels[i]);
  for (int i = 0; exe->constants && i < exe->constant_count; ++i) {
    free(exe->constants[i].name);
    TVMArrayFree(exe->constants[i].array);
  }
  for (int i = 0; exe->functions && i < exe->function_count; ++i) {
    VMFunction *f = &exe->functions[i];
    for (int p = 0; f->params && p < f->param_count; ++p) free(f->params[p]);
    free(f->params);
    free(f->param_devices);
    free(f->param_types);
    free(f->name);
  }
  free(exe->kernels);
  free(exe->constants);
  free(exe->functions);
  free(exe->devices);
  free(exe->words);
  if (exe->params) TVMParamsFree(exe->params);
  if (exe->library) TVMModFree(exe->library);
}

int vm_find_function(const VMExecutable *exe, const char *name) {
  for (int i = 0; i < exe->function_count; ++i)
    if (!strcmp(exe->functions[i].name, name)) return i;
  return -1;
}
