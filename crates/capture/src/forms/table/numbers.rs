//! Forms of identifiers of disks, addresses, and serial numbers.

use super::super::Kind;
use super::super::checks::{
    always, cisco, hardware, ipv4, ipv6, not_all_same, own_id, serial, short_disk, underscored, volume_group,
};
use super::{Form, form};

pub(super) const DISKS: &[Form] = &[
    form(
        "UUID",
        Kind::Uuid,
        not_all_same,
        concat!(
            r"(?i)(?:^|[^0-9a-f]|x2d|_2d)([0-9a-f]{8}",
            dash!(),
            r"[0-9a-f]{4}",
            dash!(),
            r"[0-9a-f]{4}",
            dash!(),
            r"[0-9a-f]{4}",
            dash!(),
            r"[0-9a-f]{12})"
        ),
        r"root=UUID=«7fb9d1a0-0d45-4d4f-9f0a-0a5e3a1f9a0b» luks\x2d«7fb9d1a0\x2d0d45\x2d4d4f\x2d9f0a\x2d0a5e3a1f9a0b»",
        "00000000-0000-0000-0000-000000000000",
    ),
    form(
        "ID of a machine, a boot, a card: 32 hexadecimal digits",
        Kind::Uuid,
        own_id,
        r"(?i)(?:^|[^0-9a-z]|0x|x2d|_2d)(3?[0-9a-f]{32}|[0-9a-f]{8}(?::[0-9a-f]{8}){3})",
        "systemd.machine_id=«0123456789abcdef0123456789ABCDEF»",
        r#"cert 'CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1' "MESSAGE_ID" : "39f53479d3a045ac8e11786248231fbf""#,
    ),
    form(
        "short ID of a file system or a partition",
        Kind::Uuid,
        short_disk,
        r"(?i)(?:uuid[=:]\s*|/by-(?:part)?uuid/|by\\{1,2}x2d(?:part)?uuid-|disk (?:signature|identifier)[:=]?\s*)(?:luks-)?(?:0x)?([0-9a-f]{4,16}(?:(?:-|\\{1,2}x2d)[0-9a-f]{2,12}){0,4})",
        r"root=PARTUUID=«1234abcd-01» dev-disk-by\x2duuid-«AB12\x2d34CD».device",
        r"dev-disk-by\x2dlabel-root.device UUID added",
    ),
    form(
        "UUID of LVM",
        Kind::Uuid,
        always,
        r"\b([0-9A-Za-z]{6}(?:-[0-9A-Za-z]{4}){5}-[0-9A-Za-z]{6})\b",
        "PV «IWq6Gz-aBcD-1234-EfGh-5678-IjKl-9MnOpQ»",
        "linux-image-6.1.0-50-cloud-amd64",
    ),
    form(
        "disk by its ID",
        Kind::Serial,
        always,
        r#"(?:/by-id/|by\\{1,2}x2did-)([^\s/,;"'\[]+?)(?:\.(?:device|swap|mount)\b|[\s/,;"']|$)"#,
        r"dev-disk-by\x2did-«ata\x2dSAMSUNG_S3Z2NB0K».device",
        "/dev/disk/by-path/pci-0000:00:1f.2-ata-1",
    ),
    form(
        "world-wide name of a disk or a port",
        Kind::Serial,
        not_all_same,
        r"(?i)\bWWN(?: Device Id)?\W{1,3}(5[ -][0-9a-f]{6}[ -][0-9a-f]{9})|\b(35[0-9a-f]{15})\b|(?:\b|_)(?:naa\.|eui\.|t10\.|nvme\.|wwn-|fc-|(?:ww[npi][nd]?|n?guid|sas[ _]addr(?:ess)?|port[ _]name|node[ _]name|port[ _]id|system image guid)\W{1,3}|zfcp\S*?,)(?:0x)?([0-9a-f]{16,32}|[0-9a-f]{4}(?::[0-9a-f]{4}){3})",
        "wwn-0x«5000c500a1b2c3d4» eui.«0025385b71b0a2c3» node_guid: «0002:c903:000a:1b2c»",
        "nvme.ko loaded, BAR 0 [mem 0xfebc000000000000]",
    ),
    form(
        "name of an iSCSI or NVMe target",
        Kind::Host,
        always,
        r#"(?i)\b(iqn\.\d{4}-\d{2}\.[^\s"',;\[\]]+|nqn\.\d{4}-\d{2}\.(?:org\.nvmexpress:uuid|com|net|de|example|io)[^\s"',;\[\]]+)"#,
        "netroot=iscsi:@127.0.0.1::3260::«iqn.2026-01.example.corp:web7»",
        "nqn.2014-08.org.nvmexpress.discovery",
    ),
    form(
        "volume group of LVM, label of a file system, pool of ZFS",
        Kind::Host,
        volume_group,
        concat!(r#"(?i)(?:\brd\.lvm\.(?:lv|vg)=|volume group ["']|\b(?:part)?label=|\bzfs[=:])"#, name!()),
        "rd.lvm.lv=«web7»/root root=LABEL=«web7-root»",
        "rd.lvm=0 volume group scan rd.lvm.vg=rhel",
    ),
];

pub(super) const ADDRESSES: &[Form] = &[
    form(
        "MAC address, Bluetooth address or fingerprint with colons",
        Kind::Mac,
        hardware,
        r"(?i)(?:^|[^0-9a-z])([0-9a-f]{2}(?::[0-9a-f]{2}){5,})",
        "ifname=eth0:«52:54:00:12:34:56»",
        "pci 0000:00:1f.2: 13:31:32 ff:ff:ff:ff:ff:ff",
    ),
    form(
        "MAC address with dashes",
        Kind::Mac,
        hardware,
        r"(?i)(?:^|[^0-9a-z-]|[a-z_]-)(?:01-)?([0-9a-f]{2}(?:-[0-9a-f]{2}){5,7})",
        "BOOTIF=01-«52-54-00-12-34-56»",
        "log-2026-11-26-10-11-12-13.txt",
    ),
    form(
        "MAC address with underscores",
        Kind::Mac,
        underscored,
        r"(?i)(?:^|[^0-9a-f])([0-9a-f]{2}(?:_[0-9a-f]{2}){5})",
        "/org/bluez/hci0/dev_«00_1A_7D_DA_71_13»",
        "12_34_56_78_90_12",
    ),
    form(
        "MAC address as Cisco writes it",
        Kind::Mac,
        cisco,
        r"(?i)(?:^|[^0-9a-z.])([0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})",
        "port «5254.0012.34ab»",
        "firmware 2023.0911.1423",
    ),
    form(
        "hardware address behind its name",
        Kind::Mac,
        hardware,
        r"(?i)(?:(?:\b|_)(?:mac|hw|eth\d?|ether(?:net)?|ll|bd|wlan\d?|bt|nic|bssid)[ _-]?(?:addr(?:ess)?|id)?\d?\W{0,3}(?:is\s+)?|mac(?:_?addr)?\d?=)(?:0x)?([0-9a-f]{12}|[0-9a-f]{1,2}(?:[: -][0-9a-f]{1,2}){5}|[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}|[0-9a-f]{6}[-:][0-9a-f]{6})",
        "smsc95xx.macaddr=«B827EB123456» ethernet address «52 54 00 12 34 56»",
        "mac80211 loaded, eth0: link up",
    ),
    form(
        "MAC address in an interface's name",
        Kind::Mac,
        always,
        r"\b(?:en|wl|ww|sl|ib)x([0-9a-f]{12})",
        "ifup enx«525400123456».service",
        "enp0s3 renamed from eth0",
    ),
    form(
        "IPv6 address",
        Kind::Ip,
        ipv6,
        r"(?i)(?:^|[^0-9a-z:._]|[g-z\])]\d{0,3}:|\s:)([0-9a-f]{0,4}(?::[0-9a-f]{0,4}){1,6}:(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{1,4}|:))",
        "listens on [«fe80::5054:ff:fe12:3456»]:22, from «::ffff:10.0.2.15»",
        "core::face::add cafe::dead::beef ::1 13:31:32",
    ),
    form(
        "IPv4 address",
        Kind::Ip,
        ipv4,
        r"(?:^|[^0-9A-Za-z.])((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})",
        "ip=«10.0.2.15»::«10.0.2.2»:255.255.255.0::eth0:off nfsroot=«192.168.1.9»:/x",
        "vmxnet3 driver - version 1.7.0.0-k-NAPI, megasas: 07.719.03.00-rc1, be2net driver 14.6.0.0",
    ),
];

pub(super) const SERIALS: &[Form] = &[
    form(
        "serial number or tag behind its name",
        Kind::Serial,
        serial,
        r#"(?i)(?:serial(?:[_ -]?(?:no|num(?:ber)?|short|id))?#?|asset[_ -]?tag|service[_ -]?tag)["']?\s*[=:]\s*["']?([0-9a-z][0-9a-z._+-]*)"#,
        "androidboot.serialno=«0123ABC» usb 1-1: SerialNumber: «ABC123»",
        "Serial: 8250/16550 driver, 4 ports SerialNumber=5 serial=ttyS0",
    ),
    form(
        "serial number in a sentence",
        Kind::Serial,
        serial,
        r#"\b(?:[Ss]/[Nn]|SN)\s*[:=#]?\s*([0-9A-Za-z][0-9A-Za-z._+-]*)|(?i:\b(?:serial (?:number|no\.?)|(?:system|board|chassis|product|disk|drive|unit|battery|panel) (?:serial|asset)|(?:asset|service) tag|iSerial\s+\d+)\s+(?:is\s+)?([0-9a-z][0-9a-z._+-]*))|\b[Ss]erial ([0-9A-Z][0-9A-Z-]{6,})\b"#,
        "ST1000 S/N: «S3Z2-NB0K» serial number «X90412»",
        "serial number of the device",
    ),
    form(
        "number of a modem or its card",
        Kind::Serial,
        not_all_same,
        r"(?i)\b(?:imei(?:sv)?|equipment[ _-]?id(?:entifier)?|imsi|iccid|meid|msisdn|esn|eid)\W{1,3}\+?([0-9a-f]{8,20})\b",
        "modem IMEI: «490154203237518»",
        "EID: none",
    ),
    form(
        "unique number of a chip",
        Kind::Serial,
        not_all_same,
        r"(?i)\b(?:unique[ _-]?id|(?:device|chip|board|soc|cpu)[ _-]?(?:unique[ _-]?)?id)\W{1,3}(?:0x)?([0-9a-f]{12,32})\b",
        "soc: unique ID 0x«1122334455667788»",
        "chip id 0x5744",
    ),
    form(
        "product key",
        Kind::Serial,
        always,
        r"\b([0-9A-Z]{5}(?:-[0-9A-Z]{5}){4})\b",
        "MSDM «NKJFK-GPHP7-G8C3J-P6JXR-HQRJR»",
        "A-B-C",
    ),
];
