//! The black-box tests: they run the program as a user does, most often with a machine that boots.
//!
//! They are one program, because each test program links all of bootscope. `scripts/black-box NAME...` runs the modules
//! of these names. A test that is too long for each change is `#[ignore]`d with the reason; `make test-all` runs those
//! too.

mod architectures;
mod boots;
mod calls;
mod captured;
mod ends;
mod files;
mod known;
mod lab;
mod lakes;
mod microvms;
mod support;
mod verdicts;
mod views;
