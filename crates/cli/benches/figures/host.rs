//! The description of the machine, which gives the figures their meaning.

use std::fs;
use std::path::Path;
use std::process::Command;

/// CPU, cores, load, kernel, QEMU, date, and the booted kernel.
pub fn description(kernel: Option<&Path>) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let load = file("/proc/loadavg");
    format!(
        "{date}, bootscope {version}\nhost:   {cpu}, {cores} cores, load {load}, Linux {linux}\nVMM:    {qemu}\nkernel: {kernel}",
        date = first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]).unwrap_or_default(),
        version = env!("CARGO_PKG_VERSION"),
        cpu = field("model name").unwrap_or_else(|| "unknown CPU".to_owned()),
        cores = std::thread::available_parallelism().map_or(0, usize::from),
        load = load.split(' ').next().unwrap_or_default(),
        linux = file("/proc/sys/kernel/osrelease").trim_end(),
        qemu = first_line("qemu-system-x86_64", &["--version"]).unwrap_or_else(|| "none".to_owned()),
        kernel = kernel.and_then(Path::file_name).map_or_else(|| "none".into(), |name| name.to_string_lossy()),
    )
}

/// The first line that a program prints, if the program exists.
pub fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
