//! A boot on a terminal's screen: the flame chart of its boot path, its rows, findings and console, and two boots compared, all by
//! keyboard.
//!
//! It takes what the page takes ([`report::PageBoot`]) and computes no figure. Keys change an [`App`], and [`draw()`] paints one; a
//! test does both without a terminal. Every text from a machine passes [`report::harmless()`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod app;
mod chart;
mod details;
mod draw;
mod flame;
mod keys;
mod list;
mod look;
mod pen;
mod rows;
mod search;
mod shown;
mod terminal;
mod view;
mod window;

pub use app::{App, Compare};
pub use draw::draw;
pub use look::Look;
pub use terminal::run;
pub use view::View;
