//! The requests to Firecracker that describe a machine, and the last one that starts it.

use std::os::fd::RawFd;
use std::path::Path;

use recording::GuestSpec;
use serde_json::{Value, json};

use super::NAME;
use crate::Error;
use crate::vmm::api::{Request, utf8_path};
use crate::vmm::unsupported_options::disks;

/// The request that starts the vCPUs.
pub(super) fn start() -> Request {
    Request::new("/actions", json!({"action_type": "InstanceStart"}))
}

/// The requests that describe the machine, to be sent before that.
pub(super) fn machine(guest: &GuestSpec, kernel_line: &str, initrd: Option<RawFd>) -> Result<Vec<Request>, Error> {
    let kernel = guest.kernel.as_deref().unwrap_or(Path::new(""));
    let mut boot = json!({"kernel_image_path": utf8_path(kernel, NAME)?, "boot_args": boot_args(kernel_line)});
    if let Some(fd) = initrd {
        boot["initrd_path"] = Value::from(format!("/proc/self/fd/{fd}"));
    }
    let config = json!({"vcpu_count": guest.cpus, "mem_size_mib": guest.memory_bytes >> 20});
    let mut all = vec![Request::new("/machine-config", config), Request::new("/boot-source", boot)];
    for (n, (path, is_root)) in disks(guest).enumerate() {
        let id = format!("disk{n}");
        // bootscope must not write to an image, and Firecracker has no snapshots of disks.
        let drive = json!({"drive_id": id, "path_on_host": utf8_path(path, NAME)?, "is_root_device": is_root, "is_read_only": true});
        all.push(Request::new(format!("/drives/{id}"), drive));
    }
    Ok(all)
}

/// Adds `reboot=k`, which makes Linux reset by the keyboard controller. That is the only reset at which Firecracker ends. The user's own
/// parameters come later and override it.
fn boot_args(kernel_line: &str) -> String {
    format!("reboot=k {kernel_line}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_before_it_is_started() {
        let guest = GuestSpec {
            kernel: Some("/k/vmlinux".into()),
            root: Some("/k/root.ext4".into()),
            disks: vec!["/k/data.img".into()],
            cpus: 2,
            memory_bytes: 256 << 20,
            ..GuestSpec::default()
        };
        let all = machine(&guest, "console=ttyS0 quiet", Some(7)).unwrap();
        let texts: Vec<String> = all.iter().chain([&start()]).map(Request::text).collect();
        assert_eq!(
            texts,
            [
                r#"PUT /machine-config {"mem_size_mib":256,"vcpu_count":2}"#,
                r#"PUT /boot-source {"boot_args":"reboot=k console=ttyS0 quiet","initrd_path":"/proc/self/fd/7","kernel_image_path":"/k/vmlinux"}"#,
                r#"PUT /drives/disk0 {"drive_id":"disk0","is_read_only":true,"is_root_device":true,"path_on_host":"/k/root.ext4"}"#,
                r#"PUT /drives/disk1 {"drive_id":"disk1","is_read_only":true,"is_root_device":false,"path_on_host":"/k/data.img"}"#,
                r#"PUT /actions {"action_type":"InstanceStart"}"#,
            ]
        );
    }
}
