//! How a boot or its recording ends, and what is left when it ends early.

mod continued;
mod end_marks;
mod endings;
mod interrupted;
mod killed;
mod silence;
