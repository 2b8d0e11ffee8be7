//! Finds arguments of the user for QEMU that make devices whose timing depends on the host. A boot with such a device cannot repeat
//! exactly.

/// The first of QEMU's arguments that makes a block or network device that is not in `spared`.
pub(crate) fn host_timed_device(extra: &[String], spared: &[&str]) -> Option<String> {
    const OPTIONS: &[&str] = &[
        "drive", "blockdev", "hda", "hdb", "hdc", "hdd", "cdrom", "fda", "fdb", "sd", "mtdblock", "pflash", "netdev",
        "iscsi", "virtfs", "fsdev", "loadvm",
    ];
    const DEVICES: &[&str] = &[
        "virtio-blk",
        "virtio-scsi",
        "virtio-net",
        "vhost",
        "nvme",
        "e1000",
        "rtl8139",
        "vmxnet",
        "ne2k",
        "pcnet",
        "i82",
        "tulip",
        "usb-net",
        "usb-storage",
        "usb-uas",
        "scsi-",
        "ide-",
        "ahci",
        "sdhci",
        "virtio-9p",
    ];
    for (at, argument) in extra.iter().enumerate() {
        let value = extra.get(at + 1).map_or("", String::as_str);
        let Some(option) = argument.strip_prefix('-') else {
            continue;
        };
        let option = option.strip_prefix('-').unwrap_or(option);
        let refused = match option {
            "nic" | "net" => value != "none",
            "device" => {
                let model = value.strip_prefix("driver=").unwrap_or(value);
                let is_spared = spared.contains(&model.split(',').next().unwrap_or_default());
                !is_spared && DEVICES.iter().any(|device| model.starts_with(device))
            }
            _ => OPTIONS.contains(&option),
        };
        if refused {
            return Some(format!("{argument} {value}").trim_end().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(|&a| a.to_owned()).collect()
    }

    #[test]
    fn devices_that_make_a_boot_differ_are_found() {
        for bad in [
            &["-drive", "file=x"][..],
            &["-device", "nvme,serial=1"],
            &["-device", "virtio-blk-pci"],
            &["--device", "driver=e1000"],
            &["-m", "1G", "-nic", "user"],
            &["-hda", "x"],
        ] {
            assert!(host_timed_device(&extra(bad), &[]).is_some(), "{bad:?}");
        }
        for good in [&["-device", "virtio-rng-pci"][..], &["-nic", "none"], &["-cpu", "max"], &[]] {
            assert_eq!(host_timed_device(&extra(good), &[]), None, "{good:?}");
        }
        let two = extra(&["-device", "nvme,serial=a", "-device", "virtio-net-pci"]);
        assert_eq!(host_timed_device(&two, &["nvme"]).as_deref(), Some("-device virtio-net-pci"));
    }
}
