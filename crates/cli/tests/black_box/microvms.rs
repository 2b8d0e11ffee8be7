//! Boots in VMMs that are not QEMU.

mod cloud_hypervisor;
mod firecracker;
