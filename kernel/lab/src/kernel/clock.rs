//! Time: `DELAY`, the calibration of the TSC and of the local APIC timer, timer ticks, and the timer for sleeping threads.
//!
//! Until both clocks are calibrated `DELAY` reads the PIT, afterwards the TSC. The local APIC timer of the first CPU is
//! armed for one instant at a time: the next tick, or the wake-up of the first sleeper, whichever is earlier.

use crate::console::{kprintln, verbose};
use crate::sysinit::{Subsystem, sysinit};
use crate::{apic, boot, cpu, pit, thread};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use lab::calibrate::{Rate, Reading, Unusable, by_regression, by_two_readings};
use lab::switches::Calibrate;
use lab::ticks;

sysinit!(cpu, Subsystem::Cpu, 0, calibrate_tsc);
sysinit!(clocks, Subsystem::Clocks, 0, start_ticks);
sysinit!(hrtimers, Subsystem::Hrtimers, 0, timers_are_exact);

const REGRESSION_NS: f64 = 20e6;
const ATTEMPTS: u32 = 4;
const MAX_ERROR_PPM: f64 = 100.0;
const SECOND_US: u64 = 1_000_000;
/// Rounds of about a microsecond between two readings of a port, which take about as long.
const ROUNDS_BETWEEN_READINGS: u32 = 300;

static TSC_HZ: AtomicU64 = AtomicU64::new(0);
static APIC_HZ: AtomicU64 = AtomicU64::new(0);
/// Value of the TSC when ticks began; 0 before that.
static TICKS_BEGAN_TSC: AtomicU64 = AtomicU64::new(0);
/// Number of timer ticks since then.
static TICKS: AtomicU64 = AtomicU64::new(0);
/// True if a timer may expire between two ticks.
static HIGH_RESOLUTION: AtomicBool = AtomicBool::new(false);

/// Keeps the CPU busy for this number of microseconds, like a driver that waits for hardware.
#[inline(never)]
pub fn delay_us(us: u64) {
    let _scope = tslog::scope!("DELAY");
    match APIC_HZ.load(Ordering::Relaxed) {
        0 => delay_by_pit(us),
        _ => {
            let until = cpu::rdtsc() + tsc_ticks(us * 1000);
            while cpu::rdtsc() < until {
                cpu::spin(10);
            }
        }
    }
}

fn delay_by_pit(us: u64) {
    let until = pit::read() + (us * pit::HZ).div_ceil(1_000_000);
    while pit::read() < until {
        cpu::spin(ROUNDS_BETWEEN_READINGS);
    }
}

/// Rate of the TSC; 0 until it is calibrated.
pub fn tsc_hz() -> u64 {
    TSC_HZ.load(Ordering::Relaxed)
}

fn tsc_ticks(ns: u64) -> u64 {
    (u128::from(ns) * u128::from(TSC_HZ.load(Ordering::Relaxed)) / 1_000_000_000) as u64
}

/// Nanoseconds of the TSC, from an arbitrary moment. Valid once the TSC is calibrated.
pub fn now_ns() -> u64 {
    let hz = TSC_HZ.load(Ordering::Relaxed).max(1);
    (u128::from(cpu::rdtsc()) * 1_000_000_000 / u128::from(hz)) as u64
}

/// SYSINIT cpu: calibrates the TSC.
fn calibrate_tsc() {
    let rate = calibrate("TSC", cpu::rdtsc);
    TSC_HZ.store(rate.hz as u64, Ordering::Relaxed);
    tslog::set_ticks_hz(rate.hz as u64);
}

/// SYSINIT clocks: calibrates the local APIC timer, then arms the first tick.
fn start_ticks() {
    apic::free_run();
    let rate = calibrate("local APIC timer", || u64::from(apic::counted()));
    APIC_HZ.store(rate.hz as u64, Ordering::Relaxed);
    TICKS_BEGAN_TSC.store(cpu::rdtsc(), Ordering::Relaxed);
    rearm_for(None);
    x86_64::instructions::interrupts::enable();
    verbose!("clock: {} ticks a second", boot::switches().hz);
}

