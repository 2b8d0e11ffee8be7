/*
 * tslog.h: the event recorder that a kernel embeds, in C11 (and C++), freestanding. This header is all of it.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * If TSLOG is defined, the macros record. Else they produce no code, not one byte.
 *
 *     #define TSLOG_THREAD() ((uint64_t)curthread)   0 unless you define it; called in any context, NMIs included; must
 *                                                    give the first thread the same id from its first event on
 *     #define TSLOG_IMPLEMENTATION                   in one file of the kernel, before the include
 *     #include "tslog.h"
 *
 *     static TSLOG_REGION(boot_log, TSLOG_DEFAULT_RECORDS, TSLOG_DEFAULT_ARENA_BYTES);
 *     tslog_start(&boot_log, sizeof(boot_log), TSLOG_DEFAULT_ARENA_BYTES);     in the first function
 *
 * If the kernel also contains Rust, and Rust starts the log, define TSLOG_RUST too: then both write into one log.
 *
 * Names must live for ever (string literals do), or be copied with tslog_copy(). The recorder takes no lock and allocates
 * nothing. It works before paging, before per-CPU data, in interrupts and in NMIs. The macros' names are those of FreeBSD's
 * sys/tslog.h. The Rust half, src/layout.rs, describes the layout; the assertions below are the same as there.
 *
 * It needs GCC or Clang (atomic builtins, inline assembler), and the memcpy() and memset() that both expect of any program.
 * It needs x86-64, aarch64, riscv64, or your own TSLOG_TICKS(). On aarch64 the log's memory must be Normal memory from the
 * first event on, so translation and caches are on. GCC needs -mno-outline-atomics there.
 */
#ifndef TSLOG_H
#define TSLOG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TSLOG_STATIC_ASSERT static_assert
extern "C" {
#else
#define TSLOG_STATIC_ASSERT _Static_assert
#endif

#define TSLOG_VERSION 1
#define TSLOG_HEADER_BYTES 512
#define TSLOG_RECORD_BYTES 40
#define TSLOG_RANGES_MAX 8
#define TSLOG_DEFAULT_RECORDS 262144
#define TSLOG_DEFAULT_ARENA_BYTES 65536

#define TS_ENTER 1
#define TS_EXIT 2
#define TS_THREAD 3
#define TS_EVENT 4

/* Flag: the name is the path of an item inside the Rust function that is meant. */
#define TSLOG_FUNCTION_PATH 1
#define TSLOG_MARK 0x5354

/* A slot, all zeros until it is written. `word` is stored last and makes the record whole. */
struct tslog_record {
	uint64_t ticks;
	uint64_t thread;
	uint64_t name;
	uint64_t detail;
	uint64_t word; /* u16 name_bytes, u16 detail_bytes (0: up to the NUL), u8 kind, u8 flags, u16 mark */
};

/* A range of virtual addresses and its place in physical memory; `bytes` is stored last. */
struct tslog_range {
	uint64_t virt;
	uint64_t phys;
	uint64_t bytes;
};

struct tslog_header {
	uint64_t magic[2];
	uint32_t version;
	uint32_t header_bytes;
	uint32_t record_bytes;
	uint32_t ranges_max;
	uint64_t capacity;
	uint64_t arena_bytes;
	uint64_t region_virt;
	uint32_t ticks_source;
	uint32_t check;

	uint64_t ticks_hz;
	uint64_t region_virt_now;
	uint64_t before_start;
	uint64_t arena_used;
	uint64_t arena_overflows;
	uint32_t ranges_used;
	uint32_t reserved_108;
	uint64_t moved_at;
	uint64_t reserved_120;

	uint64_t next;
	uint64_t reserved_next[7];
	struct tslog_range ranges[TSLOG_RANGES_MAX];
	uint64_t reserved_end[16];
};

TSLOG_STATIC_ASSERT(sizeof(struct tslog_header) == TSLOG_HEADER_BYTES, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, version) == 16, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, capacity) == 32, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, arena_bytes) == 40, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, region_virt) == 48, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, ticks_source) == 56, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, check) == 60, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, ticks_hz) == 64, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, region_virt_now) == 72, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, before_start) == 80, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, arena_used) == 88, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, arena_overflows) == 96, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, ranges_used) == 104, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, moved_at) == 112, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, next) == 128, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_header, ranges) == 192, "layout");
TSLOG_STATIC_ASSERT(sizeof(struct tslog_range) == 24, "layout");
TSLOG_STATIC_ASSERT(sizeof(struct tslog_record) == TSLOG_RECORD_BYTES, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_record, thread) == 8, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_record, name) == 16, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_record, detail) == 24, "layout");
TSLOG_STATIC_ASSERT(offsetof(struct tslog_record, word) == 32, "layout");

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tslog's layout is little-endian"
#endif

