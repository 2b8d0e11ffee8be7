/*
 * A kernel for QEMU's virt machine, aarch64. It records its boot with tslog.h, prints the log on its serial port and
 * switches the machine off. Two CPUs write into the one log: the second looks for the root disk, the first waits for it.
 *
 *     clang --target=aarch64-none-elf -mgeneral-regs-only -mstrict-align -ffreestanding -O2 -DTSLOG -I ../../include \
 *         -c kernel.c start.s
 *     aarch64-linux-gnu-ld -T kernel.ld start.o kernel.o -o kernel.elf
 *     aarch64-linux-gnu-objcopy -O binary kernel.elf kernel.img
 *     qemu-system-aarch64 -M virt -cpu cortex-a57 -smp 2 -display none -serial file:serial.txt -kernel kernel.img
 *     bootscope import serial.txt -o boots/arm && bootscope show boots/arm
 *
 * bootscope can also boot and record it, and takes the log out of its memory:
 *     bootscope record --kernel kernel.img --arch aarch64 --cpus 2 --init keep --until poweroff -o boots/arm
 *
 * GCC also needs -mno-outline-atomics: a kernel has no libgcc that checks which atomics the processor has.
 *
 * kernel/tslog/check-boot-aarch64 does all of this. It compares bootscope's figures with the lines `truth`. These give the
 * length of the same stretches by the same counter, read just inside and just outside of their two records.
 */
#include <stdint.h>

/* The length of each step, in microseconds. */
#ifndef CLOCKS_US
#define CLOCKS_US 3000
#endif
#ifndef BUS_US
#define BUS_US 2000
#endif
#ifndef DISK_US
#define DISK_US 9000
#endif

/* The id of the running thread. TPIDR_EL1 holds it on each CPU, from before the first event on. */
static inline uint64_t current_thread(void)
{
	uint64_t id;

	__asm__ volatile("mrs %0, tpidr_el1" : "=r"(id));
	return id;
}

#define TSLOG_THREAD() current_thread()
#define TSLOG_IMPLEMENTATION
#include "tslog.h"

#define RECORDS 256
#define ARENA_BYTES 64
#define PROBE_THREAD 0x1000

static TSLOG_REGION(boot_log, RECORDS, ARENA_BYTES);

extern char kernel_begin[], kernel_end[];
void second_cpu_entry(void);
void kernel_main(uint64_t entered_at);
void probe_main(uint64_t entered_at);

/* --- the machine ------------------------------------------------------------------------------------------------- */

static volatile uint32_t *const uart = (volatile uint32_t *)0x09000000; /* a PL011 */

#define UART_DATA 0
#define UART_FLAGS (0x18 / 4)
#define UART_FULL (1 << 5)

static void put(void *context, const char *text, size_t bytes)
{
	(void)context;
	for (; bytes > 0; bytes--, text++) {
		while (uart[UART_FLAGS] & UART_FULL)
			;
		uart[UART_DATA] = (unsigned char)*text;
	}
}

static void put_text(const char *text)
{
	size_t bytes = 0;

	while (text[bytes] != '\0')
		bytes++;
	put(NULL, text, bytes);
}

static void put_number(uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	put(NULL, digits + at, sizeof(digits) - at);
}

#define PSCI_SYSTEM_OFF 0x84000008
#define PSCI_CPU_ON 0xc4000003

static int psci_is_below_el2;

/* Calls PSCI. It is in EL2 for a kernel that was entered at EL1, and in EL3 for a kernel that was entered at EL2. */
static int64_t psci(uint64_t function, uint64_t cpu, uint64_t entry, uint64_t argument)
{
	register uint64_t x0 __asm__("x0") = function;
	register uint64_t x1 __asm__("x1") = cpu;
	register uint64_t x2 __asm__("x2") = entry;
	register uint64_t x3 __asm__("x3") = argument;

	if (psci_is_below_el2)
		__asm__ volatile("hvc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
	else
		__asm__ volatile("smc #0" : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3) : : "memory");
	return (int64_t)x0;
}

/* Reads the counter after all earlier instructions are done, as waiting by the clock requires. The recorder's own reads may
 * come early. */
static uint64_t now(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
	return ticks;
}

/* For loops that wait. If QEMU runs all CPUs in one thread, this gives the other CPUs a turn. */
static inline void yield(void)
{
	__asm__ volatile("yield");
}

static uint64_t ticks_of(uint64_t microseconds)
{
	uint64_t hz;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
	return microseconds * hz / 1000000;
}

/* --- measurements of this boot beside the log -------------------------------------------------------------------- */

/* A stretch between two records: the counter just before and just after each of the two. */
struct stretch {
	uint64_t before_first, after_first, before_last, after_last;
};

