/* The C half of a kernel whose Rust half starts the log. It writes into that log. Compiled with -DTSLOG -DTSLOG_RUST. */
#include <stdint.h>
#include <stdio.h>

static uint64_t current(void)
{
	return 0xc;
}

#define TSLOG_THREAD() current()
#define TSLOG_IMPLEMENTATION
#include "tslog.h"

void c_attach(const char *driver);
void c_flood(uint64_t events);
void c_print(void);

void c_attach(const char *driver)
{
	char name[32];

	TSENTER();
	snprintf(name, sizeof(name), "%s0", driver);
	TSTHREAD(0x1000, tslog_copy(name));
	TSHOLD("root mount");
	TSRELEASE("root mount");
	TSEXIT2("done");
}

void c_flood(uint64_t events)
{
	while (events-- > 0)
		TSEVENT("from C");
}

static void print(void *context, const char *text, size_t bytes)
{
	fwrite(text, 1, bytes, (FILE *)context);
}

void c_print(void)
{
	tslog_write_text(print, stdout);
	fflush(stdout);
}
