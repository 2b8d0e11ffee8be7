use super::*;
use std::os::unix::fs::PermissionsExt;

/// Simulated sources. Their `scripts/config` and `make` change a configuration as Linux's do, and the image is a copy of the
/// configuration. CRYPTO selects HASH; TRACE depends on DEBUG; PROFILE depends on TRACE.
fn sources(folder: &Path, config: &str) -> Sources {
    let tree = folder.join("linux");
    fs::create_dir_all(tree.join("scripts")).unwrap();
    let makefile = "\
olddefconfig:
	@sed -i '/CONFIG_NOTHING/d' $(O)/.config
\t@if grep -q '^CONFIG_CRYPTO=y' $(O)/.config; then \\
\t\tsed -i '/CONFIG_HASH/d' $(O)/.config; echo CONFIG_HASH=y >> $(O)/.config; fi
\t@if ! grep -q '^CONFIG_TRACE=y' $(O)/.config; then sed -i '/CONFIG_PROFILE/d' $(O)/.config; fi
\t@if ! grep -q '^CONFIG_DEBUG=y' $(O)/.config; then sed -i '/CONFIG_TRACE/d' $(O)/.config; fi
\t@if grep -q '^CONFIG_BUS=m' $(O)/.config; then sed -i s/^CONFIG_DRIVER=y/CONFIG_DRIVER=m/ $(O)/.config; fi
\t@grep -q CONFIG_DEFAULT $(O)/.config || echo CONFIG_DEFAULT=y >> $(O)/.config
bzImage:
\t@echo building in $(O)
\t@! grep -q '^CONFIG_BROKEN=y' $(O)/.config || { echo 'drivers/broken.c:1: error: no'; exit 1; }
\t@mkdir -p $(O)/arch/x86/boot; sort $(O)/.config > $(O)/arch/x86/boot/bzImage
";
    fs::write(tree.join("Makefile"), makefile).unwrap();
    let script = "\
#!/bin/sh
file=$2; shift 2
while [ $# -gt 0 ]; do
    sed -i \"/CONFIG_$2=/d; /CONFIG_$2 is/d\" $file
    if [ $1 = --enable ]; then echo CONFIG_$2=y; else echo \"# CONFIG_$2 is not set\"; fi >> $file
    shift 2
done
";
    fs::write(tree.join("scripts/config"), script).unwrap();
    fs::set_permissions(tree.join("scripts/config"), fs::Permissions::from_mode(0o755)).unwrap();
    let kconfig = "\
config CRYPTO
\tbool \"crypto\"
\tselect HASH if X86
config HASH
\tbool
config BROKEN
\tbool \"broken\"
menuconfig DEBUG
\tbool \"debug\"
config BUS
\ttristate
config DRIVER
\ttristate
\tdepends on BUS
config DEFAULT
\tdef_bool y
";
    fs::write(tree.join("Kconfig"), kconfig).unwrap();
    fs::create_dir_all(tree.join("kernel/trace")).unwrap();
    let more = "config TRACE\n\tbool \"trace\"\n\tdepends on DEBUG && X86\nconfig PROFILE\n\tdepends on TRACE\n";
    fs::write(tree.join("kernel/trace/Kconfig"), more).unwrap();
    let file = folder.join("config-1");
    fs::write(&file, config).unwrap();
    Sources::of(tree, file, folder.join("cache")).unwrap()
}

const CONFIG: &str =
    "CONFIG_X86=y\nCONFIG_DEBUG=y\nCONFIG_TRACE=y\nCONFIG_PROFILE=y\nCONFIG_CRYPTO=y\n# CONFIG_NET is not set\n";

/// The existing build folders.
fn folders(tree: &Tree) -> Vec<String> {
    let entries = fs::read_dir(tree.builds()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn built(tree: &Tree, changes: &[String]) -> Result<BuiltKernel, TreeError> {
    tree.build(changes, &mut || false, &|_| {})
}

#[test]
fn options_are_switched_and_dependent_changes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::open(sources(folder.path(), CONFIG)).unwrap();
    let base = built(&tree, &[]).unwrap();
    let without = built(&tree, &words("-TRACE")).unwrap();
    assert_eq!((base.along.as_slice(), without.along.as_slice()), (&[][..], &["-PROFILE".to_owned()][..]));
    let text = fs::read_to_string(&without.image).unwrap();
    assert!(text.contains("CONFIG_DEBUG=y") && !text.contains("CONFIG_TRACE=y"), "{text}");
    assert!(fs::read_to_string(&base.image).unwrap().contains("CONFIG_TRACE=y"));
    // A second build of the same gives the same file. Only the build folder of the unchanged configuration is kept.
    assert_eq!(built(&tree, &words("-TRACE")).unwrap(), without);
    assert_eq!(built(&tree, &[]).unwrap(), base);
    assert!(tree.builds().join("base").join(IMAGE).is_file());
    assert_eq!(folders(&tree), ["base"]);
    assert_eq!(fs::read_to_string(folder.path().join("config-1")).unwrap(), CONFIG, "what was given is only read");
}

#[test]
fn an_option_that_does_not_take_names_the_option_that_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::open(sources(folder.path(), CONFIG)).unwrap();
    let says = |changes: &str, what: &[&str]| {
        let why = built(&tree, &words(changes)).unwrap_err().to_string();
        assert!(what.iter().all(|what| why.contains(what)), "{changes}: {why}");
    };
    says("-HASH", &["-HASH did not take", "selected by CRYPTO"]);
    built(&tree, &words("-HASH -CRYPTO")).unwrap();
    says("-DEBUG +TRACE", &["+TRACE did not take", "depends on DEBUG && X86"]);
    assert!(folders(&tree).is_empty(), "a copy of a build is large");
    says("+NOTHING", &["+NOTHING did not take", "no such option"]);
    says("TRACE", &["no change of an option"]);
    says("-TRACE;reboot", &["no change of an option"]);
    let unknown = tree.refuse_unknown(&words("-TRACE -NET_OF_OLD")).unwrap_err().to_string();
    assert!(unknown.contains("CONFIG_NET_OF_OLD"), "{unknown}");
    tree.refuse_unknown(&words("-CONFIG_TRACE")).unwrap();
    assert_eq!(tree.open_changes(&words("-NET -TRACE")).unwrap(), words("-TRACE"));
    assert!(matches!(tree.open_changes(&words("-NET +TRACE")), Err(TreeError::IsSo(_))));
}

#[test]
fn changes_made_already_are_found_in_the_completed_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}CONFIG_BUS=m\n# CONFIG_HASH is not set\n");
    let tree = Tree::open(sources(folder.path(), &config)).unwrap();
    let is_open = |change: &str| tree.open_changes(&words(change)).is_ok();
    assert!(is_open("-DEFAULT"), "nobody knows its default yet");
    assert!(!is_open("-HASH") && !is_open("+TRACE"), "it says so");
    assert!(is_open("+BUS") && is_open("-BUS"), "a module is neither");
    built(&tree, &[]).unwrap();
    assert!(is_open("-DEFAULT") && !is_open("+DEFAULT") && !is_open("-NEVER_HEARD_OF"));
    assert!(is_open("-HASH"), "CRYPTO selects it");
    let why = built(&tree, &words("+DRIVER")).unwrap_err().to_string();
    assert!(why.contains("+DRIVER did not take: it became a module") && why.contains("depends on BUS"), "{why}");
    // Both are built in, as requested, so no other option has changed along.
    assert!(built(&tree, &words("+BUS +DRIVER")).unwrap().along.is_empty());
}

