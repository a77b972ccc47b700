#ifndef REBOOT_H_
#define REBOOT_H_
#define SYS_REBOOT_COLD 1
void sys_reboot(int type);
#endif
