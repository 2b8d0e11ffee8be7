//! `bootscope range`: builds, boots and compares commits of a repository.

use crate::boot_options::BootArgs;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use benchmark::range::Verdict;
use campaigns::range::{RangeResult, Request};
use std::path::PathBuf;
use std::time::Duration;

/// Bench a range of commits, or find the first slow one
///
/// bootscope checks commits out in a work tree of its own. Your tree, index, branch and stash stay as they are. Built
/// kernels are kept by the hash of their tree. A commit that does not build or boot is skipped, as by git bisect skip.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The commits, as git rev-list takes them: v6.1..v6.2, or ^v6.1 HEAD
    #[arg(required = true, value_name = "RANGE")]
    range: Vec<String>,
    /// The command that builds a kernel, run by sh in the tree; $BOOTSCOPE_SOURCE is your own tree
    #[arg(long, value_name = "COMMAND")]
    build: String,
    /// Find the first commit of GOOD..BAD that boots slower
    #[arg(long)]
    bisect: bool,
    /// The repository [default: that of this folder]
    #[arg(long, value_name = "FOLDER")]
    repo: Option<PathBuf>,
    /// Take a merge as one commit (--bisect always does, and then looks into a slow merge)
    #[arg(long, conflicts_with = "bisect")]
    first_parent: bool,
    /// Rounds; each boots every different kernel once, in random order [default: 10, or more if 10 cannot show a difference;
    /// with --deterministic one, and a tenth more boots where a step needs them]
    #[arg(long, value_name = "N", conflicts_with = "bisect", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Stop a build that takes longer, and skip its commit
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::amount::duration)]
    build_timeout: Duration,
    /// The folder of built kernels [default: $XDG_CACHE_HOME/bootscope/builds]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Keep this many built kernels; remove those unused for longest, but none that was used within a day
    #[arg(long, value_name = "N", default_value_t = 100)]
    keep_builds: usize,
    /// The folder of all boots; a stopped search continues in it [default: boots/range-…]
    #[arg(short, long)]
    output: Option<PathBuf>,
    #[command(flatten)]
    boot: BootArgs,
}

const EXAMPLES: &str = "\
Examples:
  bootscope range --bisect v6.1..HEAD --build 'make -j2 tinyconfig bzImage' \\
      --kernel arch/x86/boot/bzImage --deterministic
  bootscope range HEAD~5.. --kernel arch/x86/boot/bzImage --append quiet \\
      --build 'cp $BOOTSCOPE_SOURCE/.config . && make olddefconfig bzImage'
  bootscope range HEAD~3.. --build make --kernel kernel.elf --init keep \\
      --until 'ready'

--kernel is the path of the built kernel in the tree. Commits with the same
kernel, byte for byte, share their boots. So each build gets the same time,
user, host and number (KBUILD_BUILD_TIMESTAMP, _USER, _HOST, _VERSION,
LOCALVERSION and SOURCE_DATE_EPOCH), unless you set them.
CONFIG_LOCALVERSION_AUTO puts the commit's name into each kernel: switch it off.
With --deterministic, each different kernel is booted once. --bisect boots more
layouts of a kernel only if the step is within what layouts change, and names
the functions that moved.

Exit status:
  0  done
  1  no first slow commit was found, or the search was stopped
  2  usage or input error";

/// Bisects the range or benches each commit, and prints the results.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let request = Request {
        range: args.range.clone(),
        build: args.build.clone(),
        bisect: args.bisect,
        repo: args.repo.clone(),
        first_parent: args.first_parent,
        runs: args.runs,
        build_timeout: args.build_timeout,
        cache: args.cache.clone(),
        keep_builds: args.keep_builds,
        folder: args.output.clone(),
        options: args.boot.options(output)?,
        kernel: args.boot.kernel.clone(),
    };
    let mut watcher = Watcher::new(output)?;
    let searched = campaigns::range::run(request, &mut watcher, output);
    campaigns::Watcher::clear(&watcher);
    let is_well = match searched? {
        RangeResult::Bisected(bisected) => {
            match output.json {
                true => output.document(&bisected)?,
                false => output.text(&bisected.text(output.layout(usize::MAX)))?,
            }
            bisected.verdict == Some(Verdict::Slow)
        }
        RangeResult::Each { range, is_complete } => {
            match output.json {
                true => output.document(&range)?,
                false => output.text(&range.text(output.layout(usize::MAX)))?,
            }
            is_complete
        }
    };
    Ok(if is_well { Done::Well } else { Done::Badly })
}
