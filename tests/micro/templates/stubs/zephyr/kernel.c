/* The part of Zephyr's interface that applications use, on a machine with POSIX: the console is the standard input and
 * output, and an interrupt occurs while the application yields. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/reboot.h>

const struct device console = {0};
static uart_irq_callback_user_data_t handler;
static int is_enabled;

int uart_irq_callback_user_data_set(const struct device* device, uart_irq_callback_user_data_t callback, void* user_data) {
  (void)device, (void)user_data;
  handler = callback;
  return 0;
}
void uart_irq_rx_enable(const struct device* device) { is_enabled = device == &console; }
int uart_irq_update(const struct device* device) { return device == &console; }
int uart_irq_rx_ready(const struct device* device) {
  struct pollfd file = {0, POLLIN, 0};
  return device == &console && poll(&file, 1, 0) > 0;
}
int uart_fifo_read(const struct device* device, uint8_t* data, int size) {
  if (!uart_irq_rx_ready(device)) return 0;
  const ssize_t count = read(0, data, (size_t)size);
  if (count <= 0) exit(0);
  return (int)count;
}
void uart_poll_out(const struct device* device, unsigned char byte) {
  (void)device;
  if (write(1, &byte, 1) != 1) exit(0);
}
void k_yield(void) {
  struct pollfd file = {0, POLLIN, 0};
  poll(&file, 1, 10);
  if (is_enabled) handler(&console, NULL);
}
int32_t k_msleep(int32_t milliseconds) {
  fflush(stdout);
  return poll(NULL, 0, milliseconds);
}
uint32_t k_cycle_get_32(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint32_t)((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
}
void printk(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
}
void sys_reboot(int type) { exit(type); }
