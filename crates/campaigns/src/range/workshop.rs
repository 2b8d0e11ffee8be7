//! The place where commits are built and booted: the work tree, the kept kernels, and benches of some of them.

use crate::Notes;
use crate::PlannedVariant;
use crate::Watcher;
use crate::bench::{foresee, refuse_too_few, variant};
use crate::benches::JOURNAL;
use crate::benches::recording_of;
use crate::measure::Booter;
use anyhow::Context;
use benchmark::range::{Builder, Built, COMMIT, Commit, IMAGE, Repo, SearchOf, Worktree};
use benchmark::{Ask, Boots, Document, Ended, Head, Host, Journal, Measured, Setting, Stop, Turn};
use machine::RecordOptions;
use recording::Manifest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The plan for building and booting commits.
pub struct Plan<'a> {
    pub repo: &'a Repo,
    /// The kernel's path in the tree.
    pub kernel: PathBuf,
    /// The command that builds it.
    pub command: &'a str,
    /// The longest time for a build.
    pub timeout: Duration,
    /// The folder of kept kernels.
    pub cache: PathBuf,
    /// The options that boot them.
    pub options: RecordOptions,
}

/// The time for which a used kernel is kept: another search may use it, or the same one tomorrow.
const IDLE: Duration = Duration::from_secs(24 * 3600);

impl Plan<'_> {
    /// Removes the oldest kernels beyond `keep`. Extra kernels do no harm, so an error is only a remark.
    pub fn tidy(&self, keep: usize, notes: &dyn Notes) {
        match benchmark::range::tidy(&self.cache, keep, IDLE) {
            Ok(0) => {}
            Ok(removed) => {
                notes.note(&format!("removed {removed} kernels from {}: see --keep-builds", self.cache.display()))
            }
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => notes.note(&format!("{} is not tidied: {why}", self.cache.display())),
        }
    }
}

/// The work tree, the builder and the built kernels.
pub struct Workshop<'a> {
    pub repo: &'a Repo,
    /// The folder for boots and build logs.
    pub folder: PathBuf,
    /// The receiver of remarks.
    pub notes: &'a dyn Notes,
    watcher: &'a mut dyn Watcher,
    options: RecordOptions,
    builder: Builder,
    tree: Worktree,
    /// Path and content's hash of each commit's kernel.
    kernels: BTreeMap<String, (PathBuf, String)>,
    /// True if [`boot_once`](Self::boot_once) follows calls.
    follows_calls: bool,
}

impl<'a> Workshop<'a> {
    /// Creates the work tree beside the kept kernels.
    pub fn new(
        plan: Plan<'a>,
        folder: &Path,
        watcher: &'a mut dyn Watcher,
        notes: &'a dyn Notes,
    ) -> anyhow::Result<Workshop<'a>> {
        recording::own_folder(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder = folder.canonicalize().with_context(|| format!("cannot use {}", folder.display()))?;
        recording::own_folder(&plan.cache).with_context(|| format!("cannot make {}", plan.cache.display()))?;
        // Two searches at once have a tree each. A resumed search gets its own tree again.
        let name = folder.to_string_lossy().replace('/', "-");
        let tree = Worktree::make(plan.repo, &plan.cache.join(format!("tree{name}")))?;
        let builder = Builder {
            command: plan.command.to_owned(),
            kernel: plan.kernel,
            timeout: plan.timeout,
            cache: plan.cache,
            logs: folder.join("builds"),
            source: plan.repo.top().to_owned(),
        };
        let (repo, options) = (plan.repo, plan.options);
        let kernels = BTreeMap::new();
        Ok(Workshop { repo, folder, notes, watcher, options, builder, tree, kernels, follows_calls: true })
    }

    /// Builds a commit, unless its tree has been built before.
    pub fn build(&mut self, commit: &Commit, which: &str) -> anyhow::Result<Built> {
        if let Some((path, image)) = self.kernels.get(&commit.id) {
            return Ok(Built::Kernel { path: path.clone(), image: image.clone(), cached: true });
        }
        self.watcher.announce_work(&format!("build {which} · {} {}", commit.short(), commit.subject));
        let watcher = &mut *self.watcher;
        let built = self.builder.build(commit, &self.tree, &mut || watcher.observer().stop())?;
        if let Built::Kernel { path, image, .. } = &built {
            self.kernels.insert(commit.id.clone(), (path.clone(), image.clone()));
        }
        Ok(built)
    }

