//! The same functions with and without the recorder's macros: `--cfg instrumented` leaves them in.
#![no_std]
#![crate_type = "lib"]

#[cfg(instrumented)]
tslog::kernel!(thread = || unsafe { thread_id() });

#[allow(dead_code, improper_ctypes)]
unsafe extern "C" {
    fn thread_id() -> u64;
    fn outb(byte: u8);
    fn driver_name(driver: u32) -> &'static str;
}

#[unsafe(no_mangle)]
pub extern "C" fn first_function(driver: u32) {
    #[cfg(instrumented)]
    tslog::start!();
    #[cfg(instrumented)]
    tslog::enter!();
    delay(driver);
    #[cfg(instrumented)]
    {
        tslog::thread!(unsafe { thread_id() }, "idle");
        tslog::ready!(unsafe { thread_id() });
        tslog::ready!(unsafe { thread_id() }, "timer");
        tslog::run!(unsafe { thread_id() }, "0");
        tslog::timeout!("1ms");
        tslog::idle!("0");
        tslog::event!("driver", unsafe { driver_name(driver) });
        tslog::event!();
    }
    mount(driver);
    #[cfg(instrumented)]
    tslog::exit!();
}

#[unsafe(no_mangle)]
pub extern "C" fn delay(driver: u32) {
    #[cfg(instrumented)]
    let _scope = tslog::scope!("DELAY", unsafe { driver_name(driver) });
    for byte in 0..driver {
        unsafe { outb(byte as u8) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mount(driver: u32) -> u32 {
    #[cfg(instrumented)]
    let _scope = tslog::scope!();
    #[cfg(instrumented)]
    tslog::wait!("root");
    let found = driver.wrapping_mul(3);
    #[cfg(instrumented)]
    {
        tslog::unwait!("root");
        tslog::hold!("root");
        tslog::release!("root");
    }
    if found > 7 {
        return 0;
    }
    found
}
