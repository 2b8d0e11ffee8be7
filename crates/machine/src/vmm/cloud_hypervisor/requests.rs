//! The requests to cloud-hypervisor: one that describes a machine, and one that starts it.

use std::os::fd::RawFd;
use std::path::Path;

use recording::GuestSpec;
use serde_json::{Value, json};

use super::NAME;
use crate::Error;
use crate::image::disk_format;
use crate::vmm::api::{Request, utf8_path};
use crate::vmm::unsupported_options::disks;

/// Descriptors that cloud-hypervisor inherits, and opens again through `/proc`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inherited {
    pub(super) initrd: Option<RawFd>,
    pub(super) ram: Option<RawFd>,
}

/// The request that starts the vCPUs.
pub(super) fn boot() -> Request {
    Request::bare("/api/v1/vm.boot")
}

/// The request that describes the machine, to be sent before that. The serial port is cloud-hypervisor's standard output, to which it
/// writes byte by byte.
pub(super) fn machine(guest: &GuestSpec, kernel_line: &str, fds: Inherited) -> Result<Request, Error> {
    let kernel = guest.kernel.as_deref().unwrap_or(Path::new(""));
    let mut payload = json!({"kernel": utf8_path(kernel, NAME)?, "cmdline": boot_args(guest, kernel_line)});
    if let Some(fd) = fds.initrd {
        payload["initramfs"] = Value::from(opened_again(fd));
    }
    let memory = match fds.ram {
        // The zones are all of the memory then.
        Some(fd) => json!({"size": 0, "zones": [
            {"id": "ram", "size": guest.memory_bytes, "file": opened_again(fd), "shared": true}
        ]}),
        None => json!({"size": guest.memory_bytes}),
    };
    let mut config = json!({
        "cpus": {"boot_vcpus": guest.cpus, "max_vcpus": guest.cpus},
        "memory": memory,
        "payload": payload,
        "serial": {"mode": "Tty"},
        "console": {"mode": "Off"},
    });
    let disks = disks(guest).map(|(path, _)| disk(path)).collect::<Result<Vec<Value>, Error>>()?;
    if !disks.is_empty() {
        config["disks"] = Value::from(disks);
    }
    Ok(Request::new("/api/v1/vm.create", config))
}

/// A disk, opened read-only: bootscope must not write to an image.
fn disk(path: &Path) -> Result<Value, Error> {
    let format = if disk_format(path)? == "qcow2" { "Qcow2" } else { "Raw" };
    Ok(json!({"path": utf8_path(path, NAME)?, "readonly": true, "image_type": format}))
}

/// Adds the parameters for the root, which Firecracker would add itself. The user's own parameters come later and override them.
fn boot_args(guest: &GuestSpec, kernel_line: &str) -> String {
    format!("{}{kernel_line}", if guest.root.is_some() { "root=/dev/vda ro " } else { "" })
}

fn opened_again(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::Init;

    #[test]
    fn a_machine_is_described_in_one_request() {
        let dir = tempfile::tempdir().unwrap();
        let image = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (root, disk) = (image("root.ext4", b"raw"), image("data.qcow2", b"QFI\xfb"));
        let guest = GuestSpec {
            kernel: Some("/k/vmlinux".into()),
            root: Some(root.clone()),
            disks: vec![disk.clone()],
            init: Init::Keep,
            cpus: 2,
            memory_bytes: 256 << 20,
            ..GuestSpec::default()
        };
        let fds = Inherited { initrd: Some(7), ram: Some(8) };
        let request = machine(&guest, "console=ttyS0 quiet", fds).unwrap();
        assert_eq!((request.path.as_str(), boot().text().as_str()), ("/api/v1/vm.create", "PUT /api/v1/vm.boot"));
        let expected = json!({
            "cpus": {"boot_vcpus": 2, "max_vcpus": 2},
            "memory": {"size": 0, "zones": [
                {"id": "ram", "size": 268_435_456, "file": "/proc/self/fd/8", "shared": true}
            ]},
            "payload": {
                "kernel": "/k/vmlinux", "cmdline": "root=/dev/vda ro console=ttyS0 quiet", "initramfs": "/proc/self/fd/7"
            },
            "serial": {"mode": "Tty"},
            "console": {"mode": "Off"},
            "disks": [
                {"path": root, "readonly": true, "image_type": "Raw"},
                {"path": disk, "readonly": true, "image_type": "Qcow2"},
            ],
        });
        assert_eq!(request.body.unwrap(), expected);
        let bare = GuestSpec { root: None, disks: Vec::new(), ..guest };
        let body = machine(&bare, "quiet", Inherited::default()).unwrap().body.unwrap();
        assert_eq!((&body["memory"], &body["payload"]["cmdline"]), (&json!({"size": 268_435_456}), &json!("quiet")));
        assert!(body.get("disks").is_none(), "{body}");
    }
}
