//! Whether a change helped: benches, ranges, remedies that are tried, budgets.

mod bench;
mod check;
mod ci;
mod history;
mod range;
mod tried;
