//! Learns the identities of one recording: a name that one line shows as a host's is that host's name in all other
//! lines, too.
//!
//! It must not learn a word that messages also use for other things. Such a word is replaced only where a form finds
//! it.

use crate::forms::{self, Kind, Span};
use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The largest number of identities that are learnt. In a file made to have more, the others are replaced only where a
/// form finds them.
pub const IDENTITIES_MAX: usize = 10_000;
/// The largest length of an identity, because evidence may be anything.
const MAX_VALUE_BYTES: usize = 255;
/// `random_seed` is a function even if a host is called `seed`. Only longer words, and words with digits, are also
/// recognised next to `_`.
const MIN_JOINED_BYTES: usize = 6;

/// Names that installers choose, and words of messages and of our own formats. Alone, they do not identify a machine.
const COMMON: &str = "\
    debian ubuntu fedora centos rhel rocky arch archlinux alpine gentoo opensuse suse freebsd netbsd openbsd openwrt \
    buildroot raspberrypi kali linux kernel systemd root qemu guest host node user admin test build localhost android poky \
    yocto core master worker server client router gateway desktop laptop workstation machine virtual none last will mark \
    grace bill may april june max art rich chip cloud-init default system boot init initcall console login memory network \
    device driver firmware trace timer clock tick event events auto keep exec power-off firecracker cloud-hypervisor \
    x86_64 aarch64 riscv64 regex unit process http true false yes off vagrant ec2-user core-image live home data main \
    local unknown empty string password secret changeme vm container docker service target start stop done failed error \
    warning info debug version name serial number port usb pci acpi cpu cpu0 eth0 sda sda1 vda vda1 nvme0 nvme0n1 tty0 \
    tty1 ttys0 initrd initramfs bzimage vmlinuz dracut busybox openrc sysvinit phase loader the and for not with from disk \
    disk0 swap public private tcg kvm lan wan lab dev prod web www mail backup storage pi4 wlan0 x11 i386 i686 amd64 arm64 \
    armhf mips ext4 ext3 ext2 btrfs xfs hda sdb vdb ps2 md0 dm-0 mmc0 hw0 c10 md5 sha1 sha256 crc32 ipv4 ipv6 rs-232 net0 \
    lo0 cpu1 i8042 seed metadata meta mirror mirrors repo repos git vpn logs log sql api auth cdn static download \
    downloads update updates files file images image registry proxy cache dns ntp time smtp imap ldap puppet salt chef \
    ansible jenkins ci artifactory nexus gitlab vault consul etcd kube monitor metrics grafana prometheus elastic deploy \
    provision cloud status portal app apps shop blog wiki docs support help random buffer register key keys token lock \
    mutex page pages block queue irq dma bus power reset state config module thread task cpus signal socket link route \
    bridge tunnel space stack frame table tree list entry index cursor group class type mode level scope session manager \
    control watch input output report notify";

/// The identities found, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearnedIdentities {
    identities: BTreeSet<(Kind, Vec<u8>)>,
    /// The number of identities found when it was full.
    pub overflow: usize,
}

impl LearnedIdentities {
    /// Learns the identities in a text, line by line.
    pub(crate) fn text(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            for Span { range, kind } in forms::spans(line) {
                self.add(kind, &line[range]);
            }
            for bytes in byte_arrays(line).map(|(_, bytes)| bytes) {
                forms::spans(&bytes).into_iter().for_each(|span| self.add(span.kind, &bytes[span.range]));
            }
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, value: &[u8]) {
        if value.len() > MAX_VALUE_BYTES {
            return;
        }
        let value = (kind, value.to_ascii_lowercase());
        if self.identities.len() < IDENTITIES_MAX {
            self.identities.insert(value);
        } else if !self.identities.contains(&value) {
            self.overflow += 1;
        }
    }

    pub(crate) fn counts(&self) -> Vec<(Kind, usize)> {
        let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
        self.identities.iter().for_each(|(kind, _)| *counts.entry(*kind).or_default() += 1);
        counts.into_iter().collect()
    }

    /// A matcher for the words to look for in all texts.
    pub(crate) fn matcher(&self) -> IdentityMatcher {
        let mut values: BTreeMap<Vec<u8>, Kind> = BTreeMap::new();
        for (kind, value) in &self.identities {
            for (kind, word) in words_of(*kind, value) {
                if is_specific(kind, &word) {
                    // systemd escapes a dash in this way in a unit's name.
                    let escaped = String::from_utf8_lossy(&word).replace('-', "\\x2d").into_bytes();
                    let plain = String::from_utf8_lossy(&word).replace("\\x2d", "-").into_bytes();
                    values.insert(escaped, kind);
                    values.insert(plain, kind);
                    values.insert(word, kind);
                }
            }
        }
        let build = || {
            let builder = &mut AhoCorasick::builder();
            builder.ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(values.keys())
        };
        let search = if values.is_empty() { None } else { build().ok() };
        let is_short =
            values.keys().map(|word| word.len() < MIN_JOINED_BYTES && word.iter().all(u8::is_ascii_alphabetic));
        let is_short = is_short.collect();
        IdentityMatcher { search, is_short, kinds: values.into_values().collect() }
    }
}

