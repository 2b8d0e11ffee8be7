//! Tests of the documents: the program accepts every command in them, and their sentences are short.

use crate::Cli;
use clap::error::ErrorKind::{
    DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion, InvalidValue, MissingRequiredArgument,
};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The most words of a sentence.
const MAX_SENTENCE_WORDS: usize = 25;
/// The most words of README.md, counted as by `wc -w`.
const MAX_README_WORDS: usize = 700;

/// Documents for users, without those that a program writes: `lab.md`, `stock-linux.md` and `findings.md`.
const USER_DOCUMENTS: [&str; 22] = [
    "README.md",
    "docs/adding-a-detector.md",
    "docs/bench.md",
    "docs/book/src/extend.md",
    "docs/book/src/format.md",
    "docs/book/src/seeds/freebsd-ledger.md",
    "docs/book/src/seeds/illumos-half-hour.md",
    "docs/book/src/seeds/imx6-ticks.md",
    "docs/book/src/seeds/libguestfs-appliance.md",
    "docs/book/src/seeds/redox-allocator.md",
    "docs/ci.md",
    "docs/cookbook.md",
    "docs/fleet.md",
    "docs/guide.md",
    "docs/how-it-works.md",
    "docs/install.md",
    "docs/json.md",
    "docs/lake.md",
    "docs/page.md",
    "docs/release-notes-0.2.md",
    "docs/releasing.md",
    "docs/tslog-in-your-kernel.md",
];

