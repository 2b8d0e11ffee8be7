//! Causes of gaps in a log, by the lines around them.

/// A cause that the line at the end of a gap gives away.
pub(super) struct Cause {
    /// Words of such lines; all words of one entry stand in the line, in this order.
    pub lines: &'static [&'static [&'static str]],
    /// The same of lines at the beginning of a gap: they say that the kernel is going to wait.
    pub begins: &'static [&'static [&'static str]],
    /// The object of the wait, after "for".
    pub waits_for: &'static str,
    pub remedy: &'static str,
    /// Words for the kernel's command line, if they are a remedy.
    pub words: &'static [&'static str],
}

const fn cause(
    lines: &'static [&'static [&'static str]],
    waits_for: &'static str,
    remedy: &'static str,
    words: &'static [&'static str],
) -> Cause {
    Cause { lines, begins: &[], waits_for, remedy, words }
}

impl Cause {
    const fn begins(self, begins: &'static [&'static [&'static str]]) -> Cause {
        Cause { begins, ..self }
    }
}

/// The place of the cause of a gap that is as long as systemd's default time-out.
pub(super) const TIME_OUT_OF_A_UNIT: usize = 0;
/// The place of the cause of a gap behind several lines with the stamp 0.
pub(super) const CLOCK_STOOD: usize = 1;

/// Sources: the kernel's own texts (drivers/input/serio/i8042.c, drivers/hid/usbhid/hid-core.c, drivers/char/random.c,
/// drivers/ata/libata-*.c, drivers/base/firmware_loader, init/do_mounts.c, net/ipv4/ipconfig.c, lib/raid6/algos.c, kernel/power) and
/// Documentation/admin-guide/kernel-parameters.txt for the options.
pub(super) const CAUSES: &[Cause] = &[
    cause(
        &[
            &["systemd[", "Timed out waiting for"],
            &["systemd[", "start operation timed out"],
            &["systemd[", "Dependency failed"],
        ],
        "for a unit of systemd until its time-out",
        "start what the unit waits for, or take the unit out; JobTimeoutSec= and DefaultTimeoutStartSec= shorten the wait",
        &[],
    ),
    // Kernels whose clock is a counter of the machine print its value as soon as they can read it.
    cause(
        &[],
        "for the clock: earlier lines have the stamp 0",
        "the counter may run from the machine's reset: then this is time of the firmware and the loader, not of the kernel. To tell, \
         stamp the console's lines on another machine: record --serial, or grabserial -t",
        &[],
    )
    .begins(&[&["(or an earlier line at 0)"]]),
    cause(
        &[
            &["i8042"],
            &["AT Raw Set 2 keyboard"],
            &["AT Translated Set 2 keyboard"],
            &["psmouse serio"],
            &["serio: i8042"],
        ],
        "for the PS/2 controller",
        "if the machine has no PS/2 keyboard: i8042.noaux i8042.nomux i8042.nopnp i8042.dumbkbd skip the probes, and a machine \
         without the controller, or a kernel without SERIO_I8042, makes none",
        &["i8042.noaux", "i8042.nomux", "i8042.nopnp", "i8042.dumbkbd"],
    ),
    cause(
        &[
            &["Delay ", " seconds to wait for disk"],
            &["spin up"],
            &["spun up"],
            &["Spinning up disk"],
            &["Starting disk"],
        ],
        "for a disk to spin up",
        "the disk's start is staggered by the box's firmware or kernel: shorten the delay there, or do not wait for disks that the \
         root does not need",
        &[],
    ),
    cause(
        &[
            &["timeout initializing reports"],
            &["usb_submit_urb(ctrl) failed"],
            &["can't set config"],
            &["hid", "timeout"],
        ],
        "for a USB input device that does not answer",
        "usbhid.quirks=0xVENDOR:0xPRODUCT:0x20000000 skips the initial reports of this device; or unplug it, or update its firmware",
        &[],
    ),
    cause(
        &[&["random: crng init done"], &["random: nonblocking pool is initialized"], &["random: crng done"]],
        "for random numbers",
        "give the machine a source of randomness: virtio-rng, a seed that the loader passes, or a CPU's instruction with \
         random.trust_cpu=on random.trust_bootloader=on",
        &["random.trust_cpu=on", "random.trust_bootloader=on"],
    ),
    cause(
        &[
            &["ata", "SATA link down"],
            &["ata", "SATA link up"],
            &["ata", "link is slow to respond"],
            &["ata", "COMRESET failed"],
            &["ata", "SRST failed"],
            &["ata", "qc timeout"],
            &["ata", "hard resetting link"],
            &["ata", "softreset failed"],
            &["ata", "failed to IDENTIFY"],
            &["ata", "No present pin info"],
        ],
        "for a SATA port",
        "ports without a disk can be left out: libata.force=N:disable, or switch them off in the firmware's setup; a reset that \
         fails is the disk's or the cable's",
        &[],
    ),
    cause(
        &[&["Waiting for root device"], &["VFS: Mounted root"], &["VFS: Cannot open root device"], &["rootwait"]],
        "for the root file system",
        "find what supplies the root's device and start that earlier: its driver built in, fewer devices on its bus, no rootdelay=",
        &[],
    ),
    cause(
        &[
            &["EXT4-fs (", "mounted filesystem"],
            &["EXT4-fs (", "recovery complete"],
            &["XFS (", "Ending clean mount"],
            &["BTRFS info", "first mount"],
            &["EXT4-fs (", "recovery required"],
            &["EXT4-fs (", "re-mounted"],
            &["EXT3-fs", "mounted filesystem"],
            &["kjournald starting"],
            &["F2FS-fs (", "Mounted with"],
            &["F2FS-fs (", "recover fsync data"],
            &["UBIFS", "mounted"],
        ],
        "for a file system to be mounted",
        "a file system that was not unmounted replays its journal: shut down cleanly; else find what waits before the mount",
        &[],
    ),
    cause(
        &[
            &["Direct firmware load for ", " failed"],
            &["firmware: failed to load"],
            &["Falling back to sysfs fallback"],
            &["firmware", "timed out"],
            &["failed to load firmware"],
        ],
        "for firmware that is not there",
        "put the file into the initrd or the root, or build the kernel without FW_LOADER_USER_HELPER_FALLBACK: its time-out is 60 s",
        &[],
    ),
    cause(
        &[
            &["usb ", "new ", "-speed USB device"],
            &["usb ", "new SuperSpeed"],
            &["usb ", "device descriptor read"],
            &["usb ", "device not accepting address"],
            &["usb ", "New USB device found"],
            &["hub ", "USB hub found"],
            &["usb-storage ", "USB Mass Storage device detected"],
            &["xhci_hcd ", "xHCI Host Controller"],
        ],
        "for USB to find its devices",
        "devices of USB answer when they like: do not wait for those that the boot does not need, or load their drivers later",
        &[],
    ),
    cause(
        &[&["pcie", "link up"], &["pcie", "Link up"], &["PCIe", "link up"], &["PCIe", "Link up"]],
        "for a PCIe link to train",
        "let the driver of the host bridge probe asynchronously, or take slots without a device out of the device tree",
        &[],
    ),
    cause(
        &[&["Link is Up"], &["link becomes ready"], &["NIC Link is Up"], &["link up"], &["carrier acquired"]],
        "for a network link",
        "a link's negotiation takes 1 to 3 s: begin it earlier, or do not wait for it before the root is mounted",
        &[],
    ),
    cause(
        &[
            &["IP-Config: Complete"],
            &["IP-Config: Got DHCP"],
            &["IP-Config: Retrying"],
            &["Sending DHCP requests"],
            &["IP-Config: "],
        ],
        "for the kernel's own network configuration",
        "give the address on the command line (ip=ADDRESS::GATEWAY:MASK::eth0:off), or leave ip= out and let user space do it",
        &[],
    ),
    cause(
        &[&["raid6: using algorithm"], &["raid6: "], &["xor: using function"], &["xor: measuring"]],
        "for a benchmark of checksums",
        "a kernel without RAID6_PQ_BENCHMARK takes one without measuring; where no disk is RAID 5 or 6, md and btrfs need not be built \
         in",
        &[],
    ),
    cause(
        &[
            &["PM: Image not found"],
            &["PM: hibernation image not present"],
            &["PM: Starting manual resume"],
            &["PM: hibernation: Image not present"],
        ],
        "for a hibernation image",
        "noresume skips it, where the machine is never hibernated",
        &["noresume"],
    ),
    cause(
        &[&["tpm", "self test"], &["tpm_tis"], &["tpm tpm0"], &["ima: "]],
        "for the TPM",
        "a TPM's self test takes what it takes: build its driver as a module where nothing measures the boot",
        &[],
    ),
    cause(
        &[&["mmc", "new "], &["mmc", "error -110"], &["mmc", "card"], &["mmcblk"], &["mmc", "Timeout waiting"]],
        "for an SD card or eMMC",
        "a slot without a card is probed at several speeds: mark it `broken-cd` or `non-removable` as it is, or disable it in the device \
         tree",
        &[],
    ),
    cause(
        &[
            &["Attached SCSI"],
            &["scsi ", "Direct-Access"],
            &["sd ", "logical blocks"],
            &["scsi host"],
            &["Attached scsi"],
        ],
        "for a SCSI disk or its controller",
        "controllers wait for all their targets: lower the driver's settle time, or scan asynchronously (scsi_mod.scan=async)",
        &["scsi_mod.scan=async"],
    ),
    cause(
        &[&["nvme", "queues"], &["nvme nvme"], &["nvme", "timeout"]],
        "for an NVMe disk",
        "a controller becomes ready when it likes; let the boot not wait for disks that the root does not need",
        &[],
    ),
    cause(
        &[],
        "for the calibration of the delay loop",
        "lpj=VALUE, as an earlier boot of this machine printed it, skips it",
        &[],
    )
    .begins(&[&["Calibrating delay loop... "]]),
    cause(
        &[&["brcmfmac"], &["iwlwifi"], &["ath10k"], &["ath11k"], &["ath12k"], &["mt76"], &["rtw8"]],
        "for wireless networking",
        "load the driver after the boot, as a module",
        &[],
    ),
    cause(
        &[
            &["fb0: "],
            &["Console: switching to colour frame buffer"],
            &["[drm] Initialized"],
            &["amdgpu"],
            &["nouveau"],
            &["i915"],
        ],
        "for the display",
        "load the display's driver after the root is mounted, as a module",
        &[],
    ),
    cause(
        &[&["smp: Brought up"], &["smpboot: Total of"], &["CPU", "failed to come online"], &["PSCI", "CPU"]],
        "for other CPUs to start",
        "CPUs start one after the other: fewer of them, or a kernel that starts them in parallel (6.5 and newer)",
        &[],
    ),
    cause(
        &[
            &["ACPI: ", "AML tables successfully"],
            &["ACPI: Dynamic OEM Table Load"],
            &["ACPI: Interpreter enabled"],
            &["ACPI: EC: "],
            &["ACPI: ", "ew power resource"],
            &["Low-power S0 idle used"],
            &["ACPI: PCI Root Bridge"],
            &["ACPI Error"],
            &["ACPI BIOS Error"],
        ],
        "for methods of the firmware's ACPI tables",
        "a newer firmware may be quicker; acpi_osi= changes which methods run",
        &[],
    ),
    cause(
        &[&["nfs: server", "not responding"], &["VFS: Unable to mount root fs via NFS"]],
        "for a server of NFS",
        "check the server and its address",
        &[],
    ),
    cause(
        &[],
        "for USB storage to settle",
        "usb-storage.delay_use=0 looks for the disk at once",
        &["usb-storage.delay_use=0"],
    )
    .begins(&[&["usb-storage: waiting for device to settle"], &["scsi host", "usb-storage"]]),
    cause(
        &[&[" bytes read in "], &["Bytes transferred = "]],
        "for the loader to read a file",
        "load less: a smaller or compressed image, no initrd that is not needed; a faster mode of the card or bus in the loader; or let \
         SPL start the kernel (falcon mode)",
        &[],
    ),
    cause(
        &[&["Storage Device(s) found"], &["USB Device(s) found"], &["scanning usb for"], &["scanning bus usb"]],
        "for the loader's search for USB devices",
        "take USB out of the loader's boot targets (boot_targets, preboot), if the machine does not boot from it",
        &[],
    ),
    cause(
        &[&["DHCP client bound"], &["BOOTP broadcast"], &["TFTP from server"], &["Waiting for PHY auto negotiation"]],
        "for the loader's network",
        "do not boot by network, or give the loader a fixed address",
        &[],
    ),
    cause(
        &[],
        "for the loader's check of an image",
        "`setenv verify n` skips it in U-Boot, where the medium is trusted; an image without a checksum needs none",
        &[],
    )
    .begins(&[&["Verifying Checksum"], &["Verifying Hash Integrity"]]),
    cause(
        &[&["Phy link never came up"], &["PCIe link", "down"], &["link not up"]],
        "for a PCIe link without a device",
        "take the slot out of the device tree, or let its driver probe asynchronously",
        &[],
    ),
    cause(
        &[&["deferred probe pending"], &["deferred probe timeout, ignoring dependency"]],
        "for suppliers of deferred devices until the time-out",
        "build in or load the drivers of their suppliers; deferred_probe_timeout=0 ends the wait at once",
        &["deferred_probe_timeout=0"],
    ),
    cause(
        &[&["Freeing initrd memory"], &["Initramfs unpacking failed"]],
        "for the initrd to be unpacked",
        "a smaller initrd, without modules that this machine does not load; a faster compression (lz4, zstd), or none where the image is \
         loaded fast; or no initrd, where the drivers of the root are built in",
        &[],
    ),
    cause(
        &[&["Memory: ", " available ("]],
        "for all pages of memory to be handed to the allocator",
        "a kernel with DEFERRED_STRUCT_PAGE_INIT leaves most of them for later and does that on all CPUs; init_on_free=, page_poison= \
         and debug_pagealloc= cost here, too",
        &[],
    ),
    cause(
        &[&["floppy", "no floppy controllers found"], &["Floppy drive(s)"], &["FDC 0 is "]],
        "for a floppy disk controller",
        "a machine without one waits seconds for it: modprobe.blacklist=floppy, or a kernel without BLK_DEV_FD",
        &["modprobe.blacklist=floppy"],
    ),
    cause(
        &[&["DOE: ", "ABORT timed out"], &["DOE: ", "timed out"], &["DOE: ", "failed to cache protocols"]],
        "for a PCI device's mailbox (DOE) that does not answer",
        "each mailbox has a second to answer: a newer firmware of the device, or a kernel without PCI_DOE",
        &[],
    ),
    cause(
        &[&["alg: self-tests for"]],
        "for self-tests of cryptography",
        "outside of FIPS mode: cryptomgr.notests, or a kernel without them (CRYPTO_MANAGER_DISABLE_TESTS)",
        &["cryptomgr.notests"],
    ),
];
