//! The macros. All that record go through `record_!`, `scope_!` and `start_!`, which without the feature `on` throw their
//! tokens away: arguments are then not even evaluated.

/// Starts the log, in a static of its own: `start!(Kernel)`, or with other sizes than the default
/// `start!(Kernel, records = 4096, arena_bytes = 1024)`.
#[macro_export]
macro_rules! start {
    ($kernel:ty $(,)?) => {
        $crate::start_!($kernel, $crate::layout::DEFAULT_RECORDS, $crate::layout::DEFAULT_ARENA_BYTES)
    };
    ($kernel:ty, records = $records:expr, arena_bytes = $arena_bytes:expr $(,)?) => {
        $crate::start_!($kernel, $records, $arena_bytes)
    };
}

/// A function begins: `enter!()`; or what is named: `enter!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! enter {
    () => { $crate::record_!(None, Enter, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(None, Enter, $name $(, $detail)?) };
}

/// A function ends: `exit!()`; or what was named: `exit!("SYSINIT", "clocks")`.
#[macro_export]
macro_rules! exit {
    () => { $crate::record_!(None, Exit, $crate::this_function!()) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(None, Exit, $name $(, $detail)?) };
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
        $crate::record_!(Some($id), Thread, $name)
    };
}

/// This thread begins to wait for a topic.
#[macro_export]
macro_rules! wait {
    ($topic:expr $(,)?) => {
        $crate::record_!(None, Event, "WAIT", $topic)
    };
}

/// This thread no longer waits for a topic.
#[macro_export]
macro_rules! unwait {
    ($topic:expr $(,)?) => {
        $crate::record_!(None, Event, "UNWAIT", $topic)
    };
}

/// This thread keeps those who wait for a topic, from now on.
#[macro_export]
macro_rules! hold {
    ($topic:expr $(,)?) => {
        $crate::record_!(None, Event, "HOLD", $topic)
    };
}

/// This thread no longer keeps those who wait for a topic.
#[macro_export]
macro_rules! release {
    ($topic:expr $(,)?) => {
        $crate::record_!(None, Event, "RELEASE", $topic)
    };
}

/// Anything else: `event!("root", "found")`; `event!()` says file and line.
#[macro_export]
macro_rules! event {
    () => { $crate::record_!(None, Event, ::core::file!(), ::core::concat!(::core::line!())) };
    ($name:expr $(, $detail:expr)? $(,)?) => { $crate::record_!(None, Event, $name $(, $detail)?) };
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
macro_rules! start_ {
    ($kernel:ty, $records:expr, $arena_bytes:expr) => {{
        static REGION: $crate::Region<{ $records }, { $arena_bytes }> = $crate::Region::new();
        $crate::start::<$kernel, { $records }, { $arena_bytes }>(&REGION)
    }};
}

#[doc(hidden)]
#[cfg(feature = "on")]
#[macro_export]
macro_rules! record_ {
    ($thread:expr, $kind:ident, $name:expr) => {
        $crate::record($thread, $crate::Kind::$kind, $crate::Name::from($name), $crate::Name::NONE)
    };
    ($thread:expr, $kind:ident, $name:expr, $detail:expr) => {
        $crate::record($thread, $crate::Kind::$kind, $crate::Name::from($name), $crate::Name::from($detail))
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