/* The number of bytes that a log needs, and a static for one. It is all zeros, so it takes no room in the kernel's file. */
#define TSLOG_ROUND64(bytes) (((bytes) + 63) / 64 * 64)
#define TSLOG_REGION_BYTES(records, arena_bytes) \
	(TSLOG_ROUND64((size_t)TSLOG_HEADER_BYTES + (size_t)(records) * TSLOG_RECORD_BYTES) + \
	 TSLOG_ROUND64((size_t)(arena_bytes)))
#ifdef TSLOG
#define TSLOG_REGION(name, slots, arena_bytes) \
	struct { \
		struct tslog_header header; \
		struct tslog_record records[slots]; \
		unsigned char arena[TSLOG_ROUND64(arena_bytes)] __attribute__((aligned(64))); \
	} name __attribute__((aligned(64)))
#else
#define TSLOG_REGION(name, slots, arena_bytes) unsigned char name
#endif

/* Counts of what a call of tslog_write_text() printed, and of what it could not print. */
struct tslog_dump {
	uint64_t records;
	uint64_t dropped;
	uint64_t half_written;
	uint64_t malformed;
	uint64_t before_start;
	uint64_t cut;        /* names longer than 1024 bytes */
	uint64_t mended;     /* names in which a character was replaced, and empty names */
	uint64_t unresolved; /* names recorded before the kernel moved itself, and not copied: printed as addresses */
};

/* A function that prints the `bytes` bytes at `text`, which are not NUL-terminated. */
typedef void (*tslog_put)(void *context, const char *text, size_t bytes);

#ifdef TSLOG

#define TSLOG_XSTRING(x) TSLOG_STRING(x)
#define TSLOG_STRING(x) #x

#ifndef TSLOG_THREAD
#define TSLOG_THREAD() ((uint64_t)0)
#endif

#define TSRAW(thread, kind, name, detail) tslog((thread), (kind), (name), (detail))

/* Records an event. */
void tslog(uint64_t thread, uint32_t kind, const char *name, const char *detail);
/* Starts the log in memory that reads as zeros, such as a TSLOG_REGION. The log has as many records as fit beside the
 * arena. Returns 0 if not one record fits, or if the memory is not 64-byte aligned. A second start with the same memory
 * and sizes continues the log. */
int tslog_start(void *memory, size_t bytes, size_t arena_bytes);
/* Does the same in memory found at boot, which it clears first. */
int tslog_start_in(void *memory, size_t bytes, size_t arena_bytes);
/* Continues the log after paging has moved the kernel's image: the log is now mapped at its old address plus `offset`. No
 * other CPU or interrupt may record during this call. From now on, names recorded so far print as addresses, except those
 * copied into the log. */
void tslog_rebase(int64_t offset);
/* Copies a name that does not live for ever. If the arena is full, cuts the name and counts it. Returns NULL before the log
 * is started. */
const char *tslog_copy(const char *name);
/* Sets the counter's rate in ticks per second. Call it as soon as the rate is known. */
void tslog_set_ticks_hz(uint64_t hz);
/* Records that the `bytes` at `virt` are at physical address `phys`. Returns 0 if there is no room for another range. */
int tslog_add_range(uint64_t virt, uint64_t phys, uint64_t bytes);
/* Prints the log, a line per record, as FreeBSD's `sysctl -b debug.tslog` does. */
struct tslog_dump tslog_write_text(tslog_put put, void *context);

