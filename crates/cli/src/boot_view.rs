//! `--up-to` and `--as`: which part of a boot a command evaluates, and at what prices.

use campaigns::boot_view::BootView;

#[derive(clap::Args, Clone, Debug, Default)]
pub struct BootViewArgs {
    /// Look at the boot until this milestone in place of its end mark: process-1, root-mounted, initrd-left, login,
    /// unit:NAME, process:NAME or line:REGEX. `show --milestones` lists those of a recording
    #[arg(long, value_name = "MILESTONE")]
    up_to: Option<String>,
    /// Price a deterministic boot as the machine of this model runs it: published-2016, or a file
    #[arg(long = "as", value_name = "MODEL")]
    model: Option<String>,
}

impl BootViewArgs {
    /// The requested milestone and model. No boot has been searched or priced yet.
    pub fn boot_view(&self) -> BootView {
        BootView::named(self.up_to.as_deref()).priced_as(self.model.as_deref())
    }
}