/// The words that stand for an identity elsewhere.
fn words_of(kind: Kind, value: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let mut words = vec![(kind, value.to_vec())];
    let split = |at: u8| {
        let place = value.iter().position(|&byte| byte == at)?;
        Some((value[..place].to_vec(), value[place + 1..].to_vec()))
    };
    let with_domain = |words: &mut Vec<_>, name: &[u8]| {
        let Some(dot) = name.iter().position(|&byte| byte == b'.') else { return };
        let (first, domain) = (name[..dot].to_vec(), name[dot + 1..].to_vec());
        words.push((Kind::Host, first));
        if domain.contains(&b'.') {
            words.push((Kind::Host, domain));
        }
    };
    match kind {
        Kind::Host => with_domain(&mut words, value),
        // A mail address, or the part of a URL before the @.
        Kind::User => {
            if let Some((_, domain)) = split(b'@') {
                words.push((Kind::Host, domain));
            }
            if let Some((user, password)) = split(b':') {
                words.extend([(Kind::User, user), (Kind::Secret, password)]);
            }
        }
        Kind::Mac => words = vec![(kind, value.iter().copied().filter(u8::is_ascii_hexdigit).collect())],
        Kind::Ip if !value.contains(&b':') => {
            words = vec![(kind, value.iter().map(|&byte| if byte == b'.' { b'-' } else { byte }).collect())];
        }
        Kind::Ip => words.clear(),
        Kind::Network | Kind::Secret | Kind::Serial | Kind::Uuid => {}
    }
    words
}

/// True if a word alone identifies one machine.
fn is_specific(kind: Kind, word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    let least = match kind {
        Kind::Host | Kind::User if has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) => 3,
        Kind::Host | Kind::User | Kind::Network => 4,
        Kind::Serial | Kind::Uuid => 6,
        Kind::Secret => 7,
        Kind::Ip | Kind::Mac => 8,
    };
    let is_word = kind == Kind::Secret && word.iter().all(u8::is_ascii_alphabetic) && word.len() < 12;
    let is_number = word.iter().all(u8::is_ascii_digit) && word.len() < 8;
    let is_common = forms::is_in(COMMON, word) || word.iter().all(|byte| *byte == word[0]);
    word.len() >= least && !is_word && !is_number && !is_common
}

/// Finds learnt identities, in any letter case.
#[derive(Debug, Default)]
pub(crate) struct IdentityMatcher {
    search: Option<AhoCorasick>,
    kinds: Vec<Kind>,
    /// True for words that may be part of a function's name.
    is_short: Vec<bool>,
}

/// The bytes that extend a learnt word to a longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// Letters and digits.
    Text,
    /// Letters and digits, and the other characters in names of functions.
    Symbols,
}

impl IdentityMatcher {
    /// The places of learnt words in a line.
    pub(crate) fn spans<'s>(&'s self, line: &'s [u8], words: Words) -> impl Iterator<Item = Span> + 's {
        let is_of_word = move |byte: Option<&u8>, is_short: bool| {
            byte.is_some_and(|&byte| match byte {
                b'_' => is_short || words == Words::Symbols,
                b'.' | b'$' => words == Words::Symbols,
                _ => byte.is_ascii_alphanumeric(),
            })
        };
        let found = self.search.iter().flat_map(move |search| search.find_overlapping_iter(line));
        found.filter_map(move |found| {
            let (before, after) = (&line[..found.start()], &line[found.end()..]);
            let word = found.pattern().as_usize();
            let goes_on = |byte| is_of_word(byte, self.is_short[word]);
            let is_whole = !goes_on(after.first()) && (!goes_on(before.last()) || before.ends_with(b"x2d"));
            is_whole.then(|| Span { range: found.range(), kind: self.kinds[word] })
        })
    }

    /// True if a learnt word is in these bytes, which may not be text.
    pub(crate) fn is_in(&self, bytes: &[u8], words: Words) -> bool {
        self.spans(bytes, words).next().is_some()
    }
}

/// The texts that `journalctl -o json` writes as arrays of numbers, because they have colours or are not UTF-8: their
/// places, and their bytes.
pub(crate) fn byte_arrays(line: &[u8]) -> impl Iterator<Item = (std::ops::Range<usize>, Vec<u8>)> + '_ {
    static ARRAY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?-u)\[\s*\d{1,3}(?:\s*,\s*\d{1,3}){3,}\s*\]")
            .expect("the pattern is a constant, and a test builds it")
    });
    let is_object = line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let arrays = is_object.then(|| ARRAY.find_iter(line)).into_iter().flatten();
    arrays.filter_map(|found| {
        let numbers = std::str::from_utf8(found.as_bytes()).ok()?.trim_matches(['[', ']']);
        let bytes: Result<Vec<u8>, _> = numbers.split(',').map(|number| number.trim().parse()).collect();
        Some((found.range(), bytes.ok()?))
    })
}
