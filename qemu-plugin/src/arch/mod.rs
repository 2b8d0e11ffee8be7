//! What is only true of one architecture: of a guest's, the decoder, which says how a block ends and what else of an
//! instruction changes how calls are followed; of a host's, its counter. `crates/machine/src/arch/README.md` lists what a new one has to give.

pub mod x86_64;

pub use x86_64::counter;
