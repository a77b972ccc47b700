// Runs programs on the Verilated core, with a model of DRAM: replies to reads arrive in order after a fixed latency.
//
// Standard input: for each program six 64-bit numbers (instructions, bytes of DRAM, latency, largest number of cycles,
// bytes of a beat, 0), the instructions and DRAM. Standard output: for each program the cycles, or 2^64 - 1 if it did
// not end or left DRAM, and DRAM.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vcore.h"
#include "verilated.h"

namespace {

struct Header {
  uint64_t instructions, dram, latency, limit, beat, reserved;
};

struct Reply {
  uint64_t cycle;
  std::vector<uint8_t> data;
};

bool get(void *data, size_t size) { return size == 0 || fread(data, 1, size, stdin) == size; }
void put(const void *data, size_t size) {
  if (size) fwrite(data, 1, size, stdout);
}

// Signals of up to 64 bits are integers, wider ones arrays of words: both are bytes in memory.
template <typename T>
uint8_t *bytes_of(T &signal) {
  return reinterpret_cast<uint8_t *>(&signal);
}

uint64_t run(const Header &h, const std::vector<uint8_t> &code, std::vector<uint8_t> &dram) {
  auto core = std::make_unique<Vcore>();
  std::deque<Reply> replies;
  uint64_t fetched = 0;
  core->rst = 0;
  core->clk = 0;
  for (uint64_t cycle = 0; cycle < h.limit; ++cycle) {
    core->insn_valid = fetched < h.instructions;
    if (core->insn_valid) memcpy(bytes_of(core->insn_data), &code[fetched * 16], 16);
    bool arrives = !replies.empty() && replies.front().cycle == cycle;
    core->rsp_valid = arrives;
    if (arrives) {
      memcpy(bytes_of(core->rsp_data), replies.front().data.data(), h.beat);
      replies.pop_front();
    }
    core->eval();
    if (core->done) return cycle;
    if (core->insn_valid && core->insn_ready) ++fetched;
    if (core->req_valid) {
      uint64_t address = core->req_address, count = core->req_bytes;
      if (address > dram.size() || count > dram.size() - address) return UINT64_MAX;
      if (core->req_write) {
        memcpy(&dram[address], bytes_of(core->req_data), count);
      } else {
        Reply reply{cycle + h.latency, std::vector<uint8_t>(h.beat)};
        memcpy(reply.data.data(), &dram[address], count);
        replies.push_back(reply);
      }
    }
    core->clk = 1;
    core->eval();
    core->clk = 0;
    core->eval();
  }
  return UINT64_MAX;
}

}  // namespace

int main(int argc, char **argv) {
  Verilated::commandArgs(argc, argv);
  Header header;
  while (get(&header, sizeof header)) {
    std::vector<uint8_t> code(header.instructions * 16), dram(header.dram);
    if (!get(code.data(), code.size()) || !get(dram.data(), dram.size())) return 1;
    uint64_t cycles = run(header, code, dram);
    put(&cycles, sizeof cycles);
    put(dram.data(), dram.size());
    fflush(stdout);
  }
  return 0;
}
