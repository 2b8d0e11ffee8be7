//! The operating system that was booted.

/// An operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Os {
    /// Nobody says.
    #[default]
    Unknown,
    /// Linux.
    Linux,
    /// FreeBSD.
    FreeBsd,
    /// NetBSD.
    NetBsd,
    /// bootscope's reference kernel.
    Lab,
    /// One that only its name is known of.
    Other(String),
}

/// Those that have a name of their own here.
const KNOWN: [Os; 5] = [Os::Unknown, Os::Linux, Os::FreeBsd, Os::NetBsd, Os::Lab];

impl Os {
    /// The system of that name, as [`Os::name`] writes it and recordings have it.
    pub fn of(name: &str) -> Os {
        let known = KNOWN.into_iter().find(|os| os.name() == name);
        known.unwrap_or_else(|| Os::Other(name.to_owned()))
    }

    /// Its name, empty where it is not known.
    pub fn name(&self) -> &str {
        match self {
            Os::Unknown => "",
            Os::Linux => "Linux",
            Os::FreeBsd => "FreeBSD",
            Os::NetBsd => "NetBSD",
            Os::Lab => "lab",
            Os::Other(name) => name,
        }
    }

    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        *self != Os::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for os in KNOWN {
            assert_eq!(Os::of(os.name()), os);
        }
        assert_eq!(Os::of("FreeBSD"), Os::FreeBsd);
        assert_eq!(Os::of("Linux 6.1"), Os::Other("Linux 6.1".to_owned()));
        assert_eq!(Os::of("Linux 6.1").name(), "Linux 6.1");
        assert!(Os::Lab.is_known() && !Os::of("").is_known());
    }
}
