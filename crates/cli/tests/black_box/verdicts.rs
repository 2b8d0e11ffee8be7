//! Verdicts on changes: benches, ranges, trials of remedies, budgets.

mod bench;
mod check;
mod ci;
mod history;
mod machine_history;
mod range;
mod tried;
