//! Devices that a boot needs before it starts process 1: known by the generic names of device trees, by the names of
//! drivers, and by the command line.

use hashbrown::HashSet;

/// The reason why a driver cannot be probed beside the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The root may be on it.
    Root,
    Console,
    /// The kernel sets the network up before process 1 starts.
    Network,
    /// Other devices need it.
    Supplier,
    /// The kernel printed that another device waits for it.
    WaitedFor,
    /// Its bus takes one transfer at a time.
    SharedBus,
}

impl Needed {
    pub fn reason(self) -> &'static str {
        match self {
            Needed::Root => "left out, because the root file system may be on it",
            Needed::Console => "left out, because the console may be on it",
            Needed::Network => "left out, because the kernel needs the network before process 1",
            Needed::Supplier => "left out, because other devices need it first",
            Needed::WaitedFor => "left out, because another device waited for it",
            Needed::SharedBus => "left out, because its bus takes one transfer at a time, and others are on it",
        }
    }
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Disk(Disk),
    Serial,
    Display,
    Network,
    /// Hosts that disks may be on: those of USB and PCI Express.
    UsbHost,
    PciHost,
    /// Nothing in the kernel needs it.
    Leaf,
    Supplier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Mmc,
    Nvme,
    Flash,
    Other,
}

/// Words in the names of devices and drivers. If several are in a name, the first kind of this table counts.
const WORDS: &[(Kind, &str)] = &[
    (Kind::Disk(Disk::Mmc), "mmc emmc sdmmc sdhci sdio dwmmc mshc esdhc usdhc mmci msdc"),
    (Kind::Disk(Disk::Nvme), "nvme"),
    (Kind::Disk(Disk::Flash), "nand flash nor qspi mtd onenand spinand"),
    (
        Kind::Disk(Disk::Other),
        "ufs ufshc ufshcd ahci sata ata pata piix ide scsi sas raid virtio blk blkfront vbd xenbus pvscsi \
         storvsc hv vmbus aacraid hpsa hpt mptsas mptspi mptfc megaraid smartpqi lpfc qla sym53c8xx vmd pmem \
         nvdimm nfit dasd zfcp ccw am53c974 esp dc395x advansys 3w arcmsr sr sd floppy mvsas isci",
    ),
    (Kind::Serial, "serial uart usart lpuart 8250 16550a pl011 scif sci ttys hvc console"),
    (
        Kind::Display,
        "display drm vop hdmi dsi edp lcd panel lvds i915 amdgpu radeon nouveau bochs cirrus qxl vmwgfx \
         simplefb efifb vesafb framebuffer fb ast mgag200",
    ),
    (
        Kind::Network,
        "ethernet eth gmac dwmac gbe gem fec enet emac cpsw macb mac lan wifi wlan can e100 e1000 e1000e igb \
         igc ixgbe r8169 8139too 8139cp vmxnet tg3 bnx pcnet tulip ne2k sky forcedeth atlantic netdev net \
         wireless iwlwifi ath brcmfmac",
    ),
    (Kind::UsbHost, "usb dwc2 dwc3 xhci ehci ohci uhci musb chipidea ci_hdrc"),
    (Kind::PciHost, "pcie pci"),
    (
        Kind::Leaf,
        "led leds key keys keypad sound audio snd codec spdif camera csi isp vpu video jpeg venc vdec crypto \
         caam rng trng touchscreen touch joystick input hwmon fan rtc watchdog wdt battery charger modem nfc \
         bluetooth bt gpu mali panfrost panthor lima npu vibrator backlight sensor accelerometer gyro hda ir",
    ),
    (
        Kind::Supplier,
        "clk clock clocks cru ccu osc pinctrl pinmux pinctl gpio regulator regulators vcc vdd pmic power \
         powerdomain domain genpd reset iommu smmu dma dmac edma pdma sdma intc gic its msi irq interrupt \
         mailbox mbox phy combphy usbphy syscon scm scmi scpi firmware rpm rpmh qmp interconnect noc nvmem \
         efuse otp pwm timer cpufreq opp i2c spi mdio soc bus sram adc iio memory mux hwlock eeprom tpm acpi \
         pnp ec lpc bridge pcieport serio i8042 smbus",
    ),
];

/// The devices that one boot needs.
pub struct Rule<'a> {
    /// The disks that the root may be on; `None` means any.
    root: Option<Disk>,
    is_serial_console: bool,
    is_display_console: bool,
    needs_network: bool,
    has_usb_disks: bool,
    has_pci_disks: bool,
    /// Devices for which others waited.
    suppliers: HashSet<&'a str>,
}

