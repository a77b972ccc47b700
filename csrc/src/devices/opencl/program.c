/* OpenCL programs, which are built from source for each device, and launches of their kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

typedef struct { cl_program program; cl_kernel *kernels; } ClProgram; /* one per device */

static int build_program(DeviceModule *m, int device, ClProgram *p) {
  ClDevice *d = &tvm_cl_devices[device];
  const DeviceImage *source = NULL;
  for (int i = 0; i < m->image_count && !source; ++i)
    if (!strcmp(m->images[i].format, "opencl")) source = &m->images[i];
  if (!source) return tvm_error("opencl(%d): the module does not contain OpenCL source", device);
  cl_int code;
  cl_program program = tvm_cl.clCreateProgramWithSource(d->context, 1, (const char **)&source->data, &source->size, &code);
  if (!program) return tvm_cl_failed(device, "clCreateProgramWithSource", code);
  code = tvm_cl.clBuildProgram(program, 1, &d->id, "", NULL, NULL);
  if (code) {
    char log[6000] = "";
    size_t size = 0;
    tvm_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *whole = malloc(size + 1);
    if (whole && !tvm_cl.clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, whole, NULL)) {
      whole[size] = '\0';
      snprintf(log, sizeof log, "%s", whole);
    }
    free(whole);
    tvm_cl.clReleaseProgram(program);
    return tvm_error("opencl(%d), '%s': compiling the kernels failed: %s (%d)\n%s", device, d->name, tvm_cl_error_name(code),
                     (int)code, log);
  }
  p->program = program;
  return 0;
}

/* Requires the module's lock. */
static int find_kernel(DeviceKernel *k, int device, cl_kernel *out) {
  DeviceModule *m = k->module;
  cl_int code;
  if (!m->native && !(m->native = calloc(CL_MAX_DEVICES, sizeof(ClProgram)))) return tvm_error("out of memory");
  ClProgram *p = (ClProgram *)m->native + device;
  if (!p->kernels && !(p->kernels = calloc((size_t)m->kernel_count, sizeof *p->kernels))) return tvm_error("out of memory");
  if (!p->program && build_program(m, device, p)) return -1;
  cl_kernel *slot = &p->kernels[k - m->kernels];
  if (!*slot && !(*slot = tvm_cl.clCreateKernel(p->program, k->name, &code)))
    return tvm_error("opencl(%d): the program does not contain the kernel '%s': %s (%d)", device, k->name, tvm_cl_error_name(code), (int)code);
  *out = *slot;
  return 0;
}

static int set_arguments(DeviceKernel *k, int device, cl_kernel kernel, const KernelArg *args, const LaunchSizes *sizes) {
  for (int i = 0; i < k->arg_count; ++i) {
    cl_int code;
    if (k->args[i].kind == kTVMKernelHandle) {
      cl_mem memory;
      if (tvm_cl_kernel_memory(device, k, i, (void *)(uintptr_t)args[i].bits, &memory)) return -1;
      code = tvm_cl.clSetKernelArg(kernel, (cl_uint)i, sizeof memory, &memory);
    } else {
      code = tvm_cl.clSetKernelArg(kernel, (cl_uint)i, k->args[i].bytes, &args[i].bits);
    }
    if (code) return tvm_error("kernel %s: cannot set argument %d: %s (%d)", k->name, i, tvm_cl_error_name(code), (int)code);
  }
  /* Dynamic shared memory is passed as an additional argument that has a size but no value. */
  cl_uint count = 0;
  if (tvm_cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL) || count == (cl_uint)k->arg_count) return 0;
  size_t shared = sizes->field[LAUNCH_SHARED] ? (size_t)sizes->field[LAUNCH_SHARED] : 1;
  cl_int code = tvm_cl.clSetKernelArg(kernel, (cl_uint)k->arg_count, shared, NULL);
  if (code) return tvm_error("kernel %s: cannot set %zu bytes of dynamic shared memory: %s (%d)", k->name, shared, tvm_cl_error_name(code), (int)code);
  return 0;
}

static int refused_launch(DeviceKernel *k, int device, cl_kernel kernel, cl_int code, const size_t *local, size_t shared) {
  ClDevice *d = &tvm_cl_devices[device];
  size_t limit = 0;
  uint64_t used = 0;
  tvm_cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit, &limit, NULL);
  tvm_cl.clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL);
  return tvm_error("cannot launch kernel %s: %s (%d); requested: a block of %zu x %zu x %zu = %zu threads and %llu bytes of "
                   "shared memory; '%s' allows %zu threads for this kernel (%llu at most) and %llu bytes",
                   k->name, tvm_cl_error_name(code), (int)code, local[0], local[1], local[2], local[0] * local[1] * local[2],
                   (unsigned long long)(used > shared ? used : shared), d->name, limit,
                   (unsigned long long)tvm_cl_number(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)),
                   (unsigned long long)tvm_cl_number(d->id, CL_DEVICE_LOCAL_MEM_SIZE, 8));
}

int tvm_cl_launch(DeviceKernel *k, int device, const KernelArg *args, const LaunchSizes *sizes) {
  size_t global[3], local[3];
  for (int i = 0; i < 3; ++i) {
    local[i] = (size_t)sizes->field[LAUNCH_BLOCK + i];
    global[i] = (size_t)sizes->field[i] * local[i];
  }
  cl_kernel kernel;
  /* Arguments are part of the kernel object: the lock prevents other threads from changing them until it is enqueued. */
  pthread_mutex_lock(tvm_module_lock(k->module));
  int status = find_kernel(k, device, &kernel);
  if (!status) status = set_arguments(k, device, kernel, args, sizes);
  if (!status) {
    cl_int code = tvm_cl.clEnqueueNDRangeKernel(tvm_cl_devices[device].queue, kernel, 3, NULL, global, local, 0, NULL, NULL);
    if (code) status = refused_launch(k, device, kernel, code, local, (size_t)sizes->field[LAUNCH_SHARED]);
  }
  pthread_mutex_unlock(tvm_module_lock(k->module));
  return status;
}

void tvm_cl_unload(DeviceModule *m) {
  ClProgram *programs = m->native;
  for (int d = 0; d < CL_MAX_DEVICES && tvm_cl_is_open(); ++d) {
    for (int i = 0; programs[d].kernels && i < m->kernel_count; ++i)
      if (programs[d].kernels[i]) tvm_cl.clReleaseKernel(programs[d].kernels[i]);
    if (programs[d].program) tvm_cl.clReleaseProgram(programs[d].program);
  }
  for (int d = 0; d < CL_MAX_DEVICES; ++d) free(programs[d].kernels);
  free(programs);
}
