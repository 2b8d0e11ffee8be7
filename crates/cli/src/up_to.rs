//! `--up-to`: the option of every command that evaluates boots.

use campaigns::up_to::UpTo;

#[derive(clap::Args, Clone, Debug, Default)]
pub struct UpToArgs {
    /// Look at the boot until this milestone in place of its end mark: process-1, root-mounted, initrd-left, login,
    /// unit:NAME, process:NAME or line:REGEX. `show --milestones` lists those of a recording
    #[arg(long, value_name = "MILESTONE")]
    up_to: Option<String>,
}

impl UpToArgs {
    /// The requested milestone. No boot has been searched for it yet.
    pub fn milestone(&self) -> UpTo {
        UpTo::named(self.up_to.as_deref())
    }
}
