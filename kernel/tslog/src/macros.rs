//! The macros. All of them expand to `kernel_!`, `start_!`, `record_!` and `scope_!`. Without the feature `on`, these throw
//! their tokens away, so that arguments are not even evaluated.

/// Defines the recording function of this kernel. Use it once, in any of the kernel's crates, at module level.
///
/// Give it a function that returns the running thread's id in any context: `kernel!(thread = || current().id())`. Or give
/// it a whole [`Kernel`](crate::Kernel) implementation: `kernel!(MyKernel)`.
#[macro_export]
macro_rules! kernel {
    (thread = $thread:expr $(,)?) => {
        $crate::kernel_!(thread = $thread);
    };
    ($kernel:ty) => {
        $crate::kernel_!($kernel);
    };
}

/// Starts the log in a static that the macro declares: `start!()`, or with other sizes than the default
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

/// Records that a function begins: `enter!()`, or that a named step begins: `enter!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! enter {
    () => { $crate::record_!(Enter, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Enter, $name $(, $detail)?) };
}

/// Records that a function ends: `exit!()`, or that a named step ends: `exit!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! exit {
    () => { $crate::record_!(Exit, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Exit, $name $(, $detail)?) };
}

/// Records a function, or a named step, from here to the end of the block: `let _scope = scope!();`
#[macro_export]
macro_rules! scope {
    () => { $crate::scope_!($crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::scope_!($name $(, $detail)?) };
}

/// Records the name of a thread: `thread!(id, "usbus0")`.
#[macro_export]
macro_rules! thread {
    ($id:expr, $name:expr $(,)?) => {
        $crate::record_!(thread $id, $name)
    };
}

/// Records that this thread begins to wait for a topic.
#[macro_export]
macro_rules! wait {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "WAIT", $topic)
    };
}

/// Records that this thread no longer waits for a topic.
#[macro_export]
macro_rules! unwait {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "UNWAIT", $topic)
    };
}

/// Records that this thread blocks the threads that wait for a topic, from now on.
#[macro_export]
macro_rules! hold {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "HOLD", $topic)
    };
}

/// Records that this thread no longer blocks the threads that wait for a topic.
#[macro_export]
macro_rules! release {
    ($topic:expr $(,)?) => {
        $crate::record_!(Event, "RELEASE", $topic)
    };
}

/// Records that a CPU now runs this thread: `run!(id, "0")`. Use it where the scheduler switches threads.
#[macro_export]
macro_rules! run {
    ($id:expr, $cpu:expr $(,)?) => {
        $crate::record_!(event $id, "RUN", $cpu)
    };
}

/// Records that a CPU now runs no thread: `idle!("0")`.
#[macro_export]
macro_rules! idle {
    ($cpu:expr $(,)?) => {
        $crate::record_!(Event, "IDLE", $cpu)
    };
}

/// Records that a thread can run from now on: `ready!(id)` if the running thread woke it, `ready!(id, "timer")` if that
/// interrupt woke it.
#[macro_export]
macro_rules! ready {
    ($id:expr $(,)?) => {
        $crate::record_!(event $id, "READY")
    };
    ($id:expr, $interrupt:expr $(,)?) => {
        $crate::record_!(event $id, "READY", $interrupt)
    };
}

/// Records that this thread sleeps from now on, for at most this time: `timeout!("250us")`, also `ns`, `ms`, `s`. Use it
/// inside the function `_sleep`.
#[macro_export]
macro_rules! timeout {
    ($length:expr $(,)?) => {
        $crate::record_!(Event, "TIMEOUT", $length)
    };
}

/// Records any other event: `event!("root", "found")`. `event!()` records file and line.
#[macro_export]
macro_rules! event {
    () => { $crate::record_!(Event, ::core::file!(), ::core::concat!(::core::line!())) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(Event, $name $(, $detail)?) };
}

/// The name of the surrounding function. It costs nothing to record: readers cut the function's name out of a path.
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
            // Not inline, so that a macro is no more than a call with four registers.
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
