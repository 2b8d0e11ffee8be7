/* Maps the log's memory at another address and removes the old mapping, as when a kernel turns paging on. Then fills up an
 * arena. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TSLOG_IMPLEMENTATION
#include "tslog.h"

#define BYTES 8192

static void print(void *context, const char *text, size_t bytes)
{
	fwrite(text, 1, bytes, (FILE *)context);
}

static char *map(int file)
{
	return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static TSLOG_REGION(small, 4, 8);

int main(void)
{
	int file = memfd_create("log", 0);
	struct tslog_dump dump;
	char *before, *after;

	if (file < 0 || ftruncate(file, BYTES) != 0)
		return 1;
	before = map(file);
	after = map(file);
	if (!tslog_start_in(before, BYTES / 2, 64))
		return 1;
	strcpy(before + BYTES - 64, "early"); /* a name in the kernel's image, which moves too */
	TSEVENT2(tslog_copy("copied"), before + BYTES - 64);
	tslog_rebase(after - before);
	munmap(before, BYTES);
	TSEVENT2(tslog_copy("copied"), after + BYTES - 64);
	dump = tslog_write_text(print, stdout);
	printf("unresolved %d\n", (int)dump.unresolved);

	if (!tslog_start(&small, sizeof(small), 8))
		return 1;
	TSEVENT(tslog_copy("seven.."));
	TSEVENT(tslog_copy("more"));
	TSEVENT2(tslog_copy(""), tslog_copy(""));
	tslog_write_text(print, stdout);
	printf("overflows %d\n", (int)small.header.arena_overflows);
	if (!tslog_start_in(&small, sizeof(small), 8))
		return 1;
	TSEVENT(tslog_copy("seven"));
	TSEVENT(tslog_copy("more"));
	tslog_write_text(print, stdout);
	printf("overflows %d\n", (int)small.header.arena_overflows);
	return 0;
}
