/*
 * Imitates a boot in a program with one thread: the first function starts the log, two threads get names, and the first
 * one waits for root until the second has found it. Prints the log.
 *
 *     cc -DTSLOG -I ../include boot.c -o boot && ./boot
 *
 * Without -DTSLOG it prints nothing.
 */
#include <stdint.h>
#include <stdio.h>

static uint64_t curthread; /* the kernel's running thread; 0 is the first thread */

#define TSLOG_THREAD() curthread
#define TSLOG_IMPLEMENTATION
#include "tslog.h"

static TSLOG_REGION(boot_log, 4096, 1024);

static void delay(int microseconds)
{
	volatile int spin = microseconds;

	TSENTER();
	while (spin > 0)
		spin--;
	TSEXIT();
}

static void usb_explore(unsigned bus)
{
	char name[16];

	curthread = 0x1000;
	snprintf(name, sizeof(name), "usbus%u", bus);
	TSTHREAD(curthread, tslog_copy(name)); /* `name` does not live for ever */
	TSHOLD("root mount");
	delay(900);
	TSRELEASE("root mount");
	curthread = 0;
}

static void mount_root(void)
{
	TSENTER();
	TSWAIT("root mount");
	usb_explore(0);
	TSUNWAIT("root mount");
	TSRAW(TSLOG_THREAD(), TS_ENTER, "VFS_MOUNT", "zfs");
	TSRAW(TSLOG_THREAD(), TS_EXIT, "VFS_MOUNT", "zfs");
	TSEXIT();
}

static void print(void *context, const char *text, size_t bytes)
{
	fwrite(text, 1, bytes, (FILE *)context);
}

int main(void)
{
	struct tslog_dump dump;

	TSEVENT("too early");
	if (!tslog_start(&boot_log, sizeof(boot_log), 1024))
		return 1;
	TSENTER2("hammer_time");
	TSLINE();
	mount_root();
	TSEXIT2("hammer_time");
	dump = tslog_write_text(print, stdout);
	return dump.dropped != 0 || dump.half_written != 0;
}