/* The log's header, NULL until the log is started, and the number of events before the start. Rust shares both. */
extern struct tslog_header *tslog_region;
extern uint64_t tslog_before_start;

#else /* !TSLOG */

#define TSRAW(thread, kind, name, detail) do { } while (0)

static inline int tslog_start(void *memory, size_t bytes, size_t arena_bytes)
{
	(void)memory, (void)bytes, (void)arena_bytes;
	return 1;
}

static inline int tslog_start_in(void *memory, size_t bytes, size_t arena_bytes)
{
	return tslog_start(memory, bytes, arena_bytes);
}

static inline void tslog_rebase(int64_t offset)
{
	(void)offset;
}

static inline const char *tslog_copy(const char *name)
{
	return name;
}

static inline void tslog_set_ticks_hz(uint64_t hz)
{
	(void)hz;
}

static inline int tslog_add_range(uint64_t virt, uint64_t phys, uint64_t bytes)
{
	(void)virt, (void)phys, (void)bytes;
	return 1;
}

static inline struct tslog_dump tslog_write_text(tslog_put put, void *context)
{
	struct tslog_dump nothing = {0, 0, 0, 0, 0, 0, 0, 0};

	(void)put, (void)context;
	return nothing;
}

#endif /* TSLOG */

#define TSENTER() TSRAW(TSLOG_THREAD(), TS_ENTER, __func__, NULL)
#define TSENTER2(detail) TSRAW(TSLOG_THREAD(), TS_ENTER, __func__, detail)
#define TSEXIT() TSRAW(TSLOG_THREAD(), TS_EXIT, __func__, NULL)
#define TSEXIT2(detail) TSRAW(TSLOG_THREAD(), TS_EXIT, __func__, detail)
#define TSTHREAD(thread, name) TSRAW(thread, TS_THREAD, name, NULL)
#define TSEVENT(name) TSRAW(TSLOG_THREAD(), TS_EVENT, name, NULL)
#define TSEVENT2(name, detail) TSRAW(TSLOG_THREAD(), TS_EVENT, name, detail)
#define TSLINE() TSEVENT2(__FILE__, TSLOG_XSTRING(__LINE__))
#define TSWAIT(topic) TSEVENT2("WAIT", topic)
#define TSUNWAIT(topic) TSEVENT2("UNWAIT", topic)
#define TSHOLD(topic) TSEVENT2("HOLD", topic)
#define TSRELEASE(topic) TSEVENT2("RELEASE", topic)
/* For a scheduler. TSRUN: a CPU ("0") now runs a thread. TSIDLE: it runs no thread. TSREADY: a thread can run from now on,
 * woken by the running thread. TSREADY2: woken by an interrupt ("timer"). TSTIMEOUT: the running thread sleeps, for at most
 * this time ("250us"). */
#define TSRUN(thread, cpu) TSRAW(thread, TS_EVENT, "RUN", cpu)
#define TSIDLE(cpu) TSEVENT2("IDLE", cpu)
#define TSREADY(thread) TSRAW(thread, TS_EVENT, "READY", NULL)
#define TSREADY2(thread, interrupt) TSRAW(thread, TS_EVENT, "READY", interrupt)
#define TSTIMEOUT(length) TSEVENT2("TIMEOUT", length)

#if defined(TSLOG) && defined(TSLOG_IMPLEMENTATION)

#define TSLOG_TICKS_UNKNOWN 0
#define TSLOG_TICKS_TSC 1
#define TSLOG_TICKS_CNTVCT 2
#define TSLOG_TICKS_RISCV_TIME 3
#define TSLOG_TICKS_OWN 4

/* The cycle counter, read without a fence. A fence would cost more than the few nanoseconds by which it moves the stamp.
 * src/counter.rs has the reasons for each choice. */
