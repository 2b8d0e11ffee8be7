//! Verdicts on changes: benches, ranges, trials of remedies, budgets.

mod bench;
mod check;
mod ci;
mod history;
mod range;
mod tried;
