//! Checks for what an expression cannot decide: names of functions, PCI addresses, times and versions can also have the
//! form of an identity.

use super::Candidate;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Words that may stand in the place of a name, and names that every machine has.
const NOT_NAMES: &str = "\
    localhost localhost.localdomain localdomain local none null unknown not set unset is was to from for the of on off by \
    and with in at as no yes true false auto any dhcp last failed invalid command cannot unable missing required changed \
    configured version name default static transient service daemon lookup via file device dev password expired request \
    requests prompt stdio host console clang kernel systemd user login enabled disabled error 0.0.0.0 files agent if be \
    hidden basic bearer digest negotiate http https ftp tcp udp nfs smb";
/// Accounts of systems, and words that follow `user` in a sentence.
const NOT_USERS: &str = "\
    root nobody daemon bin sys mail www-data messagebus dbus polkitd sshd chrony avahi ntp lightdm gdm gdm3 sddm man games \
    lp news uucp proxy backup list irc gnats _apt syslog tss uuidd rtkit colord geoclue pulse postgres mysql redis nginx \
    shared space slice manager session database accounts account namespace namespaces interface mode sessions runtime \
    instance defined core data login id this all record records group groups events event input copy access processes \
    process directories units helper limits uid cdrom usb usb0 usb1 sda1 sdb1 realroot";
/// Words before versions, which may look like addresses.
const VERSION_WORDS: &str = "ver driver firmware fw revision rev release bios v nvm ucode microcode";
/// Further words before versions. An address of a private network may follow these, too.
const LIKELY_VERSION_WORDS: &str = "build api sw hw abi bootloader program patch update linux kernel windows chrome";
/// Domains whose addresses and pages every machine may name.
const PUBLIC_DOMAINS: &str = "\
    debian.org ubuntu.com canonical.com launchpad.net kernel.org freedesktop.org systemd.io github.com gitlab.com \
    fedoraproject.org redhat.com centos.org rockylinux.org almalinux.org opensuse.org suse.com archlinux.org gentoo.org \
    alpinelinux.org freebsd.org netbsd.org openbsd.org gnu.org wikipedia.org readthedocs.io w3.org intel.com qemu.org \
    linaro.org openwrt.org wiki.debian.org linuxfoundation.org android.com googlesource.com kali.org devuan.org \
    raspberrypi.com raspberrypi.org raspbian.org sourceforge.net libguestfs.org microsoft.com coreboot.org wireguard.com \
    netfilter.org lwn.net infradead.org ozlabs.org nvidia.com amd.com arm.com ibm.com broadcom.com realtek.com marvell.com \
    samba.org isc.org openssl.org apache.org python.org ntp.org time.google.com cloudinit.readthedocs.io schemas.org \
    docker.com kubernetes.io golang.org seabios.org ipxe.org tianocore.org denx.de trustedfirmware.org mozilla.org";
/// Builders of distributions' kernels, which are the same for all users.
const BUILDERS: &str = "\
    buildd@ mockbuild@ debian-kernel@ root@buildkitsandbox linux@archlinux root@archlinux geeko@buildhost \
    builder@buildhost oe-user@oe-host build-user@build-host android-build@ nixbld@localhost root@localhost builduser@ \
    kbuild@ dom@buildbot abuild@ portage@localhost gentoo@ builder@ root@buildroot ubuntu@ void-buildslave@ pbuilder@ \
    makepkg@ user@host build@host root@releng";
/// Endings of names of units and files, which no domain has.
const NOT_DOMAINS: &str = "\
    service socket device mount automount swap target path timer slice scope conf so ko sh py txt log img bin dtb json xml \
    cfg rules localdomain html gz xz";
/// Volume groups, labels and pools with the names that installers choose.
const VOLUME_GROUPS: &str = "\
    rhel fedora centos almalinux rocky ol ubuntu-vg debian-vg kali-vg luks crypt cryptroot vg vg0 vg00 system root main data rootvg volgroup volgroup00 pve cl boot efi esp uefi efi-system rootfs root-fs swap \
    cloudimg-rootfs opt var usr tmp oem state kernel initrd recovery writable casper-rw ubuntu-seed efi-system-partition basic-data-partition microsoft-basic-data linux-filesystem primary bios uefi-ntfs rpool tank zroot";

