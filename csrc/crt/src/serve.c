/* The loop that receives inputs, runs the model, and sends the outputs. */
#include "tvm_crt.h"

static uint32_t total_size(const TVMCrtTensor* tensors, uint32_t count) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < count; ++i) total += tensors[i].size;
  return total;
}

static uint32_t decoded(const uint8_t* bytes) {
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void encode(uint8_t* bytes, uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[i] = (uint8_t)(value >> (8 * i));
}

/* Read and discard the inputs of a request whose size differs from that of the model's inputs. */
static int32_t skip(uint32_t size) {
  uint8_t chunk[64];
  while (size) {
    uint32_t count = size < sizeof chunk ? size : (uint32_t)sizeof chunk;
    if (TVMPlatformRead(chunk, count)) return -1;
    size -= count;
  }
  return 0;
}

static void reply(const TVMCrtModel* model, int32_t status, uint32_t microseconds) {
  uint8_t head[12];
  encode(head, (uint32_t)status);
  encode(head + 4, microseconds);
  encode(head + 8, status ? 0 : total_size(model->outputs, model->num_outputs));
  TVMPlatformWrite(head, sizeof head);
  for (uint32_t i = 0; !status && i < model->num_outputs; ++i)
    TVMPlatformWrite(model->outputs[i].data, model->outputs[i].size);
}

void TVMCrtServe(const TVMCrtModel* model) {
  const uint32_t expected = total_size(model->inputs, model->num_inputs);
  uint8_t head[4];
  while (!TVMPlatformRead(head, sizeof head)) {
    const uint32_t size = decoded(head);
    if (size != expected) {
      TVMPlatformLog("a request has a wrong number of input bytes\n");
      if (skip(size)) return;
      reply(model, TVM_CRT_WRONG_SIZE, 0);
      continue;
    }
    for (uint32_t i = 0; i < model->num_inputs; ++i)
      if (TVMPlatformRead(model->inputs[i].data, model->inputs[i].size)) return;
    const uint32_t begin = TVMPlatformTimeMicroseconds();
    const int32_t status = model->run();
    reply(model, status, TVMPlatformTimeMicroseconds() - begin);
  }
}
