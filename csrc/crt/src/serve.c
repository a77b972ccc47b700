/* The loop that receives inputs, runs the model, and sends the outputs. */
#include "wire.h"

static uint32_t total_size(const TVMCrtTensor* tensors, uint32_t count) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < count; ++i) total += tensors[i].size;
  return total;
}

static void reply(const TVMCrtModel* model, int32_t status, uint32_t microseconds) {
  tvm_crt_reply(status, microseconds, status ? 0 : total_size(model->outputs, model->num_outputs));
  for (uint32_t i = 0; !status && i < model->num_outputs; ++i)
    TVMPlatformWrite(model->outputs[i].data, model->outputs[i].size);
}

void TVMCrtServe(const TVMCrtModel* model) {
  const uint32_t expected = total_size(model->inputs, model->num_inputs);
  uint8_t head[4];
  while (!TVMPlatformRead(head, sizeof head)) {
    const uint32_t size = tvm_crt_decoded(head);
    if (size != expected) {
      TVMPlatformLog("a request has a wrong number of input bytes\n");
      if (tvm_crt_skip(size)) return;
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
