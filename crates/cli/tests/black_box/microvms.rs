//! Boots in VMMs other than QEMU.

mod cloud_hypervisor;
mod firecracker;
