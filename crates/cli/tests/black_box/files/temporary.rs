//! Files in shared folders: bootscope's own have unpredictable names, and existing ones of other users are left alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// Runs bootscope in a shared folder for temporary files, in which another user has created a folder with this name and
/// bootscope's process number. Returns the folder's entries afterwards, and bootscope's standard error.
fn run_beside(name: &str, arguments: &[&str]) -> (Vec<String>, String) {
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let mut command = Command::new("sh");
    // The shell becomes bootscope, so its process number is known in advance.
    command.args(["-c", "mkdir -m 777 \"$TMPDIR/$1-$$\" && shift && exec \"$@\"", "sh", name]);
    command.arg(env!("CARGO_BIN_EXE_bootscope")).args(arguments);
    let output = command.env("TMPDIR", shared.path()).env_remove("XDG_RUNTIME_DIR").output().unwrap();
    let left = fs::read_dir(shared.path()).unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!(fs::read_dir(entry.path()).unwrap().count(), 0, "it was written into {}", entry.path().display());
        entry.file_name().into_string().unwrap()
    });
    let left = left.collect();
    (left, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn temporary_folders_are_not_those_of_other_users() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel");
    fs::write(&kernel, "none").unwrap();
    let kernel = kernel.to_str().unwrap();
    for (name, arguments) in [
        ("bootscope-overhead", &["record", "--overhead", "2", "--kernel", kernel][..]),
        ("bootscope-lab", &["lab", "run", "ap-start", "--qemu", "/nonexistent/qemu"]),
    ] {
        let (left, stderr) = run_beside(name, arguments);
        let is_theirs = |left: &String| left.starts_with(&format!("{name}-"));
        assert!(left.len() == 1 && left.iter().all(is_theirs), "{left:?}: {stderr}");
    }
}

#[test]
fn output_files_follow_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("kmsg.log");
    fs::write(&log, "6,1,1000,-;Linux version 6.1.0\n6,2,2000,-;Run /init as init process\n").unwrap();
    for (umask, mode) in [("022", 0o644), ("077", 0o600), ("027", 0o640)] {
        let script = "umask $1; cd $2; boot=boot-$1; $3 import kmsg.log -o $boot && $3 pack $boot && \
                      $3 report $boot -o $boot.html && $3 export $boot --to json -o $boot.json";
        let output = Command::new("sh")
            .args(["-c", script, "sh", umask])
            .args([folder.path().as_os_str(), env!("CARGO_BIN_EXE_bootscope").as_ref()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for ending in ["/recording.json", ".tar.zst", ".html", ".json"] {
            let path = folder.path().join(format!("boot-{umask}{ending}"));
            assert_eq!(path.metadata().unwrap().mode() & 0o777, mode, "{} with umask {umask}", path.display());
        }
    }
}
