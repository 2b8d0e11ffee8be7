//! The black-box tests: the program as a user runs it, most often with a machine that boots.
//!
//! One program, because each test program is linked with all that bootscope is. `scripts/black-box NAME...` runs the modules of
//! these names. A test that is too long for each change is `#[ignore]`d, with the reason: `make test-all` runs those too.

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