/// True if a list of words between blanks contains the word, in any letter case.
pub(crate) fn is_in(list: &str, word: &[u8]) -> bool {
    list.split_ascii_whitespace().any(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

fn continues_word(after: &[u8]) -> bool {
    after.first().is_some_and(u8::is_ascii_alphanumeric)
}

fn all_same(value: &[u8]) -> bool {
    let mut digits = value.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase);
    let first = digits.next();
    digits.all(|digit| Some(digit) == first)
}

fn lower_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

pub(super) fn always(_: &Candidate<'_>) -> bool {
    true
}

pub(super) fn not_all_same(candidate: &Candidate<'_>) -> bool {
    !continues_word(candidate.after) && !all_same(candidate.value)
}

/// An ID of this machine. An ID of a kind of message is the same on all machines with systemd, and readers need it.
pub(super) fn machine_id(candidate: &Candidate<'_>) -> bool {
    let before = lower_text(&candidate.before[candidate.before.len().saturating_sub(16)..]);
    not_all_same(candidate) && !before.trim_end_matches(['=', '"', ':', ' ']).ends_with("message_id")
}

pub(super) fn hardware(candidate: &Candidate<'_>) -> bool {
    not_all_same(candidate) && !(candidate.before.ends_with(b"-") && is_time(candidate.value))
}

/// `log-26-11-26-10-11-12` contains a time: month, day, hour, minute, second.
fn is_time(value: &[u8]) -> bool {
    let parts = value.split(|&byte| byte == b'-').skip(1);
    let numbers: Vec<u8> = parts.map_while(|part| std::str::from_utf8(part).ok()?.parse().ok()).collect();
    matches!(numbers[..], [1..=12, 1..=31, 0..=23, 0..=59, 0..=60, ..])
}

pub(super) fn underscored(candidate: &Candidate<'_>) -> bool {
    let has = |is: fn(&u8) -> bool| candidate.value.iter().any(is);
    hardware(candidate) && !candidate.after.starts_with(b"_") && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

pub(super) fn cisco(candidate: &Candidate<'_>) -> bool {
    hardware(candidate) && !candidate.after.starts_with(b".") && candidate.value.iter().any(u8::is_ascii_alphabetic)
}

pub(super) fn ipv4(candidate: &Candidate<'_>) -> bool {
    let (value, after) = (candidate.value, candidate.after);
    let is_reserved = [&b"127."[..], b"0.", b"255."].iter().any(|start| value.starts_with(start));
    // A leading zero, as in `07`, is part of a version.
    let is_padded = value.split(|&byte| byte == b'.').any(|part| part.len() > 1 && part[0] == b'0');
    let is_longer = match after {
        [b'.', next, ..] => next.is_ascii_digit(),
        _ => continues_word(after),
    };
    if is_reserved || is_padded || is_longer {
        return false;
    }
    // Versions of drivers have a suffix, and seldom look like the addresses of a private network.
    let is_private = [&b"10."[..], b"192.168.", b"172."].iter().any(|start| value.starts_with(start));
    let is_suffixed =
        matches!(after, [b'-' | b'+' | b'~', rest @ ..] if continues_word(rest) && dotted(rest.iter()) < 7);
    let is_port_next = matches!(after, [b':', digit, ..] if digit.is_ascii_digit());
    let is_range = |before: &[u8]| dotted(before[..before.len() - 1].iter().rev()) >= 7;
    let is_behind_name = candidate.before.ends_with(b"-") && !is_port_next && !is_range(candidate.before);
    (is_private || !is_suffixed && !is_behind_name) && !is_version(candidate.before, is_private)
}

/// The number of leading digits and full stops.
fn dotted<'b>(bytes: impl Iterator<Item = &'b u8>) -> usize {
    bytes.take_while(|&&byte| byte.is_ascii_digit() || byte == b'.').count()
}

/// True if the last word before a value introduces a version.
fn is_version(before: &[u8], is_private: bool) -> bool {
    let text = lower_text(&before[before.len().saturating_sub(32)..]);
    let text = text.trim_end_matches([' ', '\t', ':', '=', '-', '"', '\'', '(']).trim_end_matches(" is");
    let last = text.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    last.ends_with("version")
        || is_in(VERSION_WORDS, last.as_bytes())
        || !is_private && is_in(LIKELY_VERSION_WORDS, last.as_bytes())
}

pub(super) fn ipv6(candidate: &Candidate<'_>) -> bool {
    let text = String::from_utf8_lossy(candidate.value);
    // `face::add` is the name of a function; such names have no single colon.
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_word = !has_digit && !text.replace("::", "").contains(':');
    let continues_word = continues_word(candidate.after) || candidate.after.starts_with(b"_");
    let is_own = |ip: Ipv6Addr| !ip.is_loopback() && !ip.is_unspecified();
    !continues_word && !is_word && text.len() > 3 && text.parse().is_ok_and(is_own)
}

/// Texts of kernels and vendors in place of a missing serial number.
const NOT_SERIALS: &str = "\
    none unknown default system not null number stdio dummy chassis base empty";

pub(super) fn serial(candidate: &Candidate<'_>) -> bool {
    let (value, text) = (candidate.value, lower_text(candidate.value));
    let has_digit = value.iter().any(u8::is_ascii_digit);
    let is_named =
        candidate.before.ends_with(b"=") || lower_text(candidate.before).trim_end().ends_with("serialnumber:");
    let is_port = text.starts_with("tty") || text.contains("hcd") || text.contains("hdrc") || text.starts_with("pci-");
    let is_number = value.len() >= 4 && !all_same(value) && (has_digit || is_named);
    // As in `Serial: 8250/16550`.
    is_number && !is_port && !is_in(NOT_SERIALS, value) && !candidate.after.starts_with(b"/")
}

pub(super) fn short_disk(candidate: &Candidate<'_>) -> bool {
    !continues_word(candidate.after) && !all_same(candidate.value)
}

pub(super) fn host(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    // An address has its own form, and a number is a PCI domain.
    let is_number = candidate.value.iter().all(|byte| byte.is_ascii_digit() || b".-".contains(byte));
    let is_hexadecimal = text.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_unit = recording::is_unit_name(&text);
    let is_address = text.parse::<Ipv4Addr>().is_ok();
    !(is_in(NOT_NAMES, candidate.value) || is_number || is_hexadecimal || is_unit || is_address || is_public(&text))
}

/// The same behind a date: the abbreviation of a time zone, which `journalctl` prints there, is not a host.
pub(super) fn host_behind_a_date(candidate: &Candidate<'_>) -> bool {
    const ZONES: &str = "UTC GMT BST WET WEST CET CEST EET EEST MSK EST EDT CST CDT MST MDT PST PDT AKST AKDT HST NST ADT AST BRT \
                         ART IST PKT WIB KST JST HKT SGT AWST ACST AEST AEDT NZST NZDT SAST CAT EAT WAT";
    host(candidate) && !ZONES.split_ascii_whitespace().any(|zone| zone.as_bytes() == candidate.value)
}

/// A domain in a sentence must have the form of a domain.
pub(super) fn prefix_host(candidate: &Candidate<'_>) -> bool {
    host(candidate) && has_domain(&lower_text(candidate.value))
}

fn has_domain(text: &str) -> bool {
    text.rsplit_once('.').is_some_and(|(_, top)| {
        top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_in(NOT_DOMAINS, top.as_bytes())
    })
}

fn is_public(text: &str) -> bool {
    let is_in_domain =
        |domain: &str| text.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    PUBLIC_DOMAINS.split_ascii_whitespace().any(is_in_domain)
}

pub(super) fn own_url(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    let is_scheme_of_code = ["unix", "file", "dbus"].iter().any(|scheme| {
        lower_text(&candidate.before[candidate.before.len().saturating_sub(8)..]).ends_with(&format!("{scheme}://"))
    });
    host(candidate) && !text.starts_with("www.") && !is_scheme_of_code
}

pub(super) fn builder(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    let domain = text.split_once('@').map_or("", |(_, domain)| domain);
    !BUILDERS.split_ascii_whitespace().any(|known| text.starts_with(known)) && !is_public(domain)
}

/// Drivers name their authors when they load; those are the same on all machines.
pub(super) fn email(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    let domain = text.split_once('@').map_or("", |(_, domain)| domain);
    has_domain(domain) && !is_public(domain) && !names_author(candidate.before)
}

/// Owners of certificates in the kernels and the firmware of many machines.
const CERTIFICATE_OWNERS: &str = "\
    build canonical debian microsoft red fedora centos rocky almalinux oracle suse opensuse sforshee benh@debian.org wens \
    romain seth amazon vmware google hewlett hp dell lenovo intel kali arch gentoo nixos freebsd asustek gigabyte msi \
    ubuntu cloudlinux proxmox xcp-ng citrix nvidia amd openwrt alt rosa altlinux";

/// A certificate of a kernel that a company or a person built has the name of its owner.
pub(super) fn certificate(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    let first = text.split([' ', ':', ',']).next().unwrap_or_default();
    !is_in(CERTIFICATE_OWNERS, first.as_bytes())
}

fn names_author(before: &[u8]) -> bool {
    let line = lower_text(before);
    let words = ["copyright", "(c)", "author", "maintain", "initialised", "initialized", "contact", "driver", "report"];
    words.iter().any(|word| line.contains(word))
}

pub(super) fn full_name(candidate: &Candidate<'_>) -> bool {
    let continues_word = matches!(candidate.after, [b'.' | b'-' | b'_', next, ..] if next.is_ascii_alphanumeric());
    host(candidate) && !candidate.value.starts_with(b"www.") && !continues_word && !names_author(candidate.before)
}

pub(super) fn volume_group(candidate: &Candidate<'_>) -> bool {
    // systemd and device-mapper escape a dash.
    let name = lower_text(candidate.value).replace("\\\\", "\\").replace("\\x2d\\x2d", "-").replace("--", "-");
    !is_in(VOLUME_GROUPS, name.replace("\\x2d", "-").replace("\\x20", "-").as_bytes())
}

pub(super) fn user(candidate: &Candidate<'_>) -> bool {
    let is_system_account = candidate.value.starts_with(b"systemd") || candidate.value.starts_with(b"_");
    let is_variable = candidate.value.iter().any(|byte| b"$%@".contains(byte));
    let is_known = is_in(NOT_USERS, candidate.value) || is_in(NOT_NAMES, candidate.value);
    !(is_system_account || is_variable || is_known || candidate.value.starts_with(b"."))
}

/// `Last login: Mon Nov 23` may be cut after the day.
pub(super) fn typed(candidate: &Candidate<'_>) -> bool {
    user(candidate) && !candidate.before.ends_with(b"Last login: ")
}

pub(super) fn network(candidate: &Candidate<'_>) -> bool {
    !is_in(NOT_NAMES, candidate.value) && !all_same(candidate.value)
}

pub(super) fn link(candidate: &Candidate<'_>) -> bool {
    let text = lower_text(candidate.value);
    !["wired connection", "eth", "en", "lo", "docker", "bridge", "virbr"].iter().any(|usual| text.starts_with(usual))
}

/// A value that is not a path, not the number of a key, and not a word of a sentence.
pub(super) fn secret(candidate: &Candidate<'_>) -> bool {
    let (value, text) = (candidate.value, lower_text(candidate.value));
    let is_counted = value.len() < 7 && value.iter().all(u8::is_ascii_digit) && {
        let name = lower_text(&candidate.before[candidate.before.len().saturating_sub(10)..]);
        ["key", "token", "pass", "cookie"]
            .iter()
            .any(|word| name.trim_end_matches(['=', '"', ':', ' ']).ends_with(word))
    };
    let is_code = text.starts_with("0x") || text.starts_with('(') || text.starts_with("/dev/") || text.starts_with('$');
    !(is_counted || is_code || is_in(NOT_NAMES, value))
}
