//! `bootscope range`: commits of a repository, built, booted and compared.

mod bisect;
mod each;
mod workshop;

use crate::plan::BootArgs;
use crate::progress::Watcher;
use crate::{Done, output::Output};
use anyhow::{Context, bail};
use benchmark::range::Repo;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use workshop::Workshop;

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
    /// Rounds; each boots every commit once, in random order [default: 10, or more if 10 cannot show a difference]
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
  bootscope range --bisect v6.1..HEAD --build 'make -j2 defconfig bzImage' \\
      --kernel arch/x86/boot/bzImage
  bootscope range v6.1..v6.2 --kernel arch/x86/boot/bzImage --append quiet \\
      --build 'cp $BOOTSCOPE_SOURCE/.config . && make olddefconfig bzImage'
  bootscope range HEAD~5.. --build make --kernel kernel.elf --until 'ready'

--kernel is the path of the built kernel in the tree.

Exit status:
  0  done
  1  no first slow commit was found, or the search was stopped
  2  usage or input error";

/// Runs it.
pub fn run(args: &Args, output: &Output) -> anyhow::Result<Done> {
    let kernel = kernel_in_tree(args.boot.kernel.as_deref())?;
    let options = args.boot.options()?;
    let repo = Repo::open(args.repo.as_deref().unwrap_or(Path::new(".")))?;
    if repo.is_dirty()? {
        output.note("what is changed in your tree and in no commit is no part of the range");
    }
    let cache = match &args.cache {
        Some(cache) => cache.clone(),
        None => cache_folder().context("neither XDG_CACHE_HOME nor HOME is set: name a folder with --cache")?,
    };
    let cache = std::path::absolute(&cache).with_context(|| format!("cannot use {}", cache.display()))?;
    let mut watcher = Watcher::new(output)?;
    let plan =
        workshop::Plan { repo: &repo, kernel, command: &args.build, timeout: args.build_timeout, cache, options };
    plan.tidy(args.keep_builds, output);
    let done = if args.bisect {
        let ends = bisect::Ends::of(&repo, &args.range)?;
        let folder = args.output.clone().unwrap_or_else(|| ends.folder());
        bisect::run(ends, Workshop::new(plan, &folder, &mut watcher, output)?)
    } else {
        let folder = args.output.clone().unwrap_or_else(each::folder);
        each::run(args, Workshop::new(plan, &folder, &mut watcher, output)?)
    };
    watcher.clear();
    done
}

/// Of every commit the kernel is at the same place in its tree.
fn kernel_in_tree(kernel: Option<&Path>) -> anyhow::Result<PathBuf> {
    let kernel = kernel.context("--kernel is missing: give the built kernel's path in the tree")?;
    let inside = kernel.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside {
        bail!("--kernel {} is no path in the tree: give it from the tree's top, without ..", kernel.display());
    }
    Ok(kernel.to_owned())
}

fn cache_folder() -> Option<PathBuf> {
    xdg::BaseDirectories::with_prefix("bootscope").get_cache_file("builds")
}