/// Measures a clock's rate by the PIT, over a second or by regression over 20 ms.
fn calibrate(name: &str, unknown: fn() -> u64) -> Rate {
    let read = || {
        let before = unknown();
        let known = pit::read();
        Reading { before, known, after: unknown() }
    };
    let measure = || match boot::switches().calibrate {
        Calibrate::Delay => over_a_second(read),
        Calibrate::Regression => by_regression(pit::HZ as f64, REGRESSION_NS, || {
            cpu::spin(ROUNDS_BETWEEN_READINGS);
            read()
        }),
    };
    // A virtual CPU that did not run for 55 ms has missed a wrap of the PIT, and the line fits badly.
    let is_good = |rate: &Result<Rate, Unusable>| matches!(rate, Ok(rate) if rate.error_ppm <= MAX_ERROR_PPM);
    let attempt = (0..ATTEMPTS).map(|_| measure()).find(is_good);
    let rate = attempt.unwrap_or_else(measure).unwrap_or_else(|error| panic!("clock::calibrate: {name}: {error:?}"));
    kprintln!(
        "{name}: {}.{:03} MHz, error {}.{:02} ppm, {} readings in {} ms and {} more disturbed",
        rate.hz as u64 / 1_000_000,
        rate.hz as u64 / 1000 % 1000,
        rate.error_ppm as u64,
        (rate.error_ppm * 100.0) as u64 % 100,
        rate.readings,
        rate.took_ns as u64 / 1_000_000,
        rate.disturbed,
    );
    rate
}

fn over_a_second(read: impl Fn() -> Reading) -> Result<Rate, Unusable> {
    let from = read();
    delay_us(SECOND_US);
    by_two_readings(pit::HZ as f64, from, read())
}

/// True once there are ticks, which can wake sleepers.
pub fn is_ticking() -> bool {
    TICKS_BEGAN_TSC.load(Ordering::Relaxed) != 0
}

/// The instant of the tick that is `ticks` after the last one, by `now_ns`.
pub fn tick_ns(ticks: u64) -> u64 {
    let from = u128::from(TICKS_BEGAN_TSC.load(Ordering::Relaxed)) * 1_000_000_000
        / u128::from(TSC_HZ.load(Ordering::Relaxed));
    let count = u128::from(TICKS.load(Ordering::Relaxed) + ticks);
    (from + count * 1_000_000_000 / u128::from(boot::switches().hz)) as u64
}

/// The instant at which a timer expires that is set now for `wait_ns`. While timers are of low resolution it is a tick,
/// later it is exact to the nanosecond. Linux too begins with ticks alone.
pub fn expiry_ns(wait_ns: u64) -> u64 {
    let now = now_ns();
    if HIGH_RESOLUTION.load(Ordering::Relaxed) {
        return now + wait_ns;
    }
    let began_ns = tick_ns(0) - ticks::instant_ns(TICKS.load(Ordering::Relaxed), boot::switches().hz);
    now + ticks::low_resolution_wait_ns(now - began_ns, wait_ns, boot::switches().hz)
}

/// SYSINIT hrtimers: there is a good clock now, so timers no longer wait for ticks.
fn timers_are_exact() {
    HIGH_RESOLUTION.store(true, Ordering::Relaxed);
}

/// Handles the first CPU's timer interrupt.
pub fn timer_interrupt() {
    let now = now_ns();
    while tick_ns(1) <= now {
        TICKS.fetch_add(1, Ordering::Relaxed);
    }
    rearm_for(thread::wake_sleepers(now));
}

/// Rearms the timer, because another CPU's thread may have an earlier wake-up than all others.
pub fn look_again() {
    rearm_for(thread::wake_sleepers(now_ns()));
}

/// Arms the timer for the next tick, or for the first sleeper if it wakes earlier. Only the first CPU's timer is used.
pub fn rearm_for(first_sleeper_ns: Option<u64>) {
    if cpu::this().index.get() != 0 || !is_ticking() {
        return;
    }
    let next = first_sleeper_ns.unwrap_or(u64::MAX).min(tick_ns(1));
    let wait_ns = u128::from(next.saturating_sub(now_ns()));
    let ticks = (wait_ns * u128::from(APIC_HZ.load(Ordering::Relaxed))).div_ceil(1_000_000_000);
    apic::arm_timer(ticks.min(u128::from(u32::MAX)) as u32);
}