/* Prints the ticks from one moment to another, 0 if `to` is earlier: a wait for something that has already happened. */
static void put_ticks(uint64_t from, uint64_t to)
{
	put_number(to > from ? to - from : 0);
	put_text(" ");
}

static void put_truth(const char *name, const struct stretch *stretch)
{
	put_text("truth ");
	put_ticks(stretch->after_first, stretch->before_last);
	put_ticks(stretch->before_first, stretch->after_last);
	put_text(name);
	put_text("\n");
}

static struct stretch clocks_delay, bus_delay, disk_delay, root_wait, boot;

/* --- the boot ---------------------------------------------------------------------------------------------------- */

static void spin(uint64_t microseconds)
{
	uint64_t from = now(), ticks = ticks_of(microseconds);

	while (now() - from < ticks)
		yield();
}

static void delay(uint64_t microseconds, struct stretch *truth)
{
	truth->before_first = now();
	TSRAW(TSLOG_THREAD(), TS_ENTER, "DELAY", NULL);
	truth->after_first = now();
	spin(microseconds);
	truth->before_last = now();
	TSRAW(TSLOG_THREAD(), TS_EXIT, "DELAY", NULL);
	truth->after_last = now();
}

static void clocks(void)
{
	delay(CLOCKS_US, &clocks_delay);
}

static uint64_t cpus = 1;

/* The second CPU's thread blocks the root mount from before it runs. */
static void start_probe(void)
{
	TSTHREAD(PROBE_THREAD, tslog_copy("probe"));
	TSRAW(PROBE_THREAD, TS_EVENT, "HOLD", "root mount");
	if (psci(PSCI_CPU_ON, 1, (uint64_t)(uintptr_t)second_cpu_entry, PROBE_THREAD) != 0)
		put_text("no second CPU: start QEMU with -smp 2\n");
	else
		cpus = 2;
}

static void bus(void)
{
	delay(BUS_US, &bus_delay);
}

static int root_found;

void probe_main(uint64_t entered_at)
{
	(void)entered_at;
	TSRAW(TSLOG_THREAD(), TS_ENTER, "DEVICE_ATTACH", "disk0");
	delay(DISK_US, &disk_delay);
	TSRAW(TSLOG_THREAD(), TS_EXIT, "DEVICE_ATTACH", "disk0");
	root_wait.before_last = now();
	TSRELEASE("root mount");
	root_wait.after_last = now();
	__atomic_store_n(&root_found, 1, __ATOMIC_RELEASE);
}

static const struct {
	const char *name;
	void (*function)(void);
} sysinits[] = {{"clocks", clocks}, {"probe", start_probe}, {"bus", bus}};

static void mi_startup(void)
{
	size_t at;

	TSENTER();
	for (at = 0; at < sizeof(sysinits) / sizeof(sysinits[0]); at++) {
		TSRAW(TSLOG_THREAD(), TS_ENTER, "SYSINIT", sysinits[at].name);
		sysinits[at].function();
		TSRAW(TSLOG_THREAD(), TS_EXIT, "SYSINIT", sysinits[at].name);
	}
	TSEXIT();
}

static void start_init(void)
{
	TSENTER();
	root_wait.before_first = now();
	TSWAIT("root mount");
	root_wait.after_first = now();
	while (!__atomic_load_n(&root_found, __ATOMIC_ACQUIRE))
		yield();
	TSUNWAIT("root mount");
	boot.before_last = now();
	TSEXIT();
	boot.after_last = now();
}

void kernel_main(uint64_t entered_at)
{
	uint64_t bytes = (uint64_t)(kernel_end - kernel_begin), base = (uint64_t)(uintptr_t)kernel_begin;

	psci_is_below_el2 = entered_at == 1;
	tslog_start(&boot_log, sizeof(boot_log), ARENA_BYTES);
	boot.before_first = now();
	TSTHREAD(TSLOG_THREAD(), "thread0");
	boot.after_first = now();
	tslog_add_range(base, base, bytes);
	mi_startup();
	start_init();

	put_text("entered at EL");
	put_number(entered_at);
	put_text("\n");
	tslog_write_text(put, NULL);
	put_text("hw.ncpu: ");
	put_number(cpus);
	put_text("\n");
	put_truth("SYSINIT clocks", &clocks_delay);
	put_truth("SYSINIT bus", &bus_delay);
	put_truth("DEVICE_ATTACH disk0", &disk_delay);
	put_truth("THREAD probe", &root_wait);
	put_truth("total", &boot);
	psci(PSCI_SYSTEM_OFF, 0, 0, 0);
}
