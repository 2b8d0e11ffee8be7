//! Recordings of the reference kernel.

mod lab_calls;
mod lab_endings;
mod lab_run;
mod scripted;
mod tslog;
