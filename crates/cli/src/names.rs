//! Look-ups of hosts and users in a program that includes its own C library, as the packaged one does.
//!
//! glibc looks names up through modules that the host's configuration names. A static program would load modules of
//! another glibc and crash. `--serial tcp:HOST:PORT` did so on Debian 13 with `hosts: myhostname files dns`. So glibc
//! is limited to its built-in look-ups.

#![allow(unsafe_code, reason = "glibc's own setting of its look-ups")]

/// Looks up hosts in /etc/hosts and by DNS, and users in /etc/passwd. Must be called before any look-up.
pub fn prepare() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    {
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const libc::c_char, services: *const libc::c_char) -> libc::c_int;
        }
        for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
            // SAFETY: both are strings that end with a zero byte and live for ever; glibc copies what it keeps. No
            // other thread looks anything up yet: main calls this first. If glibc refuses, the host's configuration
            // stays in use.
            let _refused = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
