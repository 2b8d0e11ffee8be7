//! Benches from outside: simulated hosts, histories, and what is left when one is killed.

mod choice;
mod history;
mod hyperfine;
mod killed;
mod simulation;
mod support;
