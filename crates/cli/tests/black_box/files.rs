//! Recordings, logs and other files: old, damaged, hostile, from other users, with secrets.

mod anonymous;
mod bad_input;
mod damaged;
mod damaged_boots;
mod early_clock;
mod foreign;
mod forged;
mod hostile_text;
mod kept;
mod limits;
mod not_files;
mod standard_output;
mod temporary;
mod upgrade;