    /// Path and content's hash of a commit's kernel, if it was built.
    pub fn kernel_of(&self, commit: &Commit) -> Option<(PathBuf, String)> {
        self.kernels.get(&commit.id).cloned()
    }

    /// True if boots count instructions.
    pub fn is_deterministic(&self) -> bool {
        self.options.guest.deterministic
    }

    /// The number of kernels that were needed.
    pub fn kernels(&self) -> usize {
        self.kernels.len()
    }

    /// True if the user wants it to stop.
    pub fn stopped(&mut self) -> bool {
        self.watcher.observer().stop()
    }

    /// The search from `good` to `bad`. Earlier boots count for it if the kind of search, the build command, the kernel's
    /// path and the recorder's options are the same.
    pub fn search_of(&self, good: &Commit, bad: &Commit, kind: &str) -> anyhow::Result<SearchOf> {
        let mut options = self.options.clone();
        options.guest.kernel = None;
        let (command, kernel) = (self.builder.command.clone(), self.builder.kernel.clone());
        Ok(SearchOf::new(kind, [good, bad], command, kernel, serde_json::to_value(&options)?))
    }

    /// Boots commits in turns. The setting `commit` identifies each. Every boot is in the folder as soon as it ends.
    pub fn bench(
        &mut self,
        commits: &[(&Commit, PathBuf)],
        plan: benchmark::Plan,
        folder: &Path,
    ) -> anyhow::Result<Document> {
        let variants: Vec<PlannedVariant> =
            commits.iter().map(|(commit, kernel)| self.variant(commit, kernel.clone())).collect();
        let foreseen = foresee(&variants, self.watcher)?;
        let head = self.head(plan, &variants, &foreseen);
        let mut journal = Journal::create(&folder.join(JOURNAL), &head)?;
        let recordings = folder.join(BOOTS);
        let mut booter = Booter::new(&variants, &recordings, &mut journal, self.watcher);
        booter.dithered = head.dithered;
        let finished = benchmark::run(&head.plan, &mut booter);
        journal.end(finished.ended)?;
        // Without failed boots the folder is empty and not needed.
        let _ = std::fs::remove_dir(&recordings);
        match finished.error {
            Some(error) => Err(error.context(format!("the boots that are over are kept in {}", folder.display()))),
            None => Ok(Document::new(head, finished.boots, Some(finished.ended))),
        }
    }

    /// Boots a commit's kernel once with a layout, and keeps the recording in the folder. Follows its calls, so that the
    /// functions that a slow commit moved are known. Returns `None` if the user stopped it.
    pub fn boot_once(
        &mut self,
        commit: &Commit,
        kernel: PathBuf,
        layout: u32,
        folder: &Path,
    ) -> anyhow::Result<Option<Measured>> {
        let mut variants = [self.variant(commit, kernel)];
        variants[0].options.observe.calls = self.follows_calls;
        let foreseen = match foresee(&variants, self.watcher) {
            Err(why) if self.follows_calls && !self.options.observe.calls => {
                self.notes.note(&format!("the functions that moved will not be named: {why:#}"));
                self.follows_calls = false;
                variants[0].options.observe.calls = false;
                foresee(&variants, self.watcher)?
            }
            foreseen => foreseen?,
        };
        let head = self.head(self.plan(1, 1, 0), &variants, &foreseen);
        let mut journal = Journal::create(&folder.join(JOURNAL), &head)?;
        let recordings = folder.join(BOOTS);
        let mut booter = Booter::new(&variants, &recordings, &mut journal, self.watcher);
        (booter.dithered, booter.keep_recordings) = (true, true);
        let turn = Turn { number: 0, round: Some(layout), variant: 0, left: 1, left_ns: None };
        let Some(measured) = booter.boot(&turn)? else { return Ok(None) };
        booter.keep(&benchmark::Boot {
            number: 0,
            round: turn.round,
            variant: 0,
            began_ns: 0,
            measured: measured.clone(),
        })?;
        journal.end(Ended::Rounds)?;
        Ok(Some(measured))
    }

