//! Tests that a kernel runs on itself at each boot.

use crate::blacklist;
use crate::detector::{Detector, Draft};
use crate::facts::Stretch;
use crate::{Need, Remedy, Seen};
use hashbrown::HashMap;
use timeline::{NameId, Os, SpanKind};

pub const DETECTOR: Detector = Detector {
    id: "self-tests",
    title: "the kernel tests itself at each boot",
    rule: "Linux tests each cipher with known answers when it is registered, and times several routines for RAID to choose the \
           fastest. Some code only runs its own tests in its initcall. Who boots the same kernel on the same machine again \
           learns nothing new. The rule knows these threads, initcalls and functions by their names.",
    source: "libguestfs (Jones 2016): aesni_init took 18 ms, fixed with cryptomgr.notests",
    threshold: "any of these threads, initcalls or functions",
    price: "the tests go; a twentieth of what the kernel's command line switches off may stay",
    needs: &[Need::BootPath, Need::System, Need::Initcalls],
    look,
};

/// The name of the threads that test one cipher each.
const CIPHERS: &str = "cryptomgr_test";

/// Initcalls that do nothing but test, of `lib/crypto` and `crypto/kdf_sp800108.c` up to Linux 6.12. The version is the first one in which
/// no other file has an initcall of that name that registers a cipher (crypto/blake2s_generic.c had one up to 5.18). The tested code works
/// without them.
const ONLY_TEST: &[(&str, (u32, u32))] =
    &[("blake2s_mod_init", (5, 19)), ("chacha20poly1305_init", (5, 5)), ("crypto_kdf108_init", (5, 17))];

/// Initcalls and functions that a build option switches off: kind, name, option.
const BUILT_IN: &[(SpanKind, &str, &str)] = &[
    (SpanKind::Initcall, "raid6_select_algo", "RAID6_PQ_BENCHMARK"),
    (SpanKind::Initcall, "init_trace_selftests", "FTRACE_STARTUP_TEST"),
    (SpanKind::Initcall, "event_trace_self_tests_init", "EVENT_TRACE_STARTUP_TEST"),
    (SpanKind::Call, "init_test_probes", "KPROBES_SANITY_TEST"),
    (SpanKind::Initcall, "debug_vm_pgtable", "DEBUG_VM_PGTABLE"),
    (SpanKind::Call, "locking_selftest", "DEBUG_LOCKING_API_SELFTESTS"),
];

fn look(seen: &Seen) -> Vec<Draft> {
    if seen.machine.os != Os::Linux {
        return Vec::new();
    }
    let trust = match seen.was_given("fips=1") {
        // Then the kernel ignores the word (crypto/algapi.c: alg_test).
        true => Remedy::code("fips=1 wants these tests; without it, cryptomgr.notests=1 leaves them out"),
        false => Remedy::append(
            "trust the ciphers that were tested before, with cryptomgr.notests=1, unless a rule such as FIPS 140 wants the tests",
            &["cryptomgr.notests=1"],
        ),
    };
    let cipher_tests = draft(&seen.threads(CIPHERS), trust);
    let without_kunit = match seen.is_since((6, 1), false) {
        true => Remedy::append("run KUnit's tests where they are looked at: kunit.enable=0", &["kunit.enable=0"]),
        false => Remedy::without("build the kernel without KUnit; since Linux 6.1 kunit.enable=0 does", &["KUNIT"]),
    };
    let kunit_tests = draft(&seen.stretches(SpanKind::Call, &["kunit_run_all_tests"]), without_kunit);
    let optional_tests = BUILT_IN.iter().filter_map(|&(kind, name, option)| {
        const WHAT: &str = "build the kernel without the test, if its version has that option; no word on the command line switches it off";
        draft(&seen.stretches(kind, &[name]), Remedy::without(WHAT, &[option]))
    });
    cipher_tests.into_iter().chain(kunit_tests).chain(only_test(seen)).chain(optional_tests).collect()
}

fn draft(tests: &[Stretch], remedy: Remedy) -> Option<Draft> {
    Some(Draft::of(tests, remedy)?.leaving(0.05).counting("tests"))
}

