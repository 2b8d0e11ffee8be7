//! Names of hosts and users in a program that brings its own C library, as the packaged one does.
//!
//! glibc looks names up through modules that the host's configuration names. A static program loads those of another glibc,
//! and crashes: so did `--serial tcp:HOST:PORT` on Debian 13 with `hosts: myhostname files dns`. It is kept to what it has built in.

#![allow(unsafe_code, reason = "glibc's own setting of its look-ups")]

/// Looks hosts up in /etc/hosts and by DNS, and users in /etc/passwd. To be called before anything else is looked up.
pub fn prepare() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    {
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const libc::c_char, services: *const libc::c_char) -> libc::c_int;
        }
        for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
            // SAFETY: both are strings that end with a zero byte and live for ever; glibc copies what it keeps. No other
            // thread looks anything up yet: main calls this first. What is refused stays as the host has it.
            let _refused = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
