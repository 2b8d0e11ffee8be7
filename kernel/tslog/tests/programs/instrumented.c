/* The same functions with and without the recorder's macros: -DINSTRUMENTED leaves them in. */
#include <stdint.h>

extern uint64_t thread_id(void);
extern void outb(unsigned char byte);
extern const char *driver_name(unsigned driver);

#ifdef INSTRUMENTED
#define TSLOG_THREAD() thread_id()
#define TSLOG_IMPLEMENTATION
#include "tslog.h"
#define _(macro) macro
#else
#define _(macro) (void)0
#endif

void delay(unsigned driver)
{
	unsigned byte;

	_(TSENTER2(driver_name(driver)));
	for (byte = 0; byte < driver; byte++)
		outb((unsigned char)byte);
	_(TSEXIT());
}

unsigned mount(unsigned driver)
{
	_(TSENTER());
	_(TSWAIT("root"));
	unsigned found = driver * 3;

	_(TSUNWAIT("root"));
	_(TSHOLD("root"));
	_(TSRELEASE("root"));
	_(TSTHREAD(thread_id(), "idle"));
	_(TSRUN(thread_id(), "0"));
	_(TSREADY2(thread_id(), "timer"));
	_(TSTIMEOUT("1ms"));
	_(TSIDLE("0"));
	_(TSEVENT2("driver", driver_name(driver)));
	_(TSLINE());
	if (found > 7) {
		_(TSEXIT());
		return 0;
	}
	_(TSEXIT2(driver_name(driver)));
	return found;
}