impl<'a> Rule<'a> {
    pub fn new(
        words: Option<&[String]>,
        lines: impl Iterator<Item = &'a str>,
        suppliers: HashSet<&'a str>,
    ) -> Rule<'a> {
        let values =
            |key: &'static str| words.unwrap_or_default().iter().filter_map(move |word| word.strip_prefix(key));
        let mut rule = Rule {
            root: values("root=").next_back().and_then(disk_of_root),
            is_serial_console: values("console=").next().is_none(),
            is_display_console: values("console=").next().is_none(),
            needs_network: values("root=").any(|root| root.starts_with("/dev/nfs") || root.contains(':')),
            has_usb_disks: false,
            has_pci_disks: false,
            suppliers,
        };
        for console in values("console=") {
            let number = console.strip_prefix("tty").and_then(|rest| rest.split(',').next());
            let is_display = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            rule.is_display_console |= is_display;
            rule.is_serial_console |= !is_display;
        }
        let network_words = ["ip=", "nfsroot=", "nfsaddrs=", "netconsole="];
        rule.needs_network |=
            network_words.iter().any(|key| values(key).any(|value| !["off", "none"].contains(&value)));
        for line in lines {
            rule.has_usb_disks |=
                line.starts_with("usb-storage ") || line.contains(" uas: ") || line.starts_with("uas ");
            rule.has_pci_disks |= line.starts_with("nvme ") || line.starts_with("ahci ");
        }
        rule
    }

    /// The reason why a device must be probed in turn.
    pub fn needed(&self, device: &str, driver: Option<&str>) -> Option<Needed> {
        if self.suppliers.iter().any(|supplier| is_same(supplier, device)) {
            return Some(Needed::WaitedFor);
        }
        if is_on_shared_bus(device) {
            return Some(Needed::SharedBus);
        }
        let needs = |needs: bool, reason: Needed| needs.then_some(reason);
        match kind(device, driver)? {
            Kind::Disk(disk) => needs(self.root.is_none_or(|root| root == disk), Needed::Root),
            Kind::UsbHost => needs(self.has_usb_disks && matches!(self.root, None | Some(Disk::Other)), Needed::Root),
            Kind::PciHost => {
                let may_be = matches!(self.root, None | Some(Disk::Nvme | Disk::Other));
                needs(self.has_pci_disks && may_be, Needed::Root)
            }
            Kind::Serial => needs(self.is_serial_console, Needed::Console),
            Kind::Display => needs(self.is_display_console, Needed::Console),
            Kind::Network => needs(self.needs_network, Needed::Network),
            Kind::Supplier => Some(Needed::Supplier),
            Kind::Leaf => None,
        }
    }
}

/// The kind of disk that a root is on; `None` if its name does not show it (`UUID=…`, `/dev/mapper/…`).
fn disk_of_root(root: &str) -> Option<Disk> {
    let name = root.strip_prefix("/dev/").unwrap_or_default();
    let kinds = [
        ("mmcblk", Disk::Mmc),
        ("nvme", Disk::Nvme),
        ("mtdblock", Disk::Flash),
        ("ubi", Disk::Flash),
        ("sd", Disk::Other),
        ("vd", Disk::Other),
        ("xvd", Disk::Other),
    ];
    let name = if root.starts_with("ubi") { root } else { name };
    kinds.iter().find(|(begin, _)| name.starts_with(begin)).map(|&(_, disk)| disk)
}

/// True if a supplier, a device's name or a path of the device tree, is this device.
fn is_same(supplier: &str, device: &str) -> bool {
    let node = supplier.rsplit('/').next().unwrap_or(supplier);
    let by_unit = || node.split_once('@').is_some_and(|(name, unit)| device.split_once('.') == Some((unit, name)));
    supplier == device || node == device || by_unit()
}

/// True for clients of I2C (`2-0047`, `i2c-ELAN0001:00`) and SPI (`spi0.0`).
fn is_on_shared_bus(device: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = |text: &str| text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_i2c = device.split_once('-').is_some_and(|(bus, address)| is_number(bus) && is_address(address));
    let spi = device.strip_prefix("spi").and_then(|rest| rest.split_once('.'));
    is_i2c || device.starts_with("i2c-") || spi.is_some_and(|(bus, chip)| is_number(bus) && is_number(chip))
}

/// The kind of a device, by the generic name of its node in the device tree (`fe220000.ethernet`), else by its driver.
fn kind(device: &str, driver: Option<&str>) -> Option<Kind> {
    by_words(device).or_else(|| by_words(driver?))
}

