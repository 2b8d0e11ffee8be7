//! The operating system that was booted.

/// An operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Os {
    /// The evidence does not name it.
    #[default]
    Unknown,
    Linux,
    FreeBsd,
    NetBsd,
    /// bootscope's reference kernel.
    Lab,
    /// A system of which only the name is known.
    Other(String),
}

/// The systems that have a variant here.
const NAMED_SYSTEMS: [Os; 5] = [Os::Unknown, Os::Linux, Os::FreeBsd, Os::NetBsd, Os::Lab];

impl Os {
    /// The system of that name, as [`Os::name`] writes it and as recordings store it.
    pub fn of(name: &str) -> Os {
        let named = NAMED_SYSTEMS.into_iter().find(|os| os.name() == name);
        named.unwrap_or_else(|| Os::Other(name.to_owned()))
    }

    /// Its name; empty where it is unknown.
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

    pub fn is_known(&self) -> bool {
        *self != Os::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for os in NAMED_SYSTEMS {
            assert_eq!(Os::of(os.name()), os);
        }
        assert_eq!(Os::of("FreeBSD"), Os::FreeBsd);
        assert_eq!(Os::of("Linux 6.1"), Os::Other("Linux 6.1".to_owned()));
        assert_eq!(Os::of("Linux 6.1").name(), "Linux 6.1");
        assert!(Os::Lab.is_known() && !Os::of("").is_known());
    }
}