#ifdef TSLOG_TICKS
#define TSLOG_TICKS_SOURCE TSLOG_TICKS_OWN
static inline uint64_t tslog_hz_now(void)
{
	return 0;
}
#elif defined(__x86_64__)
#define TSLOG_TICKS_SOURCE TSLOG_TICKS_TSC
static inline uint64_t tslog_ticks(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}
static inline uint64_t tslog_hz_now(void)
{
	return 0;
}
#elif defined(__aarch64__)
#define TSLOG_TICKS_SOURCE TSLOG_TICKS_CNTVCT
static inline uint64_t tslog_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}
static inline uint64_t tslog_hz_now(void)
{
	uint64_t hz;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
	return hz & 0xffffffff;
}
#elif defined(__riscv) && __riscv_xlen == 64
#define TSLOG_TICKS_SOURCE TSLOG_TICKS_RISCV_TIME
static inline uint64_t tslog_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("rdtime %0" : "=r"(ticks));
	return ticks;
}
static inline uint64_t tslog_hz_now(void)
{
	return 0;
}
#else
#error "no cycle counter known for this architecture: define TSLOG_TICKS()"
#endif
#ifndef TSLOG_TICKS
#define TSLOG_TICKS() tslog_ticks()
#endif

#ifndef TSLOG_RUST
struct tslog_header *tslog_region;
uint64_t tslog_before_start;
#endif

static inline struct tslog_record *tslog_records(struct tslog_header *header)
{
	return (struct tslog_record *)(header + 1);
}

static inline unsigned char *tslog_arena(struct tslog_header *header)
{
	return (unsigned char *)header +
	       TSLOG_ROUND64(TSLOG_HEADER_BYTES + header->capacity * TSLOG_RECORD_BYTES);
}

void tslog(uint64_t thread, uint32_t kind, const char *name, const char *detail)
{
	struct tslog_header *header = __atomic_load_n(&tslog_region, __ATOMIC_ACQUIRE);
	struct tslog_record *record;
	uint64_t ticks, slot;

	if (header == NULL) {
		__atomic_fetch_add(&tslog_before_start, 1, __ATOMIC_RELAXED);
		return;
	}
	/* Read before the slot is reserved: reserving may wait for other CPUs, and the event happened before that. */
	ticks = TSLOG_TICKS();
	/* Relaxed: each writer only needs a different slot. The slot's own word orders its content. */
	slot = __atomic_fetch_add(&header->next, 1, __ATOMIC_RELAXED);
	if (slot >= header->capacity)
		return;
	record = &tslog_records(header)[slot];
	__atomic_store_n(&record->ticks, ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&record->thread, thread, __ATOMIC_RELAXED);
	__atomic_store_n(&record->name, (uint64_t)(uintptr_t)name, __ATOMIC_RELAXED);
	__atomic_store_n(&record->detail, (uint64_t)(uintptr_t)detail, __ATOMIC_RELAXED);
	/* Stored last: a reader that sees the word sees the whole record. */
	__atomic_store_n(&record->word, (uint64_t)TSLOG_MARK << 48 | (uint64_t)(kind & 0xff) << 32, __ATOMIC_RELEASE);
}

/* Continues an FNV-1a sum, a 32-bit word at a time. */
static uint32_t tslog_sum(uint32_t sum, const void *from, size_t count)
{
	const unsigned char *bytes = (const unsigned char *)from;
	size_t at;

	for (at = 0; at < count; at += 4) {
		uint32_t word = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16 |
				(uint32_t)bytes[at + 3] << 24;
		sum = (sum ^ word) * 0x01000193;
	}
	return sum;
}

/* Completes a header: stores its sum, then the magic, by which readers find it. The magic is computed at run time, so that
 * no compiled program contains it. */
static void tslog_seal(struct tslog_header *header)
{
	volatile uint64_t mask = 0x5aa533cc0ff09669;
	const uint64_t magic[2] = {0x50a8748343a3c2e0 ^ mask, 0xacad466bed6b8baa ^ mask};
	const size_t rest = offsetof(struct tslog_header, version);
	uint32_t sum = tslog_sum(0x811c9dc5, magic, sizeof(magic));

	header->check = tslog_sum(sum, (const unsigned char *)header + rest, offsetof(struct tslog_header, check) - rest);
	__atomic_store_n(&header->magic[0], magic[0], __ATOMIC_RELAXED);
	__atomic_store_n(&header->magic[1], magic[1], __ATOMIC_RELEASE);
}

