//! The boots that budgets are checked against, and the boots that relative limits are compared with.

mod observed;

use crate::boot_view::BootView;
use crate::{Notes, benches};
use anyhow::{Context, bail};
use benchmark::budgets::judge::Baseline;
use benchmark::budgets::{Budgets, Observed};
use benchmark::history::{self, Filter};
use benchmark::{Document, History};
use std::path::{Path, PathBuf};

/// The request for a check.
pub struct Request {
    /// Benches, recordings, or folders of recordings.
    pub boots: Vec<PathBuf>,
    /// The name of the baseline for limits such as +5 %; `None`: the budgets' choice.
    pub baseline: Option<String>,
    /// The milestone that ends each boot.
    pub view: BootView,
    /// The variant to check; `None`: the second, compared with the first.
    pub variant: Option<String>,
    /// The history; `None`: the user's.
    pub history: Option<PathBuf>,
}

/// The most benches of a baseline from other times.
const MAX_BASELINE_BENCHES: usize = 5;

/// Boots, and the boots that relative limits are compared with.
pub type Group = (Observed, Option<Baseline>);

/// The boots to check, each with its baseline. A bench is one group, and all recordings together are one group.
pub fn groups(request: &Request, budgets: &Budgets, notes: &dyn Notes) -> anyhow::Result<Vec<Group>> {
    let named = request.baseline.as_deref().or(budgets.baseline.as_deref()).filter(|_| budgets.needs_baseline());
    let (benches, recordings): (Vec<&PathBuf>, Vec<&PathBuf>) =
        request.boots.iter().partition(|path| benches::is_bench(path));
    let mut all = Vec::new();
    for path in benches {
        let (document, damaged) = benches::read(path)?;
        if damaged > 0 {
            notes.note(&format!("{}: {damaged} damaged lines were left out", path.display()));
        }
        let full_document = document.clone();
        let document = request.view.of_bench(document).with_context(|| path.display().to_string())?;
        let variant = variant(&document, request.variant.as_deref(), path)?;
        let observed = Observed::of_variant(&document, variant, &name(path, &document, variant));
        let baseline = match named {
            Some(named) => Some(baseline(named, request, Some((&full_document, variant)), notes)?),
            None if variant > 0 => {
                Some(Baseline::Rounds(Box::new(Observed::of_variant(&document, 0, &name(path, &document, 0)))))
            }
            None => None,
        };
        all.push((observed, baseline));
    }
    if !recordings.is_empty() {
        let observed = observed::recordings(&recordings, &request.view, notes)?;
        all.push((observed, named.map(|named| baseline(named, request, None, notes)).transpose()?));
    }
    Ok(all)
}

fn name(path: &Path, document: &Document, variant: usize) -> String {
    let variants = &document.head.variants;
    if variants.len() > 1 {
        format!("{}: {}", path.display(), variants[variant].name)
    } else {
        path.display().to_string()
    }
}

/// The index of the variant to check.
fn variant(document: &Document, named: Option<&str>, path: &Path) -> anyhow::Result<usize> {
    let names: Vec<&str> = document.head.variants.iter().map(|v| v.name.as_str()).collect();
    match (named, names.len()) {
        (Some(named), _) => names
            .iter()
            .position(|name| *name == named)
            .with_context(|| format!("{} has no variant {named:?}; it has: {}", path.display(), names.join(", "))),
        (None, 0) => bail!("{} has no variants", path.display()),
        (None, n @ 1..=2) => Ok(n - 1),
        (None, n) => bail!("{} has {n} variants: name one with --variant: {}", path.display(), names.join(", ")),
    }
}

/// The baseline of relative limits.
fn baseline(
    named: &str,
    request: &Request,
    checked: Option<(&Document, usize)>,
    notes: &dyn Notes,
) -> anyhow::Result<Baseline> {
    let number =
        named.strip_prefix("history").and_then(|rest| if rest.is_empty() { Some("") } else { rest.strip_prefix(':') });
    let Some(number) = number else {
        let path = Path::new(named);
        if !benches::is_bench(path) {
            return Ok(Baseline::Apart(vec![observed::recordings(&[&path.to_owned()], &request.view, notes)?]));
        }
        let document = request.view.of_bench(benches::read(path)?.0)?;
        return Ok(Baseline::Apart(vec![Observed::of_variant(&document, 0, &name(path, &document, 0))]));
    };
    let path = match &request.history {
        Some(path) => path.clone(),
        None => history::default_path()?,
    };
    let history = History::open_existing(&path)?;
    if number.is_empty() {
        let (document, variant) =
            checked.context("recordings are in no history: give --baseline a bench or a recording")?;
        return earlier(&history, document, variant, &request.view);
    }
    let bench: i64 =
        number.parse().with_context(|| format!("--baseline {named}: write history:NUMBER, as `history` lists it"))?;
    let document = history.document(bench)?.with_context(|| format!("{} has no bench {bench}", path.display()))?;
    let document = request.view.of_bench(document).with_context(|| format!("bench {bench}"))?;
    Ok(Baseline::Apart(vec![Observed::of_variant(&document, 0, &format!("bench {bench}"))]))
}

/// The newest benches before this one, of the same setup and all of one kernel. A kernel other than this bench's is
/// preferred.
fn earlier(history: &History, document: &Document, variant: usize, view: &BootView) -> anyhow::Result<Baseline> {
    let no_bench =
        || format!("{} has no earlier bench of this setup: bench the baseline there first", history.path().display());
    let setup = history.setup_of(document, variant)?.with_context(no_bench)?;
    let entries = history.entries(&Filter { setup: Some(setup), ..Filter::default() })?;
    let before = || entries.iter().rev().filter(|e| e.created < document.head.created && e.median_ns.is_some());
    let this_kernel = history::kernel_sha256(document, variant);
    let kernel = before()
        .map(|e| &e.kernel_sha256)
        .find(|kernel| **kernel != this_kernel)
        .or_else(|| before().map(|e| &e.kernel_sha256).next());
    let kernel = kernel.with_context(no_bench)?;
    let mut baselines = Vec::new();
    for entry in before().filter(|e| e.kernel_sha256 == *kernel).take(MAX_BASELINE_BENCHES) {
        let document = history.document(entry.bench)?.with_context(no_bench)?;
        let document = view.of_bench(document).with_context(|| format!("bench {}", entry.bench))?;
        baselines.push(Observed::of_variant(&document, entry.variant, &format!("bench {}", entry.bench)));
    }
    Ok(Baseline::Apart(baselines))
}
