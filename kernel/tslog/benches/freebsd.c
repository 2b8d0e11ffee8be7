/*
 * The work of FreeBSD's recorder for one event, as sys/kern/kern_tslog.c describes it: it reads the counter, takes thread 0
 * for a null thread, adds atomically to the number of records, compares it with the size of the array, and does five
 * stores. It is a called function, as in FreeBSD. Written for this comparison.
 */
#include <stddef.h>
#include <stdint.h>

#define RECORDS 262144

struct event {
	void *thread;
	int kind;
	const char *name;
	const char *detail;
	uint64_t ticks;
};

static struct event events[RECORDS];
static volatile long reserved;
static int thread0;
static void *volatile curthread;

static inline uint64_t counter(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* FreeBSD has this function in a separate file, so the compiler must neither inline it nor specialise it here. */
__attribute__((noinline, noclone)) void freebsd_tslog(void *thread, int kind, const char *name, const char *detail);
void freebsd_tslog(void *thread, int kind, const char *name, const char *detail)
{
	uint64_t ticks = counter();
	long slot;

	if (thread == NULL)
		thread = &thread0;
	slot = __atomic_fetch_add(&reserved, 1, __ATOMIC_SEQ_CST);
	if (slot < RECORDS) {
		events[slot].thread = thread;
		events[slot].kind = kind;
		events[slot].name = name;
		events[slot].detail = detail;
		events[slot].ticks = ticks;
	}
}

/* Records `count` events. */
__attribute__((visibility("default"))) void freebsd_events(uint64_t count)
{
	for (; count > 0; count--)
		freebsd_tslog(curthread, 3, "event", "detail");
}

/* Empties the log, and writes all of its memory. */
__attribute__((visibility("default"))) void freebsd_clear(void)
{
	unsigned char *bytes = (unsigned char *)events;
	size_t at;

	for (at = 0; at < sizeof(events); at++)
		((volatile unsigned char *)bytes)[at] = 0;
	reserved = 0;
}
