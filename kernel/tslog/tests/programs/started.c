/*
 * Interrupts tslog_start() after each of its instructions, by the trap flag. A reader that finds the magic finds a complete
 * header, and no event is lost uncounted. Prints what the interrupts saw.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TSLOG_THREAD() 0x77
#define TSLOG_IMPLEMENTATION
#include "tslog.h"

static TSLOG_REGION(boot_log, 20000, 0);
static struct tslog_header sealed; /* the header of a started log */
static uint64_t traps, sealed_seen, torn_seen;

static void trap(int signal)
{
	(void)signal;
	traps++;
	TSEVENT("nmi");
	if (memcmp(boot_log.header.magic, sealed.magic, sizeof(sealed.magic)) != 0)
		return;
	sealed_seen++;
	torn_seen += memcmp(&boot_log.header, &sealed, 64) != 0;
}

int main(void)
{
	if (!tslog_start(&boot_log, sizeof(boot_log), 0))
		return 1;
	sealed = boot_log.header;
	memset(&boot_log, 0, sizeof(boot_log));
	tslog_region = NULL;

	signal(SIGTRAP, trap);
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "memory", "cc");
	tslog_start(&boot_log, sizeof(boot_log), 0);
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc");

	printf("torn %d, seen %d, early %d, lost %d\n", torn_seen > 0, sealed_seen > 0, boot_log.header.before_start > 0,
	       (int)(traps - boot_log.header.before_start - boot_log.header.next));
	return 0;
}