    fn variant(&self, commit: &Commit, kernel: PathBuf) -> PlannedVariant {
        let setting = |key: &str, value: String| Setting { key: key.to_owned(), value };
        let mut settings = vec![setting(COMMIT, commit.id.clone())];
        settings.extend(self.kernel_of(commit).map(|(_, image)| setting(IMAGE, image)));
        let name = format!("{} {}", commit.short(), commit.subject);
        PlannedVariant { name, settings, options: booting(&self.options, kernel) }
    }

    fn head(&self, plan: benchmark::Plan, variants: &[PlannedVariant], foreseen: &[Manifest]) -> Head {
        let manifest = Manifest::begun_now();
        let mut head = Head::of(plan, variants.iter().zip(foreseen).map(|(v, m)| variant(v, m)).collect());
        let name = self.builder.kernel.file_name().map(|name| name.to_string_lossy().into_owned());
        for (booted, kept) in head.variants.iter_mut().map(|v| &mut v.booted).zip(variants) {
            // A kernel without a release is named after its file, and here that name is a hash.
            let kept = kept.options.guest.kernel.as_deref().and_then(Path::file_name);
            if kept.is_some_and(|kept| *kept == *booted.kernel) {
                booted.kernel = name.clone().unwrap_or_default();
            }
        }
        (head.tool_version, head.created) = (manifest.tool_version, manifest.created);
        head.deterministic = self.options.guest.deterministic;
        head.dithered = self.options.guest.deterministic;
        head.ask = Ask::of_boots(head.deterministic);
        head.host_cpus_allowed = machine::pin::allowed();
        if let Some(host) = foreseen.first().map(|m| &m.host) {
            head.host = Host { cpu: host.cpu.clone(), cores: host.cores, kernel: host.kernel.clone() };
        }
        head
    }

    /// The test that compares two commits.
    fn test(&self) -> benchmark::Test {
        if self.options.guest.deterministic { benchmark::Test::Dithered } else { benchmark::Test::Pairs }
    }

    /// The number of rounds for this number of commits: the requested one, else ten, or more if ten could show no
    /// difference.
    ///
    /// # Errors
    /// If the requested number is too small to show any difference.
    pub fn rounds(&self, asked: Option<u32>, commits: usize) -> anyhow::Result<u32> {
        let comparisons = commits.saturating_sub(1);
        match asked {
            Some(rounds) => refuse_too_few(rounds, comparisons, self.test()).map(|()| rounds),
            None => Ok(benchmark::rounds_least(comparisons, self.test()).max(DEFAULT_ROUNDS)),
        }
    }

    /// A plan with this number of rounds.
    pub fn plan(&self, variants: usize, rounds: u32, warm_ups: u32) -> benchmark::Plan {
        let warm_ups = if self.options.guest.deterministic { 0 } else { warm_ups };
        let stop = Stop { rounds, ..Stop::default() };
        let seed = machine::monotonic_ns().unsigned_abs();
        benchmark::Plan { variants, warm_ups, stop, seed, ..benchmark::Plan::default() }
    }
}

/// The same options with another kernel.
fn booting(options: &RecordOptions, kernel: PathBuf) -> RecordOptions {
    let mut options = options.clone();
    options.guest.kernel = Some(kernel);
    options
}

/// The folder of recordings in the folder of a bench.
const BOOTS: &str = "boots";

/// The recording of a step with a single boot, if it is kept.
pub fn recording_in(step: &Path) -> Option<PathBuf> {
    Some(recording_of(&step.join(BOOTS), 0)).filter(|recording| recording.is_dir())
}

/// The default number of boots of each commit in a range.
const DEFAULT_ROUNDS: u32 = 10;

/// True if the user stopped a bench.
pub fn interrupted(document: &Document) -> bool {
    document.ended == Some(Ended::Interrupted)
}
