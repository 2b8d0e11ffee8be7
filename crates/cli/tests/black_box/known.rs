//! Known answers: delays, scripts and services of known length.

mod findings_known;
mod findings_truth;
mod services_truth;
mod timed_waits;
mod truth;
mod truth_cpu;