fn only_test(seen: &Seen) -> Option<Draft> {
    let known = ONLY_TEST.iter().filter(|&&(_, since)| seen.is_since(since, false));
    let all = seen.stretches(SpanKind::Initcall, &known.map(|&(name, _)| name).collect::<Vec<&str>>());
    let mut counts: HashMap<NameId, usize> = HashMap::new();
    all.iter().for_each(|test| *counts.entry(test.detail).or_default() += 1);
    let is_alone = |test: &&Stretch| counts[&test.detail] == 1;
    let tests: Vec<Stretch> = all.iter().filter(is_alone).copied().collect();
    let mut names: Vec<&str> = tests.iter().map(|test| seen.texts((test.name, test.detail)).1).collect();
    names.sort_unstable();
    let remedy = blacklist::remedy("leave out initcalls that do nothing but test, up to Linux 6.12", &names);
    Some(draft(&tests, remedy)?.leaving(blacklist::COMES_BACK).less_sure())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::Change;
    use crate::seen::testing::{Log, ms};

    #[test]
    fn a_thread_that_tests_ciphers_is_found_and_another_is_not() {
        let boot = |name: &str, os: Os| {
            let mut log = Log::linux();
            log.machine.os = os;
            log.initcall("crypto_algapi_init", |log| (0..3).for_each(|_| log.awaited(name, ms(200))));
            log.initcall("works", |log| log.call("works", ms(400)));
            log.found()
        };
        let found = boot(CIPHERS, Os::Linux);
        let [only] = &found.findings[..] else { panic!("{found:?}") };
        assert_eq!((only.rule.id, only.about.as_str(), only.evidence_count), (DETECTOR.id, CIPHERS, 3));
        assert_eq!((only.price.low, only.price.likely, only.price.high), (ms(570), ms(600), ms(600)));
        assert_eq!(only.remedy.changes, [Change::AppendWords(vec!["cryptomgr.notests=1".to_owned()])]);
        assert!(boot("cryptomgr_probe", Os::Linux).findings.is_empty(), "makes ciphers of others");
        assert!(boot(CIPHERS, Os::FreeBsd).findings.is_empty());
    }

    #[test]
    fn words_that_the_kernel_does_not_know_or_heed_are_no_change() {
        let changes = |words: &[&str], version: (u32, u32), run: fn(&mut Log)| {
            let mut log = Log::linux();
            log.machine.command_line = Some(words.iter().map(|&word| word.to_owned()).collect());
            log.machine.kernel_version = Some(version);
            run(&mut log);
            log.initcall("works", |log| log.call("works", ms(400)));
            log.found_by(&[DETECTOR]).findings[0].remedy.changes.clone()
        };
        let ciphers = |log: &mut Log| log.initcall("crypto_algapi_init", |log| log.awaited(CIPHERS, ms(200)));
        assert_eq!(changes(&["quiet"], (6, 1), ciphers).len(), 1);
        assert_eq!(changes(&["fips=1"], (6, 1), ciphers), [], "FIPS wants the tests");
        let kunit = |log: &mut Log| log.call("kunit_run_all_tests", ms(20));
        assert_eq!(changes(&[], (6, 1), kunit), [Change::AppendWords(vec!["kunit.enable=0".to_owned()])]);
        assert_eq!(changes(&[], (5, 15), kunit), [Change::KernelConfig(vec!["-KUNIT".to_owned()])]);
    }

    #[test]
    fn tests_without_waiters_cost_nothing() {
        let mut log = Log::linux();
        log.thread_beside(CIPHERS, ms(300));
        log.initcall("works", |log| log.call("works", ms(400)));
        let found = log.found();
        assert_eq!((found.findings.len(), found.below_noise), (0, 1), "{found:?}");
    }

    #[test]
    fn an_initcall_that_only_tests_is_left_out_and_one_that_also_works_is_a_matter_of_the_build() {
        let mut log = Log::linux();
        log.initcall("blake2s_mod_init", |log| log.call("blake2s_selftest", ms(5)));
        log.initcall("raid6_select_algo", |log| log.call("raid6_choose_gen", ms(60)));
        log.initcall("works", |log| log.call("works", ms(400)));
        let found = log.found();
        let changes: Vec<&Change> = found.findings.iter().map(|finding| &finding.remedy.changes[0]).collect();
        let [option, word] = changes[..] else { panic!("{found:?}") };
        assert_eq!(*option, Change::KernelConfig(vec!["-RAID6_PQ_BENCHMARK".to_owned()]));
        assert_eq!(*word, Change::AppendWords(vec!["initcall_blacklist=blake2s_mod_init".to_owned()]));
        // Three initcalls are looked up.
        assert_eq!(found.findings[1].price.likely, ms(5) - timeline::Ns(3 * 2_300));
        let mut log = Log::linux();
        log.machine.kernel_version = Some((5, 18));
        log.initcall("blake2s_mod_init", |log| log.call("works", ms(5)));
        log.initcall("works", |log| log.call("works", ms(400)));
        assert!(log.found().findings.is_empty(), "up to 5.18 it may register a cipher");
        let mut log = Log::linux();
        (0..2).for_each(|_| log.initcall("blake2s_mod_init", |log| log.call("works", ms(5))));
        log.initcall("works", |log| log.call("works", ms(400)));
        assert!(log.found().findings.is_empty(), "one of the two registers ciphers");
        // A log that repeats an initcall must not take more time for each repetition.
        let mut log = Log::linux();
        (0..50_000).for_each(|_| log.initcall("blake2s_mod_init", |log| log.call("works", ms(5))));
        assert!(log.found_by(&[DETECTOR]).findings.is_empty());
    }
}
