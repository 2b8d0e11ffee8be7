//! The macros. All go through `kernel_!`, `start_!`, `record_!` and `scope_!`, which without the feature `on` throw their
//! tokens away: arguments are then not even evaluated.

/// Defines what records for this kernel: once, in any of its crates, beside its functions. What the kernel has to say is
/// which thread is running, in any context: `kernel!(thread = || current().id())`; or all of a [`Kernel`](crate::Kernel)
/// implementation: `kernel!(MyKernel)`.
#[macro_export]
macro_rules! kernel {
    (thread = $thread:expr $(,)?) => {
        $crate::kernel_!(thread = $thread);
    };
    ($kernel:ty) => {
        $crate::kernel_!($kernel);
    };
}

/// Starts the log, in a static of its own: `start!()`, or with other sizes than the default
/// `start!(records = 4096, arena_bytes = 1024)`.
#[macro_export]
macro_rules! start {
    () => {
        $crate::start_!($crate::layout::DEFAULT_RECORDS, $crate::layout::DEFAULT_ARENA_BYTES)
    };
    (records = $records:expr, arena_bytes = $arena_bytes:expr $(,)?) => {
        $crate::start_!($records, $arena_bytes)
    };
}

/// A function begins: `enter!()`; or what is named: `enter!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! enter {
    () => { $crate::record_!(Enter, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Enter, $name $(, $detail)?) };
}

/// A function ends: `exit!()`; or what was named: `exit!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! exit {
    () => { $crate::record_!(Exit, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Exit, $name $(, $detail)?) };
}

/// A function, or what is named, from here to the end of the block: `let _scope = scope!();`
#[macro_export]
macro_rules! scope {
    () => { $crate::scope_!($crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::scope_!($name $(, $detail)?) };
}

/// What a thread is called: `thread!(id, "usbus0")`.
#[macro_export]
macro_rules! thread {
    ($id:expr, $name:expr $(,)?) => {
        $crate::record_!(thread $id, $name)
    };
}

/// This thread begins to wait for a topic.
#[macro_export]
macro_rules! wait {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "WAIT", $topic)
    };
}

/// This thread no longer waits for a topic.
#[macro_export]
macro_rules! unwait {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "UNWAIT", $topic)
    };
}

/// This thread keeps those who wait for a topic, from now on.
#[macro_export]
macro_rules! hold {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "HOLD", $topic)
    };
}

/// This thread no longer keeps those who wait for a topic.
#[macro_export]
macro_rules! release {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "RELEASE", $topic)
    };
}

/// A CPU now runs this thread: `run!(id, "0")`. For the place where the scheduler switches.
#[macro_export]
macro_rules! run {
    ($id:expr, $cpu:expr $(,)?) => {
        $crate::record_!(event $id, "RUN", $cpu)
    };
}

/// A CPU now runs no thread: `idle!("0")`.
#[macro_export]
macro_rules! idle {
    ($cpu:expr $(,)?) => {
        $crate::record_!(Event, "IDLE", $cpu)
    };
}

/// This thread can run from now on: `ready!(id)` where the running thread woke it, `ready!(id, "timer")` where that
/// interrupt did.
#[macro_export]
macro_rules! ready {
    ($id:expr $(,)?) => {
        $crate::record_!(event $id, "READY")
    };
    ($id:expr, $interrupt:expr $(,)?) => {
        $crate::record_!(event $id, "READY", $interrupt)
    };
}

/// This thread sleeps, from now on for so long at most: `timeout!("250us")`, also `ns`, `ms`, `s`. Within `_sleep`.
#[macro_export]
macro_rules! timeout {
    ($length:expr $(,)?) => {
        $crate::record_!(Event, "TIMEOUT", $length)
    };
}

/// Anything else: `event!("root", "found")`; `event!()` says file and line.
#[macro_export]
macro_rules! event {
    () => { $crate::record_!(Event, ::core::file!(), ::core::concat!(::core::line!())) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Event, $name $(, $detail)?) };
}

/// The function one is in, as a name. Costs nothing when it is recorded: readers cut the function out of a path.
#[doc(hidden)]
#[macro_export]
macro_rules! this_function {
    () => {{
        fn here() {}
        $crate::Name::of_function(::core::any::type_name_of_val(&here))
    }};
}

#[doc(hidden)]
#[cfg(feature = "on")]
#[macro_export]
macro_rules! kernel_ {
    (thread = $thread:expr) => {
        const _: () = {
            struct ThisKernel;

            impl $crate::Kernel for ThisKernel {
                #[inline(always)]
                fn thread() -> u64 {
                    ($thread)()
                }
            }

            $crate::kernel_!(ThisKernel);
        };
    };
    ($kernel:ty) => {
        const _: () = {
            // Not in line: a macro is then a call with four registers, and no more.
            #[inline(never)]
            #[unsafe(no_mangle)]
            unsafe fn __tslog_write(thread: u64, name: u64, detail: u64, word: u64) {
                // SAFETY: only the recorder calls it, with the addresses of names.
                unsafe { $crate::write_for::<$kernel>(thread, name, detail, word) };
            }

            #[unsafe(no_mangle)]
            fn __tslog_source() -> $crate::layout::TicksSource {
                $crate::source_of::<$kernel>()
            }
        };
    };
}

#[doc(hidden)]
#[cfg(feature = "on")]
#[macro_export]
macro_rules! start_ {
    ($records:expr, $arena_bytes:expr) => {{
        static REGION: $crate::Region<{ $records }, { $arena_bytes }> = $crate::Region::new();
        $crate::start(&REGION)
    }};
}

#[doc(hidden)]
#[cfg(feature = "on")]
#[macro_export]
macro_rules! record_ {
    (thread $id:expr, $name:expr) => {
        $crate::record_thread($id, $crate::Name::from($name))
    };
    (event $id:expr, $name:expr) => {
        $crate::record_event_of($id, $crate::Name::from($name), $crate::Name::NONE)
    };
    (event $id:expr, $name:expr, $detail:expr) => {
        $crate::record_event_of($id, $crate::Name::from($name), $crate::Name::from($detail))
    };
    ($kind:ident, $name:expr) => {
        $crate::record($crate::Kind::$kind, $crate::Name::from($name), $crate::Name::NONE)
    };
    ($kind:ident, $name:expr, $detail:expr) => {
        $crate::record($crate::Kind::$kind, $crate::Name::from($name), $crate::Name::from($detail))
    };
}

#[doc(hidden)]
#[cfg(feature = "on")]
#[macro_export]
macro_rules! scope_ {
    ($name:expr) => {
        $crate::Scope::enter($crate::Name::from($name), $crate::Name::NONE)
    };
    ($name:expr, $detail:expr) => {
        $crate::Scope::enter($crate::Name::from($name), $crate::Name::from($detail))
    };
}

#[doc(hidden)]
#[cfg(not(feature = "on"))]
#[macro_export]
macro_rules! kernel_ {
    ($($ignored:tt)*) => {};
}

#[doc(hidden)]
#[cfg(not(feature = "on"))]
#[macro_export]
macro_rules! start_ {
    ($($ignored:tt)*) => {{}};
}

#[doc(hidden)]
#[cfg(not(feature = "on"))]
#[macro_export]
macro_rules! record_ {
    ($($ignored:tt)*) => {{}};
}

#[doc(hidden)]
#[cfg(not(feature = "on"))]
#[macro_export]
macro_rules! scope_ {
    ($($ignored:tt)*) => {
        $crate::Scope::off()
    };
}
