//! Tests of the public interface: simulated hosts, histories, and killed benches.

mod choice;
mod history;
mod hyperfine;
mod killed;
mod simulation;
mod support;