fn by_words(name: &str) -> Option<Kind> {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.to_ascii_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    // `usb2-phy` and `sata-phy` are no hosts.
    if words.last().is_some_and(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()) == "phy") {
        return Some(Kind::Supplier);
    }
    let is_word = |known: &str| {
        words.iter().any(|word| word == known || word.trim_end_matches(|c: char| c.is_ascii_digit()) == known)
    };
    WORDS.iter().find(|(_, known)| known.split(' ').any(is_word)).map(|&(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(words: &str, device: &str, driver: &str) -> Option<Needed> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let driver = Some(driver).filter(|driver| !driver.is_empty());
        Rule::new(Some(&words), std::iter::empty(), HashSet::new()).needed(device, driver)
    }

    #[test]
    fn devices_are_known_by_their_nodes_or_by_their_drivers() {
        let line = "root=UUID=aa console=ttyS0";
        for (device, driver, expected) in [
            ("fe220000.ethernet", "rk_gmac-dwmac", None),
            ("leds", "leds-gpio", None),
            ("gpio-keys", "gpio-keys", None),
            ("fd8a0000.gpio", "rockchip-gpio", Some(Needed::Supplier)),
            ("pinctrl", "rockchip-pinctrl", Some(Needed::Supplier)),
            ("2a2d0000.ufshc", "ufshcd-rockchip", Some(Needed::Root)),
            ("fe2b0000.mmc", "", Some(Needed::Root)),
            ("0000:00:02.0", "nvme", Some(Needed::Root)),
            ("0000:00:03.0", "e1000e", None),
            ("0000:00:04.0", "sym53c8xx", Some(Needed::Root)),
            ("0000:00:1f.2", "ahci", Some(Needed::Root)),
            ("feb50000.serial", "dw-apb-uart", Some(Needed::Console)),
            ("fe040000.vop", "rockchip-vop2", None),
            ("2-0047", "hd3ss3220", Some(Needed::SharedBus)),
            ("spi1.0", "panel", Some(Needed::SharedBus)),
            ("fd5d0000.usb2-phy", "", Some(Needed::Supplier)),
            ("slow.0", "slow_async", None),
        ] {
            assert_eq!(needed(line, device, driver), expected, "{device} {driver}");
        }
    }

    #[test]
    fn the_command_line_says_what_the_root_and_the_console_need() {
        let of = |line: &str, device: &str| needed(line, device, "");
        assert_eq!(of("root=/dev/mmcblk0p2", "0000:01:00.0.nvme"), None);
        assert_eq!(of("root=/dev/mmcblk0p2", "fe2b0000.mmc"), Some(Needed::Root));
        assert_eq!(of("root=/dev/sda1", "fe2b0000.mmc"), None);
        assert_eq!(of("ubi.mtd=0 root=ubi0:rootfs", "a.nand"), Some(Needed::Root));
        assert_eq!(of("root=PARTUUID=x", "a.nand"), Some(Needed::Root), "any disk");
        assert_eq!(of("console=tty0", "a.serial"), None);
        assert_eq!(of("console=tty0", "a.hdmi"), Some(Needed::Console));
        assert_eq!(of("quiet", "a.hdmi"), Some(Needed::Console), "the default");
        assert_eq!(of("console=ttyS0,115200", "a.hdmi"), None);
        assert_eq!(of("ip=dhcp", "a.ethernet"), Some(Needed::Network));
        assert_eq!(of("ip=off", "a.ethernet"), None);
        assert_eq!(of("root=/dev/nfs", "a.ethernet"), Some(Needed::Network));
    }

    #[test]
    fn hosts_are_needed_where_disks_are_on_them() {
        let of = |line: &'static str, device: &str| {
            let words = ["root=UUID=x".to_owned()];
            Rule::new(Some(&words), [line].into_iter(), HashSet::new()).needed(device, None)
        };
        assert_eq!(of("usb-storage 1-1:1.0: USB Mass Storage device detected", "a.usb"), Some(Needed::Root));
        assert_eq!(of("usb 1-1: new device", "a.usb"), None);
        assert_eq!(of("nvme nvme0: pci function 0000:01:00.0", "a.pcie"), Some(Needed::Root));
    }

    #[test]
    fn a_supplier_is_known_by_its_path() {
        let suppliers = ["/soc/pmic@20", "3c.pmc"].into_iter().collect();
        let rule = Rule::new(None, std::iter::empty(), suppliers);
        assert_eq!(rule.needed("20.pmic", None), Some(Needed::WaitedFor));
        assert_eq!(rule.needed("3c.pmc", None), Some(Needed::WaitedFor));
        assert_eq!(rule.needed("3d.pmc", None), None);
    }
}
