/* Loads damaged copies of a package or of a library, and runs those that load: ./fuzz FILE FOLDER CASES SEED
 *
 * Some copies are damaged anywhere. In others the data of the model is damaged (the graph, the weights, the instructions
 * of the virtual machine, or a header of the archive), and the checksums are those of the damaged data. Native code is
 * not damaged below its checksum, because the processor would execute it.
 */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <tvm/classic.hpp>

using namespace tvm::classic;

namespace {

using Data = std::string;
struct Range { std::size_t start, size; };

std::uint64_t state;
std::uint64_t random_below(std::uint64_t limit) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state % limit;
}

std::uint64_t read_u64(const Data &data, std::size_t at) {
  std::uint64_t number;
  std::memcpy(&number, data.data() + at, 8);
  return number;
}
void write_u64(Data &data, std::size_t at, std::uint64_t number) { std::memcpy(&data[at], &number, 8); }

/* ---- archives ---- */

constexpr std::size_t BLOCK = 512, SIZE_AT = 124, SUM_AT = 148;

std::vector<std::size_t> headers_of(const Data &archive) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at + BLOCK <= archive.size() && archive[at];) {
    found.push_back(at);
    at += BLOCK + (std::stoull(archive.substr(at + SIZE_AT, 12), nullptr, 8) + BLOCK - 1) / BLOCK * BLOCK;
  }
  return found;
}

void fix_header(Data &archive, std::size_t at) {
  std::memset(&archive[at + SUM_AT], ' ', 8);
  unsigned sum = 0;
  for (std::size_t i = 0; i < BLOCK; ++i) sum += static_cast<unsigned char>(archive[at + i]);
  std::snprintf(&archive[at + SUM_AT], 8, "%06o", sum);
}

/* ---- libraries ---- */

/* The packed model in a library: a factory of graph executors or an executable. */
Range packed_model(const Data &library) {
  for (const char *key : {"GraphExecutorFactory", "VMExecutable"}) {
    std::string head(8, '\0');
    write_u64(head, 0, std::strlen(key));
    std::size_t at = library.find(head + key);
    if (at == Data::npos) continue;
    at += head.size() + std::strlen(key);
    return {at + 8, read_u64(library, at)};
  }
  return {0, 0};
}

void fix_library(Data &library, Range model) {
  constexpr std::size_t MAGIC = 8, CHECKSUM = 16, WORDS = 24, TAIL = 16;
  if (!library.compare(model.start, MAGIC, "TVMVMEXE")) { /* its checksum is that of the count and of the words */
    std::uint64_t size = std::min<std::uint64_t>(8 + read_u64(library, model.start + WORDS) % model.size * 8, model.size - WORDS);
    write_u64(library, model.start + CHECKSUM, TVMChecksum(&library[model.start + WORDS], size));
  }
  write_u64(library, library.size() - 8, TVMChecksum(library.data(), library.size() - TAIL));
}

/* ---- damage ---- */

void damage(Data &data, Range range) {
  for (std::uint64_t changes = 1 + random_below(4); changes; --changes) {
    std::size_t at = range.start + random_below(range.size);
    switch (random_below(4)) {
      case 0: data[at] = static_cast<char>(data[at] ^ (1 << random_below(8))); break;
      case 1: data[at] = "0123456789[]{},:\"-"[random_below(18)]; break;
      case 2: data[at] = static_cast<char>(random_below(2) ? 0xff : 0); break;
      default: data[at] = static_cast<char>(random_below(256));
    }
  }
}

void damage_archive(Data &archive) {
  std::vector<std::size_t> headers = headers_of(archive);
  std::size_t at = headers[random_below(headers.size())];
  std::string name(&archive[at]);
  if (random_below(2) || name.find(".so") != Data::npos) {
    damage(archive, {at, BLOCK});
    return fix_header(archive, at);
  }
  damage(archive, {at + BLOCK, std::stoull(archive.substr(at + SIZE_AT, 12), nullptr, 8)});
}

/* A damaged copy. */
Data damaged(const Data &whole) {
  Data copy = whole;
  Range model = packed_model(whole);
  bool is_archive = std::memcmp(whole.data(), "\177ELF", 4) != 0;
  std::uint64_t kind = random_below(8);
  if (kind == 0) copy.resize(random_below(whole.size()));
  else if (kind == 1) damage(copy, {0, whole.size()});
  else if (is_archive) damage_archive(copy);
  else damage(copy, model), fix_library(copy, model);
  return copy;
}

/* ---- use ---- */

void run_graph(const Module &model) {
  GraphExecutor executor = GraphExecutor::create(model, Device::cpu());
  for (const std::string &name : executor.input_names()) {
    Tensor input = executor.input(name);
    executor.set_input(name, input.to(Device::cpu()));
  }
  executor.run();
  for (std::int64_t i = 0; i < executor.num_outputs(); ++i) (void)executor.output(i).to(Device::cpu());
}

/* Damaged instructions may loop forever, so they are not run here; `python -m tools fuzz vm` runs them with a limit. */
void prepare_machine(const Module &model) { (void)VirtualMachine::create(model, Device::cpu()).input_names(); }

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: %s FILE FOLDER CASES SEED\n", argv[0]), 2;
  std::string path = argv[1], suffix = path.substr(path.rfind('.')), copy = std::string(argv[2]) + "/damaged" + suffix;
  std::ifstream file(path, std::ios::binary);
  Data whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  state = 88172645463325252u ^ std::stoull(argv[4]);
  long cases = std::stol(argv[3]), loaded = 0, used = 0;
  for (long i = 0; i < cases; ++i) {
    std::ofstream(copy, std::ios::binary) << damaged(whole);
    try {
      Module model = Module::load(copy);
      ++loaded;
      model.type_key() == "VMExecutable" ? prepare_machine(model) : run_graph(model);
      ++used;
    } catch (const Error &error) {
      if (error.message().empty()) return std::fprintf(stderr, "case %ld: an error without a text\n", i), 1;
    }
  }
  std::printf("%ld damaged copies: %ld were rejected, %ld failed later, %ld worked\n", cases, cases - loaded, loaded - used, used);
  return cases >= 200 && (loaded == 0 || loaded == cases);
}
