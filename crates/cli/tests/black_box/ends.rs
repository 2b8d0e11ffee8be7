//! The end of a boot or of its recording, and the files left by an early end.

mod continued;
mod end_marks;
mod endings;
mod interrupted;
mod killed;
mod silence;