#[test]
fn a_configuration_that_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources(folder.path(), CONFIG);
    fs::write(&sources.config, "CONFIG_X86=y\n").unwrap();
    let why = Tree::open(sources.clone()).unwrap_err().to_string();
    assert!(why.contains("config-1 has another content"), "{why}");
    Tree::open(Sources { config_sha256: String::new(), ..sources }).unwrap();
}

#[test]
fn one_process_builds_at_a_time_and_the_other_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::open(sources(folder.path(), CONFIG)).unwrap();
    fs::create_dir_all(tree.builds()).unwrap();
    let held = tree.lock(&mut || false, &|_| {}).unwrap();
    let said = std::cell::RefCell::new(Vec::new());
    let mut asked = 0;
    let mut stop = || {
        asked += 1;
        asked == 3
    };
    let stopped = tree.build(&[], &mut stop, &|text| said.borrow_mut().push(text.to_owned()));
    assert!(matches!(stopped, Err(TreeError::Stopped(_))), "{stopped:?}");
    let said = said.into_inner();
    assert!(matches!(&said[..], [one] if one.contains(&format!("process {} builds", std::process::id()))), "{said:?}");
    assert!(folders(&tree).is_empty());
    drop(held);
    built(&tree, &[]).unwrap();
}

#[test]
fn variables_of_the_users_make_are_not_inherited() {
    let folder = tempfile::tempdir().unwrap();
    let tree = Tree::open(sources(folder.path(), CONFIG)).unwrap();
    let mut stop = || false;
    fs::create_dir_all(tree.builds()).unwrap();
    let build = tree.begin(&[], &mut stop).unwrap();
    let command = build.command("true");
    let removed = |name: &str| command.get_envs().any(|(known, value)| known == name && value.is_none());
    for name in ["KCONFIG_CONFIG", "KCONFIG_ALLCONFIG", "KBUILD_EXTMOD", "M", "MAKEFILES", "GNUMAKEFLAGS"] {
        assert!(removed(name), "{name}");
    }
}

#[test]
fn a_build_that_fails_shows_its_last_lines_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources(folder.path(), CONFIG);
    let tree = Tree::open(sources.clone()).unwrap();
    let why = built(&tree, &words("+BROKEN")).unwrap_err().to_string();
    assert!(
        why.contains("make bzImage") && why.contains("drivers/broken.c:1: error: no") && why.contains(".log"),
        "{why}"
    );
    assert!(matches!(tree.build(&[], &mut || true, &|_| {}), Err(TreeError::Stopped(_))));
    let open = |change: &dyn Fn(&Path)| {
        change(&sources.tree);
        Tree::open(sources.clone()).unwrap_err().to_string()
    };
    assert!(open(&|tree| fs::write(tree.join(".config"), "").unwrap()).contains("make mrproper"));
    assert!(open(&|tree| fs::remove_file(tree.join("Makefile")).unwrap()).contains("top folder"));
}
