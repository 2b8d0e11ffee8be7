//! The end mark that a boot waits for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The end mark of the boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Process 1 runs.
    #[default]
    Init,
    /// The machine is powered off.
    PowerOff,
    /// A line on the console or in the kernel log matches.
    Regex(String),
    /// systemd reports that this unit is active.
    Unit(String),
    /// This TCP port of the guest accepts a connection from the host.
    Tcp(u16),
    /// The guest serves this page to the host.
    Http(Page),
    /// A thread of this name runs.
    Process(String),
}

impl Until {
    /// The guest's port to which the host connects.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Until::Tcp(port) => Some(*port),
            Until::Http(page) => Some(page.port),
            _ => None,
        }
    }
}

/// A page that a guest serves over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Page {
    /// The host name in the request.
    pub host: String,
    /// The guest's port.
    pub port: u16,
    /// The path, from its first slash on.
    pub path: String,
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { host, port, path } = self;
        match port {
            80 => write!(f, "http://{host}{path}"),
            port => write!(f, "http://{host}:{port}{path}"),
        }
    }
}

impl FromStr for Page {
    type Err = String;

    /// `http://HOST[:PORT][/PATH]`
    fn from_str(text: &str) -> Result<Page, String> {
        const USAGE: &str = "write http://guest/health, or http://guest:8080/health";
        let rest = text.strip_prefix("http://").ok_or_else(|| format!("`{text}` is no page: {USAGE}"))?;
        let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok().filter(|&port| port > 0)),
            None => (server, Some(80)),
        };
        let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        let port = port.filter(|_| !host.is_empty() && is_plain(host) && is_plain(path));
        let port = port.ok_or_else(|| format!("`{text}` is no page: {USAGE}"))?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(Page { host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// True if this is the name of a systemd unit, which ends in its kind (systemd.unit(5)).
pub fn is_unit_name(name: &str) -> bool {
    const KINDS: [&str; 11] =
        ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
    name.rsplit_once('.').is_some_and(|(stem, kind)| !stem.is_empty() && !name.contains(' ') && KINDS.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_parsed_and_printed_as_a_url() {
        for (text, host, port, path) in [
            ("http://guest/health?full=1", "guest", 80, "/health?full=1"),
            ("http://a.example:8080", "a.example", 8080, "/"),
            ("http://guest:81/a:b/c", "guest", 81, "/a:b/c"),
        ] {
            let page: Page = text.parse().unwrap();
            assert_eq!((page.host.as_str(), page.port, page.path.as_str()), (host, port, path));
            assert_eq!(page.to_string().parse::<Page>().unwrap(), page);
        }
        for wrong in ["https://guest/", "http://", "http:///x", "http://guest:0/", "http://guest:70000/", "http://g/ x"]
        {
            assert!(wrong.parse::<Page>().unwrap_err().contains("http://guest"), "{wrong}");
        }
    }
}