/// Flags of other programs in these documents.
const FOREIGN_FLAGS: [&str; 1] = ["--no-default-features"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// All documents that may contain a command.
fn documents() -> Vec<(String, String)> {
    let mut names: BTreeSet<String> = USER_DOCUMENTS.iter().map(|&name| name.to_owned()).collect();
    names.extend(["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    let kernel = ["kernel/lab", "kernel/sampler", "kernel/tslog", "kernel/vmem", "kernel/p2buddy"];
    let others = ["docs", "docs/book/src", "docs/book/src/seeds", "crates/machine/src/arch"];
    for folder in others.into_iter().chain(kernel) {
        let files = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let names_of = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.extend(names_of.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    names.into_iter().map(|name| (read(&name), name)).map(|(text, name)| (name, text)).collect()
}

/// The code spans of a document, and the lines of its code blocks, with continued lines joined.
fn code(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut spans, mut lines) = (Vec::new(), Vec::new());
    for (i, part) in text.split("```").enumerate() {
        if i % 2 == 1 {
            lines.extend(part.replace("\\\n", " ").lines().map(str::to_owned));
        } else {
            spans.extend(part.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")));
        }
    }
    (spans, lines)
}

/// The words of each call of the program in a shell line.
fn calls(line: &str) -> Vec<Vec<String>> {
    let Some(words) = shlex::split(line.trim_start_matches("$ ")) else { return Vec::new() };
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut within = false;
    for word in words {
        let ends = word.ends_with(';') || word.ends_with(')');
        let word = word.trim_start_matches('(').trim_end_matches([';', ')']).replace("${gib}", "1");
        // A number that the reader chooses.
        let word = if word == "N" { "1".to_owned() } else { word };
        if word == "bootscope" {
            found.push(Vec::new());
            within = true;
        } else if ["|", "||", "&&", ">", "2>", "&"].contains(&word.as_str()) || word.starts_with('>') {
            within = false;
        }
        if within {
            found.last_mut().expect("a call has begun").push(word);
        }
        within &= !ends;
    }
    found
}

#[test]
fn the_program_accepts_every_command_in_the_documents() {
    let (mut refused, mut count) = (Vec::new(), 0);
    for (name, text) in documents() {
        let (spans, lines) = code(&text);
        let begins = |line: &str| {
            ["bootscope ", "$ bootscope ", "for "].iter().any(|start| line.trim_start().starts_with(start))
        };
        // A sentence or a table names a command without its required arguments, and often without the program's name:
        // `bootscope findings --json`, `record --watch`.
        let spans: Vec<String> = spans.iter().map(|span| with_program(span)).collect();
        let spans = spans.iter().map(|span| (span, true));
        for (line, is_in_prose) in spans.chain(lines.iter().map(|line| (line, false))).filter(|(line, _)| begins(line))
        {
            for call in calls(line).into_iter().filter(|call| call.get(1).is_some_and(|command| command != "COMMAND")) {
                count += 1;
                let is_wrong = |error: &clap::Error| match error.kind() {
                    DisplayHelp | DisplayVersion => false,
                    MissingRequiredArgument | DisplayHelpOnMissingArgumentOrSubcommand => !is_in_prose,
                    // `show --fit`, without its value.
                    InvalidValue => !(is_in_prose && is_no_value(error)),
                    _ => true,
                };
                if let Some(error) = Cli::try_parse_from(&call).err().filter(is_wrong) {
                    refused.push(format!("{name}: {line}\n{error}"));
                }
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count > 200, "only {count} commands were found");
}

/// Puts the program's name before a command that a sentence names only by its first word and an option.
fn with_program(span: &str) -> String {
    let mut words = span.split_whitespace();
    let is_command = words.next().is_some_and(|word| Cli::command().get_subcommands().any(|c| c.get_name() == word));
    let is_one = is_command && words.next().is_some_and(|word| word.starts_with('-'));
    if is_one { format!("bootscope {span}") } else { span.to_owned() }
}

/// True if the error is a missing value, not a wrong one.
fn is_no_value(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty())
}

#[test]
fn every_flag_in_the_documents_exists() {
    let all = Cli::command();
    let of = |command: &clap::Command| -> Vec<String> {
        let arguments = || command.get_arguments();
        let others = arguments().filter_map(clap::Arg::get_all_aliases).flatten();
        arguments().filter_map(clap::Arg::get_long).chain(others).map(|flag| format!("--{flag}")).collect()
    };
    let mut known: BTreeSet<String> = of(&all).into_iter().chain(["--help", "--version"].map(str::to_owned)).collect();
    known.extend(all.get_subcommands().flat_map(of));
    known.extend(all.get_subcommands().flat_map(|command| command.get_subcommands()).flat_map(of));
    known.extend(FOREIGN_FLAGS.map(str::to_owned));
    let mut unknown = Vec::new();
    let is_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    for (name, text) in documents() {
        for span in code(&text).0.iter().filter(|span| span.starts_with("--")) {
            let flag = span.split(|c| !is_flag(c)).next().unwrap();
            if flag != "--" && !known.contains(flag) {
                unknown.push(format!("{name}: `{span}`: no command has {flag}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// The sentences of a document, with a code span as one word. Each cell of a table is a text of its own.
fn sentences(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let mut texts: Vec<String> = vec![String::new()];
    for line in prose.lines() {
        let line = line.trim();
        let begins =
            line.is_empty() || ["#", "* ", "- ", "1. ", "2. ", "3. "].iter().any(|start| line.starts_with(start));
        if line.starts_with('|') {
            texts.extend(line.split('|').map(str::to_owned));
            texts.push(String::new());
            continue;
        }
        if begins {
            texts.push(String::new());
        }
        let last = texts.last_mut().expect("never empty");
        last.push(' ');
        last.push_str(line);
        if line.starts_with('#') {
            texts.push(String::new());
        }
    }
    let no_code = |text: &String| -> String {
        text.split('`').enumerate().map(|(i, part)| if i % 2 == 1 { "CODE" } else { part }).collect()
    };
    let ends = |text: String| -> Vec<String> { text.split_inclusive(['.', '!', '?']).map(str::to_owned).collect() };
    let whole = |parts: Vec<String>| {
        let mut whole: Vec<String> = vec![String::new()];
        for part in parts {
            // A dot inside a number or a name does not end a sentence.
            if part.starts_with(char::is_whitespace) {
                whole.push(String::new());
            }
            whole.last_mut().expect("never empty").push_str(&part);
        }
        whole
    };
    texts.iter().map(no_code).map(ends).flat_map(whole).collect()
}

#[test]
fn sentences_are_short() {
    let mut long = Vec::new();
    for name in USER_DOCUMENTS {
        for sentence in sentences(&read(name)) {
            let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
            if words > MAX_SENTENCE_WORDS {
                long.push(format!("{name}: {words} words:{sentence}"));
            }
        }
    }
    assert!(long.is_empty(), "longer than {MAX_SENTENCE_WORDS} words:\n{}", long.join("\n"));
    let words = read("README.md").split_whitespace().count();
    assert!(words <= MAX_README_WORDS, "README.md has {words} words");
}

/// `docs/book/src/format.md` specifies `recording.json` for other tools, so it must name every field.
#[test]
fn the_format_names_every_field_of_a_recording() {
    fn fields(value: &serde_json::Value, found: &mut BTreeSet<String>) {
        let Some(object) = value.as_object() else { return };
        found.extend(object.keys().cloned());
        object.values().for_each(|value| fields(value, found));
    }
    let mut found = BTreeSet::new();
    for spec in [
        serde_json::to_value(recording::Manifest::default()),
        serde_json::to_value(recording::GuestSpec::default()),
        serde_json::to_value(recording::ObserveSpec::default()),
    ] {
        fields(&spec.unwrap(), &mut found);
    }
    let page = read("docs/book/src/format.md");
    let (spans, _) = code(&page);
    let missing: Vec<&String> = found.iter().filter(|field| !spans.contains(field)).collect();
    assert!(missing.is_empty() && found.len() > 40, "of {} fields the page does not name {missing:?}", found.len());
}

/// docs/releasing.md lists the files that contain the release's number.
#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let (minor, _) = version.rsplit_once('.').expect("a version has three parts");
    let of_lock = |name: &str| -> Vec<String> {
        let lock = read(name);
        // A package from a registry has a `source`.
        let own = lock.split("[[package]]").skip(1).filter(|package| !package.contains("\nsource = "));
        let own =
            own.filter(|package| !package.contains("name = \"fuzz\"") && !package.contains("version = \"0.0.0\""));
        own.filter_map(|package| package.split("version = \"").nth(1)?.split('"').next()).map(str::to_owned).collect()
    };
    for lock in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let found = of_lock(lock);
        assert!(found.len() > 5 && found.iter().all(|found| found == version), "{lock}: {found:?}, not {version}");
    }
    let cited = read("CITATION.cff");
    assert!(cited.lines().any(|line| line == format!("version: {version}")), "CITATION.cff says another version");
    let day = cited.lines().find_map(|line| line.strip_prefix("date-released: ")).expect("CITATION.cff says the day");
    let changes = read("CHANGELOG.md");
    let headings: Vec<&str> = changes.lines().filter_map(|line| line.strip_prefix("## ")).take(2).collect();
    assert_eq!(headings, ["Unreleased", &format!("{version} ({day})")], "CHANGELOG.md");
    let (notes, contents) = (format!("release-notes-{minor}.md"), read("docs/book/src/SUMMARY.md"));
    assert!(read(&format!("docs/{notes}")).contains(day) && contents.contains(&notes), "{notes}");
}

#[test]
fn every_page_of_the_book_is_read_here() {
    let summary = read("docs/book/src/SUMMARY.md");
    let own =
        summary.split("](").skip(1).filter_map(|link| link.split(')').next()).filter(|link| !link.starts_with(".."));
    let unread: Vec<String> = own
        .map(|page| format!("docs/book/src/{page}"))
        .filter(|page| !USER_DOCUMENTS.contains(&page.as_str()))
        .collect();
    assert!(unread.is_empty(), "{unread:?}");
}

#[test]
fn the_documents_agree_on_the_effect_of_another_layout() {
    use analysis::floor::{LAYOUT_MOST, VIRTUAL_TIME};
    let figures = [format!("{:.3} %", 100.0 * VIRTUAL_TIME), format!("{:.0} %", 100.0 * LAYOUT_MOST)];
    for name in ["docs/how-it-works.md", "docs/bench.md"] {
        let text = read(name);
        assert!(figures.iter().all(|figure| text.contains(figure)) && !text.contains("about 0.1 %"), "{name}");
    }
    assert!(read("docs/findings.md").contains(&format!("less than {} of the boot", figures[1])));
}

#[test]
fn the_readers_of_documents_find_errors() {
    let (spans, lines) =
        code("a `bootscope show x` b\n```\n$ bootscope record --kernel K \\\n    -o a | less\n```\n`--top\n3`");
    assert_eq!((spans, lines.len()), (vec!["bootscope show x".to_owned(), "--top 3".to_owned()], 2));
    assert_eq!(calls(&lines[1]), [["bootscope", "record", "--kernel", "K", "-o", "a"]]);
    assert_eq!(calls("for i in 1 2; do bootscope pack $i; done; bootscope show 'a b' >x").len(), 2);
    assert!(Cli::try_parse_from(["bootscope", "show", "x", "--nothing"]).is_err());
    assert_eq!(["show --x", "show x", "ls --x"].map(with_program), ["bootscope show --x", "show x", "ls --x"]);
    let error = |words: [&str; 3]| Cli::try_parse_from(words).err().expect("it lacks something");
    assert!(is_no_value(&error(["bootscope", "show", "--fit"])));
    assert!(!is_no_value(&error(["bootscope", "export", "--to=nowhere"])));
    let long = "word ".repeat(MAX_SENTENCE_WORDS);
    let found = sentences(&format!("{long}one.\nTwo `a b c` 1.5 s. Three\n\n| {long}|x. y|\n"));
    let counts: Vec<usize> = found.iter().map(|s| s.split_whitespace().count()).filter(|&n| n > 0).collect();
    assert_eq!(counts, [MAX_SENTENCE_WORDS + 1, 4, 1, MAX_SENTENCE_WORDS, 1, 1]);
}