/* Moves the count of events that came before the log into the log. */
static void tslog_count_early(struct tslog_header *header)
{
	uint64_t early = __atomic_exchange_n(&tslog_before_start, 0, __ATOMIC_RELAXED);

	__atomic_fetch_add(&header->before_start, early, __ATOMIC_RELAXED);
}

int tslog_start(void *memory, size_t bytes, size_t arena_bytes)
{
	struct tslog_header *header = (struct tslog_header *)memory;
	size_t room = bytes / 64 * 64;
	size_t taken = TSLOG_HEADER_BYTES + TSLOG_ROUND64(arena_bytes);

	if ((uintptr_t)memory % 64 != 0 || arena_bytes > bytes || room < taken + TSLOG_RECORD_BYTES)
		return 0;
	header->version = TSLOG_VERSION;
	header->header_bytes = TSLOG_HEADER_BYTES;
	header->record_bytes = TSLOG_RECORD_BYTES;
	header->ranges_max = TSLOG_RANGES_MAX;
	header->capacity = (room - taken) / TSLOG_RECORD_BYTES;
	header->arena_bytes = arena_bytes;
	header->region_virt = (uint64_t)(uintptr_t)memory;
	header->region_virt_now = header->region_virt;
	header->ticks_source = TSLOG_TICKS_SOURCE;
	if (header->ticks_hz == 0)
		header->ticks_hz = tslog_hz_now();
	tslog_seal(header);
	__atomic_store_n(&tslog_region, header, __ATOMIC_RELEASE);
	/* After the store: an interrupt before it still finds no log. */
	tslog_count_early(header);
	return 1;
}

int tslog_start_in(void *memory, size_t bytes, size_t arena_bytes)
{
	volatile unsigned char *byte = (volatile unsigned char *)memory;
	size_t at;

	/* volatile: else the compiler turns the loop into a call of memset, which may not work yet. */
	for (at = 0; at < bytes; at++)
		byte[at] = 0;
	return tslog_start(memory, bytes, arena_bytes);
}

