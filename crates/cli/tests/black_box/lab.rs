//! The reference kernel, recorded as any other.

mod lab_calls;
mod lab_endings;
mod lab_run;
mod scripted;
mod tslog;