void tslog_rebase(int64_t offset)
{
	struct tslog_header *header = tslog_region;

	if (header == NULL || offset == 0)
		return;
	header = (struct tslog_header *)((uintptr_t)header + (uintptr_t)offset);
	__atomic_store_n(&tslog_region, header, __ATOMIC_RELEASE);
	__atomic_store_n(&header->region_virt_now, (uint64_t)(uintptr_t)header, __ATOMIC_RELAXED);
	__atomic_store_n(&header->moved_at, __atomic_load_n(&header->next, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Takes up to `wanted` bytes of the arena and stores their number in *taken. If there is room for no more than a NUL, takes
 * none and stores 0. */
static unsigned char *tslog_arena_take(struct tslog_header *header, uint64_t wanted, uint64_t *taken)
{
	uint64_t used = __atomic_load_n(&header->arena_used, __ATOMIC_RELAXED);

	do {
		*taken = header->arena_bytes - used < wanted ? header->arena_bytes - used : wanted;
		*taken = *taken > 1 ? *taken : 0;
	} while (!__atomic_compare_exchange_n(&header->arena_used, &used, used + *taken, 1, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return tslog_arena(header) + used;
}

const char *tslog_copy(const char *name)
{
	struct tslog_header *header = __atomic_load_n(&tslog_region, __ATOMIC_ACQUIRE);
	uint64_t bytes = 0, taken, at;
	unsigned char *copy;

	if (header == NULL || name == NULL)
		return NULL;
	while (name[bytes] != '\0')
		bytes++;
	if (bytes == 0)
		return "";
	copy = tslog_arena_take(header, bytes + 1, &taken);
	if (taken < bytes + 1)
		__atomic_fetch_add(&header->arena_overflows, 1, __ATOMIC_RELAXED);
	if (taken == 0)
		return "(arena-full)";
	for (at = 0; at < taken - 1; at++)
		copy[at] = (unsigned char)name[at];
	copy[taken - 1] = '\0';
	return (const char *)copy;
}

void tslog_set_ticks_hz(uint64_t hz)
{
	struct tslog_header *header = __atomic_load_n(&tslog_region, __ATOMIC_ACQUIRE);

	if (header != NULL)
		__atomic_store_n(&header->ticks_hz, hz, __ATOMIC_RELAXED);
}

int tslog_add_range(uint64_t virt, uint64_t phys, uint64_t bytes)
{
	struct tslog_header *header = __atomic_load_n(&tslog_region, __ATOMIC_ACQUIRE);
	struct tslog_range *range;
	uint32_t taken;

	if (header == NULL)
		return 0;
	taken = __atomic_fetch_add(&header->ranges_used, 1, __ATOMIC_RELAXED);
	if (taken >= TSLOG_RANGES_MAX)
		return 0;
	range = &header->ranges[taken];
	__atomic_store_n(&range->virt, virt, __ATOMIC_RELAXED);
	__atomic_store_n(&range->phys, phys, __ATOMIC_RELAXED);
	__atomic_store_n(&range->bytes, bytes, __ATOMIC_RELEASE);
	return 1;
}

/* src/text.rs describes the text form. */
struct tslog_printer {
	tslog_put put;
	void *context;
	struct tslog_dump dump;
	const struct tslog_header *header;
	uint64_t slot;
};

static void tslog_put_string(struct tslog_printer *printer, const char *text)
{
	size_t bytes = 0;

	while (text[bytes] != '\0')
		bytes++;
	printer->put(printer->context, text, bytes);
}

static void tslog_put_number(struct tslog_printer *printer, uint64_t number, unsigned base)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number != 0);
	printer->put(printer->context, digits + at, sizeof(digits) - at);
}

/* Finds the function's name in the path of an item in a Rust function. The name is the last part before the item that is
 * not a closure. */
static const char *tslog_function(const char *path, size_t *bytes)
{
	size_t end = *bytes, at = end;
	int is_item = 1;

	while (at >= 2) {
		at--;
		if (path[at] != ':' || path[at - 1] != ':')
			continue;
		if (!is_item && path[at + 1] != '{') {
			*bytes = end - (at + 1);
			return path + at + 1;
		}
		is_item = 0;
		end = --at;
	}
	*bytes = end;
	return path;
}

/* Returns the present address of a name of the record in `slot`. Returns NULL if the name lies outside of the log and was
 * recorded before the kernel moved itself: the old address may hold anything now. */
static const char *tslog_name_now(const struct tslog_header *header, uint64_t slot, uint64_t address)
{
	uint64_t bytes = TSLOG_ROUND64(TSLOG_HEADER_BYTES + header->capacity * TSLOG_RECORD_BYTES) + header->arena_bytes;

	if (address - header->region_virt < bytes)
		address += header->region_virt_now - header->region_virt;
	else if (address - header->region_virt_now >= bytes && slot < header->moved_at)
		return NULL;
	return (const char *)(uintptr_t)address;
}

/* Prints a name so that it stays in its line and column. Bytes above 0x7f pass unchanged. */
static void tslog_put_name(struct tslog_printer *printer, uint64_t address, unsigned bytes, int path, char space)
{
	const char *text = tslog_name_now(printer->header, printer->slot, address);
	size_t length = 0, at;
	int mended = 0;

	if (text == NULL) {
		tslog_put_string(printer, "@0x");
		tslog_put_number(printer, address, 16);
		printer->dump.unresolved++;
		return;
	}
	while (length <= 1024 && (bytes != 0 ? length < bytes : text[length] != '\0'))
		length++;
	if (length > 1024) {
		length = 1024;
		printer->dump.cut++;
	}
	if (path)
		text = tslog_function(text, &length);
	/* A reader would take a line that ends after its kind for a cut line. */
	if (length == 0 && space == '_') {
		tslog_put_string(printer, "(empty)");
		printer->dump.mended++;
	}
	for (at = 0; at < length; at++) {
		char shown = text[at];

		if (shown == ' ')
			shown = space;
		else if (shown >= '\t' && shown <= '\r' && space == '_')
			shown = '_';
		else if ((unsigned char)shown < ' ' || shown == 0x7f)
			shown = '?';
		mended |= shown != text[at];
		printer->put(printer->context, &shown, 1);
	}
	printer->dump.mended += (uint64_t)mended;
}

static void tslog_put_record(struct tslog_printer *printer, const struct tslog_record *record, uint64_t word)
{
	static const char *const kinds[] = {"", " ENTER ", " EXIT ", " THREAD ", " EVENT "};

	tslog_put_string(printer, "0x");
	tslog_put_number(printer, record->thread, 16);
	tslog_put_string(printer, " ");
	tslog_put_number(printer, record->ticks, 10);
	tslog_put_string(printer, kinds[word >> 32 & 0xff]);
	if (record->name == 0)
		tslog_put_string(printer, "(null)");
	else
		tslog_put_name(printer, record->name, word & 0xffff, (word >> 40 & 0xff) == TSLOG_FUNCTION_PATH, '_');
	if (record->detail != 0) {
		tslog_put_string(printer, " ");
		tslog_put_name(printer, record->detail, word >> 16 & 0xffff, 0, ' ');
	}
	tslog_put_string(printer, "\n");
	printer->dump.records++;
}

static void tslog_put_last_words(struct tslog_printer *printer, uint64_t ticks, const char *what, uint64_t count)
{
	if (count == 0)
		return;
	tslog_put_string(printer, "0x0 ");
	tslog_put_number(printer, ticks, 10);
	tslog_put_string(printer, " EVENT TSLOG ");
	tslog_put_string(printer, what);
	tslog_put_string(printer, " ");
	tslog_put_number(printer, count, 10);
	tslog_put_string(printer, "\n");
}

struct tslog_dump tslog_write_text(tslog_put put, void *context)
{
	struct tslog_header *header = __atomic_load_n(&tslog_region, __ATOMIC_ACQUIRE);
	struct tslog_printer printer = {put, context, {0, 0, 0, 0, 0, 0, 0, 0}, header, 0};
	uint64_t next, slots, slot, last_ticks = 0;

	if (header == NULL)
		return printer.dump;
	/* An event on another CPU may have looked for the log before the start, and been counted after it. */
	tslog_count_early(header);
	/* Loaded first: events from now on, perhaps caused by printing, are not part of the output. */
	next = __atomic_load_n(&header->next, __ATOMIC_RELAXED);
	slots = next < header->capacity ? next : header->capacity;
	printer.dump.dropped = next - slots;
	printer.dump.before_start = __atomic_load_n(&header->before_start, __ATOMIC_RELAXED);
	for (slot = 0; slot < slots; slot++) {
		const struct tslog_record *record = &tslog_records(header)[slot];
		uint64_t word = __atomic_load_n(&record->word, __ATOMIC_ACQUIRE);
		uint64_t kind = word >> 32 & 0xff, flags = word >> 40 & 0xff;

		if (word == 0) {
			printer.dump.half_written++;
		} else if (word >> 48 != TSLOG_MARK || kind < TS_ENTER || kind > TS_EVENT ||
			   flags > TSLOG_FUNCTION_PATH) {
			printer.dump.malformed++;
		} else {
			printer.slot = slot;
			last_ticks = record->ticks;
			tslog_put_record(&printer, record, word);
		}
	}
	tslog_put_last_words(&printer, last_ticks, "dropped", printer.dump.dropped);
	tslog_put_last_words(&printer, last_ticks, "half-written", printer.dump.half_written);
	tslog_put_last_words(&printer, last_ticks, "strange", printer.dump.malformed);
	tslog_put_last_words(&printer, last_ticks, "before-start", printer.dump.before_start);
	tslog_put_last_words(&printer, last_ticks, "hz", __atomic_load_n(&header->ticks_hz, __ATOMIC_RELAXED));
	return printer.dump;
}

#endif /* TSLOG && TSLOG_IMPLEMENTATION */

#ifdef __cplusplus
}
#endif

#endif /* TSLOG_H */
